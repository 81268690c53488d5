"""What users say of single columns: limits, signs, factors of the penalty, a share of the square.

Optima are those of CVXPY with Clarabel; all estimators are asked.
"""

import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import stochadmm as sa

N, D = 80, 8
LOW = np.array([-0.2, -np.inf, 0.0, -1.0, -0.5, -np.inf, -1.0, -3.0])
HIGH = np.array([0.4, 0.7, np.inf, 1.0, 0.0, np.inf, 1.0, 3.0])
ALPHA = 0.05
OVERLAPPING, DISJOINT = [[0, 1, 2], [2, 3, 4], [5, 6], [7]], [[0, 1, 2], [3, 4], [5, 6]]
BEND = np.diff(np.eye(D), 2, axis=0)


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    y = X @ [1, 1, 0.5, 0, -1, -1, 2, 0] + 0.3 * rng.standard_normal(N)
    factor = rng.uniform(0.2, 2.0, D)
    factor[3] = 0.0
    return X, y, factor


def of_groups(w, groups):
    return sum(cp.norm2(w[group]) for group in groups), []


def of_latent(w, groups):
    parts = [cp.Variable(len(group)) for group in groups]
    sums = [
        w[j] == sum(part[g.index(j)] for part, g in zip(parts, groups, strict=True) if j in g)
        for j in {j for group in groups for j in group}
    ]
    return sum(map(cp.norm2, parts)), sums


KINDS = {
    "fused": (sa.FusedLassoRegressor, {}, lambda w: (cp.norm1(cp.diff(w)), [])),
    "trend": (sa.TrendFilterRegressor, {}, lambda w: (cp.norm1(BEND @ w), [])),
    "operator": (
        sa.GeneralizedLassoRegressor,
        {"operator": BEND},
        lambda w: (cp.norm1(BEND @ w), []),
    ),
    "groups": (
        sa.OverlappingGroupRegressor,
        {"groups": OVERLAPPING},
        lambda w: of_groups(w, OVERLAPPING),
    ),
    "latent": (
        sa.OverlappingGroupRegressor,
        {"groups": OVERLAPPING, "latent": True},
        lambda w: of_latent(w, OVERLAPPING),
    ),
    "disjoint": (
        sa.SparseGroupLassoRegressor,
        {"groups": DISJOINT},
        lambda w: of_groups(w, DISJOINT),
    ),
    "low rank": (sa.SparseLowRankRegressor, {}, lambda w: (cp.norm2(w), [])),
}
CASES = {
    "square": {"l2_ratio": 0.3},
    "bounds": {"bounds": (LOW, HIGH)},
    "all": {"l2_ratio": 0.3, "bounds": (LOW, HIGH), "penalty_weights": True},
}


def least(X, y, ratio, factor, norm, l2=0.0, bounds=None):
    """Return the optimum of the same problem, written down once more."""
    w, c = cp.Variable(D), cp.Variable()
    value, held = norm(w)
    l1 = cp.sum(cp.multiply(factor, cp.abs(w)))
    square = cp.sum(cp.multiply(factor, cp.square(w)))
    penalty = (1 - l2) * (ratio * l1 + (1 - ratio) * value) + l2 / 2 * square
    for j in range(D if bounds else 0):
        held += [w[j] >= bounds[0][j]] if np.isfinite(bounds[0][j]) else []
        held += [w[j] <= bounds[1][j]] if np.isfinite(bounds[1][j]) else []
    loss = cp.sum_squares(X @ w + c - y) / (2 * N)
    return cp.Problem(cp.Minimize(loss + ALPHA * penalty), held).solve(solver="CLARABEL")


@pytest.mark.filterwarnings("ignore:SparseGroupLasso.*in no group")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_takes_bounds_factors_and_a_square(kind, case):
    X, y, factor = rows()
    estimator, options, norm = KINDS[kind]
    given = options | CASES[case]
    has_l1 = kind not in ("trend", "operator")
    if "penalty_weights" in given:
        given["penalty_weights"] = factor
    else:
        factor = np.ones(D)
    if has_l1:
        given["l1_ratio"] = 0.5
    value = least(
        X,
        y,
        0.5 if has_l1 else 0.0,
        factor,
        norm,
        given.get("l2_ratio", 0.0),
        given.get("bounds"),
    )
    model = estimator(ALPHA, tol=1e-8, **given).fit(X, y)
    assert model.result_.objective == pytest.approx(value, abs=1e-6)
    assert model.result_.converged and model.dual_gap_ <= 1e-8
    if "bounds" in given:
        refitted = estimator(ALPHA, refit=True, **given).fit(X, y)
        for coef in (model.coef_, refitted.coef_):
            assert ((coef >= LOW - 1e-9) & (coef <= HIGH + 1e-9)).all()
        assert refitted.score(X, y) >= model.score(X, y) - 1e-9


@pytest.mark.parametrize("kind", ["groups", "latent", "disjoint", "low rank"])
def test_limits_of_what_is_not_penalized_may_exclude_zero(kind):
    X, y, _ = rows()
    estimator, options, _ = KINDS[kind]
    model = estimator(ALPHA, unpenalized=[4], bounds={4: (-0.5, -0.1)}, tol=1e-8, **options)
    model.fit(X, y)
    assert model.coef_[4] == pytest.approx(-0.5) and model.dual_gap_ <= 1e-8
    largest = model.alpha_max(X, y)
    null = model.set_params(alpha=1.001 * largest).fit(X, y)
    assert np.abs(np.delete(null.coef_, 4)).max() < 1e-9
    below = model.set_params(alpha=0.99 * largest).fit(X, y)
    assert np.delete(below.coef_, 4).any()


def test_limits_are_in_the_units_of_the_columns():
    X, y, _ = rows()
    scale = np.geomspace(0.01, 100, D)
    wide = sa.FusedLassoRegressor(
        ALPHA, standardize=True, bounds=(LOW / scale, HIGH / scale), tol=1e-9
    ).fit(X * scale, y)
    plain = sa.FusedLassoRegressor(ALPHA, standardize=True, bounds=(LOW, HIGH), tol=1e-9)
    np.testing.assert_allclose(wide.coef_ * scale, plain.fit(X, y).coef_, atol=1e-7)


@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_signs_by_name_are_bounds_of_other_losses_too(loss):
    X, y, _ = rows()
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    signs = {"a": -1, "e": 1, "g": 0}
    model = (sa.FusedLassoRegressor if loss == "poisson" else sa.FusedLassoClassifier)(
        0.01, loss=loss, monotone=signs, tol=1e-7
    )
    target = np.round(np.exp(y / 3)) if loss == "poisson" else y > 0
    model.fit(frame, target)
    coef = np.ravel(model.coef_)
    assert coef[0] <= 0 <= coef[4] and coef[6] > 0
    bounds = {"a": (None, 0.0), "e": (0, None)}
    same = model.__class__(0.01, loss=loss, bounds=bounds, tol=1e-7).fit(frame, target)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-9)


def test_rows_of_matrices_have_factors():
    X, y, _ = rows()
    Y = np.column_stack([y, -y, X[:, 0]])
    weights = {2: 1e4, 0: 0.0}
    for sparsity in ("rows", "entries"):
        model = sa.SparseLowRankRegressor(
            0.05, sparsity=sparsity, l1_ratio=0.5, penalty_weights=weights, bounds=(-0.4, 0.4)
        ).fit(X, Y)
        assert not model.coef_[:, 2].any() and model.coef_[0, 0]
        assert np.abs(model.coef_).max() <= 0.4 + 1e-9 and model.dual_gap_ <= 1e-4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds": (1.0, 2.0)}, "zero between them"),
        ({"bounds": {0: (1.0, -1.0)}, "unpenalized": [0]}, "the lower one first"),
        ({"bounds": 3}, "expected a pair"),
        ({"bounds": {9: (0, 1)}}, "out of range"),
        ({"monotone": {0: 2}}, "must be 1, 0 or -1"),
        ({"monotone": [1, 0]}, "one number for each of 8 columns"),
        ({"penalty_weights": {0: -1.0}}, "finite numbers >= 0"),
        ({"penalty_weights": {0: 2.0}, "l1_ratio": 0.0}, "set l1_ratio or l2_ratio"),
        ({"l2_ratio": 1.5}, "l2_ratio is 1.5"),
    ],
)
def test_what_cannot_be_meant_is_named(options, words):
    X, y, _ = rows()
    with pytest.raises(ValueError, match=words):
        sa.FusedLassoRegressor(**options).fit(X, y)


def test_shares_of_the_l1_norm_are_compared():
    X, y, _ = rows()
    ratios = [0.1, 0.9]
    search = sa.FusedLassoRegressorCV(l1_ratio=ratios, alphas=6, cv=3, eps=1e-5).fit(X, y)
    scores = {}
    for ratio in ratios:
        one = sa.FusedLassoRegressorCV(l1_ratio=ratio, alphas=6, cv=3, eps=1e-5).fit(X, y)
        scores[ratio] = one.score_path_.mean(axis=1).max()
        if ratio == search.l1_ratio_:
            np.testing.assert_array_equal(one.coef_, search.coef_)
            np.testing.assert_array_equal(one.alphas_, search.alphas_)
    assert search.l1_ratio_ == max(scores, key=scores.get)
    assert f"l1_ratio = {search.l1_ratio_:g}" in search.summary()
    again = search.set_params(l1_ratio=0.3).fit(X, y)
    assert again.l1_ratio_ == 0.3
    with pytest.raises(ValueError, match="l1_ratio is 'a'"):
        sa.LassoRegressorCV(l1_ratio=["a"]).fit(X, y)


def test_frames_have_a_square_too_and_say_where_limits_belong():
    X, y, _ = rows()
    frame = pd.DataFrame({"a": np.arange(N) % 5, "x": X[:, 0]})
    terms = {"a": sa.terms.Ordered(), "x": sa.terms.Free()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = sa.StructuredRegressor(
            0.1, terms=terms, weights="equal", l2_ratio=0.4, tol=1e-9
        ).fit(frame, y)
    w, b, c = cp.Variable(5), cp.Variable(), cp.Variable()
    z = w[frame["a"].to_numpy()] + b * frame["x"].to_numpy() + c
    penalty = 0.6 * cp.norm1(cp.diff(w)) + 0.2 * cp.sum_squares(w)
    loss = cp.sum_squares(z - y) / (2 * N)
    best = cp.Problem(cp.Minimize(loss + 0.1 * penalty)).solve(solver="CLARABEL")
    assert model.result_.objective == pytest.approx(best, abs=1e-6)
    with pytest.raises(ValueError, match=r"bounds is for models of matrices; give terms bounds"):
        sa.StructuredRegressor(bounds=(0, 1)).fit(frame, y)


def test_bounds_of_terms_hold_in_a_refit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": np.arange(600) % 6})
    y = np.array([0.0, 1.0, 0.5, 3.0, 2.0, 4.0])[frame["a"]] + 0.1 * rng.normal(size=600)
    for intercept in (True, False):
        for term in (
            sa.terms.Ordered(base=0, bounds=(None, 2.5)),
            sa.terms.Ordered(increasing=True),
            sa.terms.Ordered(base=0, increasing=True, bounds=(0, 2.5)),
        ):
            model = sa.StructuredRegressor(
                1e-4, terms={"a": term}, refit=True, fit_intercept=intercept
            ).fit(frame, y)
            coef = model._design.parts[0].spread(model.coef_)
            if term.increasing:
                assert (np.diff(coef) >= -1e-9).all()
            if term.bounds:
                assert (coef - coef[0]).max() <= 2.5 + 1e-9
                assert (coef - coef[0]).max() >= 2.5 - 1e-6
