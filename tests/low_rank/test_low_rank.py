"""Nuclear norm + sparse norms: against an independent solver, by properties, bounds proved."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.low_rank import Form, SingularValueThreshold, moments, read, reduced
from stochadmm.low_rank.bound import ball_maximum
from stochadmm.solvers import LowRankGram

N, D, C = 60, 8, 5
A, B = 0.15, 0.06


def data(seed=0, n=N, d=D, outputs=C):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(1.0, 0.3, d) + np.linspace(-1.0, 2.0, d)
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, outputs))
    W[::3] = 0
    return X, X @ W + 0.7 * rng.standard_normal((n, outputs)) + 3.0


def problem(X, Y, rows=False, *, a=A, b=B, loss=None, free=(), **given):
    """Return both norms of the coefficients, as the estimators state them."""
    d = X.shape[1]
    held = np.setdiff1d(np.arange(d), free)
    one = sa.Selection([held], d) if len(free) else sa.Identity(d)
    norms = [(sa.Nuclear(a), held.size), ((sa.RowsL21 if rows else sa.L1)(b), held.size)]
    return sa.Problem.linear(
        loss or sa.Squared(),
        X,
        Y,
        structure=sa.VStack([one, one]),
        on_structure=sa.Stacked(norms),
        **given,
    )


def optimum(X, Y, rows=False, *, a=A, b=B, weight=None, intercept=False, free=(), scale=1.0):
    """Return the objective, by NumPy, at the point of a conic solver: never below the optimum."""
    X = X.toarray() if sparse.issparse(X) else X
    weight = np.ones(Y.shape) if weight is None else np.broadcast_to(weight.T, Y.T.shape).T
    weight = weight * (scale / 2 / weight.max(axis=1).sum())
    held = np.setdiff1d(np.arange(X.shape[1]), free)
    W, w0 = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    fit = X @ W + (np.ones((len(X), 1)) @ w0 if intercept else 0)
    loss = cp.sum_squares(cp.multiply(np.sqrt(weight), fit - Y))
    other = cp.sum(cp.norm(W[held], 2, axis=1)) if rows else cp.sum(cp.abs(W[held]))
    statement = cp.Problem(cp.Minimize(loss + a * cp.normNuc(W[held]) + b * other))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may miss these tolerances by a little
        statement.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    V = W.value[held]
    last = np.linalg.norm(V, axis=1).sum() if rows else np.abs(V).sum()
    left = X @ W.value + (w0.value if intercept else 0) - Y
    return float((weight * left**2).sum() + a * np.linalg.norm(V, "nuc") + b * last)


def missing_targets(Y):
    """Return weights of entries: three outputs with rows of their own, two that share theirs."""
    weight = np.random.default_rng(5).random(Y.shape) < 0.6
    weight[:, 1] = weight[:, 0]
    weight[:, 3] = True
    return weight.astype(float)


def duplicated(X):
    """Return columns with a singular Gram matrix, one of them zero."""
    return np.hstack([X, X[:, :3], X[:, :1] + X[:, 1:2], np.zeros((len(X), 1))])


CASES = {
    "plain": lambda X, Y: (X, Y, {}, {}),
    "intercept": lambda X, Y: (X, Y, {"intercept": True}, {"intercept": True}),
    "row weights": lambda X, Y: (
        X,
        Y,
        {"sample_weight": np.arange(len(X)) % 3.0, "intercept": True},
        {"weight": np.arange(len(X)) % 3.0, "intercept": True},
    ),
    "missing targets": lambda X, Y: (
        X,
        Y,
        {"sample_weight": missing_targets(Y), "intercept": True},
        {"weight": missing_targets(Y), "intercept": True},
    ),
    "free columns": lambda X, Y: (
        X,
        Y,
        {"free": (1, 4), "intercept": True},
        {"free": (1, 4), "intercept": True},
    ),
    "singular": lambda X, Y: (duplicated(X), Y, {}, {}),
    "singular and free": lambda X, Y: (
        duplicated(X),
        Y,
        {"free": (0, D), "intercept": True},
        {"free": (0, D), "intercept": True},
    ),
    "fewer rows than columns": lambda X, Y: (
        X[:6],
        Y[:6],
        {"intercept": True},
        {"intercept": True},
    ),
    "sparse rows": lambda X, Y: (
        sparse.csr_array(np.where(X > 0.5, X, 0.0)),
        Y,
        {"intercept": True},
        {"intercept": True},
    ),
    "not halved": lambda X, Y: (X, Y, {"loss": sa.Squared(half=False)}, {"scale": 2.0}),
}


@pytest.mark.parametrize("rows", [False, True], ids=["entries", "rows"])
@pytest.mark.parametrize("case", CASES)
def test_the_certified_answer_agrees_with_a_conic_solver(case, rows):
    X, Y, stated, told = CASES[case](*data())
    best = optimum(X, Y, rows, **told)
    result = sa.minimize(problem(X, Y, rows, **stated), stop=sa.Gap(1e-8), max_passes=1000)
    assert result.info["route"] == "low-rank-gram"
    assert result.status.name == "CONVERGED"
    assert result.objective - result.gap <= best * (1 + 1e-12)  # the bound is a bound
    assert abs(result.objective - best) <= 3e-8 * best


def test_every_bound_on_the_way_is_below_the_optimum():
    X, Y = data(1)
    X = duplicated(X)
    best = optimum(X, Y)
    bounds = []
    sa.minimize(
        problem(X, Y),
        LowRankGram(inner=5),
        stop=sa.Gap(1e-9),
        max_passes=300,
        callback=lambda record, _: bounds.append(record.objective - record.gap),
    )
    assert len(bounds) > 5
    assert max(bounds) <= best * (1 + 1e-12)
    assert bounds[-1] >= best * (1 - 1e-6)


@pytest.mark.parametrize("decades", [0, 4, 8, 12])
def test_ill_conditioned_columns_are_certified(decades):
    rng = np.random.default_rng(3)
    X, Y = data(3)
    X = (X - X.mean(axis=0)) @ np.linalg.qr(rng.standard_normal((D, D)))[0]
    X = X * np.logspace(0, -decades, D)
    result = sa.minimize(problem(X, Y - Y.mean(axis=0)), stop=sa.Gap(1e-6), max_passes=1000)
    best = optimum(X, Y - Y.mean(axis=0))
    assert result.status.name == "CONVERGED"
    assert result.objective - result.gap <= best * (1 + 1e-12)


def test_the_ball_bound_is_the_maximum_within_the_ball():
    rng = np.random.default_rng(0)
    values = np.array([0.0, 0.0, 1e-9, 0.3, 2.0])
    p = rng.standard_normal(5)
    for radius in (0.1, 3.0, 100.0):
        w = cp.Variable(5)
        inside = [cp.norm(w) <= radius]
        best = cp.Problem(
            cp.Maximize(p @ w - 0.5 * cp.sum(cp.multiply(values, cp.square(w)))), inside
        ).solve(solver=cp.CLARABEL)
        found = ball_maximum(p**2, values, radius)
        assert best * (1 - 1e-6) <= found <= best * (1 + 1e-3)


def test_a_minimum_inside_the_ball_needs_no_ball():
    p, values = np.array([1.0, -2.0]), np.array([0.5, 4.0])
    assert ball_maximum(p**2, values, 1e3) == pytest.approx(0.5 * (p**2 / values).sum(), rel=1e-14)


def test_row_weight_two_is_the_row_twice():
    X, Y = data(2)
    twice = np.r_[np.arange(N), np.arange(0, N, 2)]
    weight = np.where(np.arange(N) % 2 == 0, 2.0, 1.0)
    heavy = sa.minimize(problem(X, Y, sample_weight=weight, intercept=True), stop=sa.Gap(1e-10))
    again = sa.minimize(problem(X[twice], Y[twice], intercept=True), stop=sa.Gap(1e-10))
    assert heavy.objective == pytest.approx(again.objective, rel=1e-9)
    np.testing.assert_allclose(heavy.coef, again.coef, atol=1e-4)


def test_permuted_tasks_permute_the_answer():
    X, Y = data(4)
    order = np.array([3, 0, 4, 1, 2])
    weight = missing_targets(Y)
    one = sa.minimize(problem(X, Y, sample_weight=weight), stop=sa.Gap(1e-10), max_passes=1000)
    two = sa.minimize(
        problem(X, Y[:, order], sample_weight=weight[:, order]),
        stop=sa.Gap(1e-10),
        max_passes=1000,
    )
    assert one.objective == pytest.approx(two.objective, rel=1e-9)
    np.testing.assert_allclose(one.coef[:, order], two.coef, atol=1e-4)


def test_scaling_targets_and_strengths_scales_the_answer():
    X, Y = data(6)
    one = sa.minimize(problem(X, Y), stop=sa.Gap(1e-8))
    two = sa.minimize(problem(X, 1e3 * Y, a=1e3 * A, b=1e3 * B), stop=sa.Gap(1e-8))
    assert two.objective == pytest.approx(1e6 * one.objective, rel=1e-7)


def test_the_same_call_twice_gives_the_same_bits():
    X, Y = data(7)
    one, two = (sa.minimize(problem(X, Y, intercept=True)) for _ in range(2))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert one.gap == two.gap and one.n_passes == two.n_passes


def test_float32_rows_give_float32_answers_certified_in_float64():
    X, Y = data(8)
    small = sa.minimize(
        problem(X.astype(np.float32), Y.astype(np.float32), intercept=True), stop=sa.Gap(1e-5)
    )
    best = optimum(
        X.astype(np.float32).astype(float), Y.astype(np.float32).astype(float), intercept=True
    )
    assert small.coef.dtype == np.float32 and small.status.name == "CONVERGED"
    assert small.objective - small.gap <= best * (1 + 1e-12)


def test_far_away_means_do_not_harm_the_intercept():
    X, Y = data(9)
    stop = sa.Gap(1e-6, relative=False)  # of relative ones, F(0) would be the measure
    near = sa.minimize(problem(X, Y, intercept=True), stop=stop)
    far = sa.minimize(problem(X + 1e5, Y - 1e5, intercept=True), stop=stop)
    assert far.objective == pytest.approx(near.objective, rel=1e-6)
    assert far.status.name == "CONVERGED"


def test_where_the_norms_hold_everything_at_zero_the_answer_is_zero():
    X, Y = data(10)
    result = sa.minimize(problem(X, Y, a=100.0, b=50.0), stop=sa.Gap(1e-6))
    assert result.status.name == "CONVERGED"
    assert not result.coef.any()


def test_a_warm_start_needs_fewer_iterations():
    X, Y = data(11, n=200, d=20, outputs=12)
    cold = sa.minimize(problem(X, Y, intercept=True), stop=sa.Gap(1e-7))
    near = problem(X, Y, intercept=True, a=1.02 * A)
    again = sa.minimize(near, stop=sa.Gap(1e-7))
    warm = sa.minimize(near, stop=sa.Gap(1e-7), start=cold)
    assert warm.info["iterations"] < again.info["iterations"]


def test_a_run_goes_on_where_it_stopped():
    X, Y = data(12, n=200, d=20, outputs=12)
    method = LowRankGram(inner=20)
    whole = sa.minimize(problem(X, Y), method, stop=sa.Gap(1e-9))
    part = sa.minimize(problem(X, Y), method, stop=sa.Gap(1e-9), max_passes=3)
    rest = sa.minimize(problem(X, Y), method, stop=sa.Gap(1e-9), resume=part)
    assert part.status.name == "MAX_PASSES"
    np.testing.assert_array_equal(rest.coef, whole.coef)


@pytest.mark.parametrize(
    "stated",
    [
        lambda X, Y: sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.Nuclear(0.2)),
        lambda X, Y: sa.Problem.linear(
            sa.Squared(), X, Y, on_structure=sa.Nuclear(0.2), on_coefficients=sa.L1(0.1)
        ),
        lambda X, Y: sa.Problem.linear(
            sa.Squared(),
            X,
            Y,
            on_structure=sa.Nuclear(0.2),
            intercept=True,
            on_coefficients=sa.L1(0.1) + sa.NonNegative(),
        ),
        lambda X, Y: sa.Problem.linear(
            sa.Squared(), X, Y, on_structure=sa.Nuclear(0.2), on_coefficients=sa.Ridge(0.3)
        ),
        lambda X, Y: sa.Problem.linear(
            sa.Squared(),
            X,
            Y,
            on_structure=sa.Nuclear(0.2),
            on_coefficients=sa.RowsL21(0.1, weights=np.arange(D)),
        ),
    ],
    ids=["alone", "two blocks", "non-negative", "ridge", "weighted rows"],
)
def test_other_statements_of_the_problem_are_read_and_agree_with_another_method(stated):
    stated = stated(*data(13))
    assert LowRankGram().why_not(stated) is None
    result = sa.minimize(stated, stop=sa.Gap(1e-8), max_passes=1000)
    other = sa.minimize(stated, "gram", stop=sa.Gap(1e-8), max_passes=1000)
    assert result.status.name == other.status.name == "CONVERGED"
    assert result.objective == pytest.approx(other.objective, rel=3e-8)


def test_problems_that_are_not_served_are_refused_in_words():
    X, Y = data(14)
    chain = sa.Problem.linear(
        sa.Squared(), X, Y, structure=sa.Differences(D), on_structure=sa.Nuclear(0.1)
    )
    classes = np.arange(N) % 3
    cases = {
        "more than a choice": chain,
        "not exactly one nuclear norm": sa.Problem.linear(
            sa.Squared(), X, Y, on_coefficients=sa.L1(0.1)
        ),
        "no matrix of coefficients": sa.Problem.linear(
            sa.Squared(), X, Y[:, 0], on_coefficients=sa.L1(0.1)
        ),
        "not squared": problem(X, classes, loss=sa.Multinomial()),
    }
    for words, unfit in cases.items():
        assert words in LowRankGram().why_not(unfit)
        with pytest.raises(ValueError, match=words):
            sa.minimize(unfit, "low-rank-gram")


def test_thresholded_singular_values_agree_with_the_svd_of_any_shape():
    rng = np.random.default_rng(0)
    for shape in ((90, 70), (70, 90), (5, 3)):
        prox = SingularValueThreshold()
        V = rng.standard_normal(shape)
        for threshold in (0.1, 0.7 * np.linalg.norm(V, 2), 2 * np.linalg.norm(V, 2)):
            for _ in range(2):  # the second time only a few eigenpairs are asked for
                Z, values = prox(V, threshold)
                left, s, right = np.linalg.svd(V, full_matrices=False)
                kept = np.maximum(s - threshold, 0)
                np.testing.assert_allclose(Z, (left * kept) @ right, atol=1e-10)
                assert values.size == np.count_nonzero(kept)


def test_the_reduced_quadratic_is_the_loss_minimized_over_free_rows():
    X, Y = data(15)
    stated = problem(X, Y, free=(2,), intercept=True, sample_weight=missing_targets(Y))
    form = read(stated)
    assert isinstance(form, Form)
    found = moments(stated.f2)
    E = reduced(found, form.rows, form.free)
    W = np.random.default_rng(1).standard_normal((form.rows.size, C))
    whole = np.zeros(stated.shape2)
    whole[form.rows], whole[form.free] = W, E.free(W)
    at = stated.f2.evaluate(found.restored(whole))
    assert E.value(W) == pytest.approx(at.value, rel=1e-12)
    np.testing.assert_allclose(at.gradient[form.free], 0, atol=1e-12)
    np.testing.assert_allclose(E.apply(W) - E.linear, at.gradient[form.rows], atol=1e-12)


def test_an_estimator_with_missing_targets_takes_this_route_and_ignores_them():
    X, Y = data(16, n=150)
    Y[missing_targets(Y) == 0] = np.nan
    model = sa.SparseLowRankRegressor(alpha=0.1).fit(X, Y)
    best = optimum(
        X, np.nan_to_num(Y), a=0.05, b=0.05, weight=np.isfinite(Y).astype(float), intercept=True
    )
    residual = np.nan_to_num(Y - model.predict(X))
    loss = 0.5 * (residual**2).sum() / np.isfinite(Y).any(axis=1).sum()
    value = loss + 0.05 * np.linalg.norm(model.coef_, "nuc") + 0.05 * np.abs(model.coef_).sum()
    assert value == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", [1, 5, 7])
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_an_iteration_at_rest_has_the_zeros_and_rank_of_one_that_went_on(seed, alpha):
    rng = np.random.default_rng(seed)
    n, d, k = [(100, 10, 3), (60, 12, 5), (150, 8, 8), (80, 20, 4)][seed % 4]
    X = rng.standard_normal((n, d))
    B = rng.standard_normal((d, 2)) @ rng.standard_normal((2, k))
    B[rng.random(d) < 0.5] = 0
    Y = X @ B + rng.standard_normal((n, k))
    on = LowRankGram(rest=0.0)
    found, longer = (sa.SparseLowRankRegressor(alpha, solver=s).fit(X, Y) for s in ("auto", on))
    assert found.rank_ == longer.rank_
    np.testing.assert_array_equal(found.coef_ == 0, longer.coef_ == 0)
    np.testing.assert_allclose(found.coef_, longer.coef_, rtol=1e-9, atol=1e-11)
    assert found.result_.info["iterations"] <= longer.result_.info["iterations"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_single_row_of_weight_beside_an_intercept_is_fitted_without_a_word():
    rng = np.random.default_rng(0)
    X, Y, weight = rng.standard_normal((60, 1)), 1e-6 * rng.standard_normal((60, 3)), np.zeros(60)
    weight[0] = 1.0
    problem = sa.Problem.linear(
        sa.Squared(), X, Y, on_coefficients=sa.Nuclear(4e-7), intercept=True, sample_weight=weight
    )
    found = sa.minimize(problem)
    assert found.converged and not found.coef.any()
    np.testing.assert_allclose(found.intercept, Y[0])
