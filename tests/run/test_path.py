"""Paths, the largest useful strength, and strengths chosen by cross-validation."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LassoCV, enet_path
from tests.samples import sample

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.certificates import model_of
from stochadmm.estimators._search import best_index
from stochadmm.forms.elimination import Elimination
from stochadmm.forms.one_block import one_block
from stochadmm.forms.structure import StructureSolver
from stochadmm.problem import at_strength
from stochadmm.run import path
from stochadmm.run.loop import Request
from stochadmm.run.minimize import solve as solve_in
from stochadmm.run.null_model import null_model
from stochadmm.run.path import (
    _norms_of_coefficients,
    alpha_grid,
    alpha_max,
    solve_path,
)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_a_path_is_that_of_scikit_learn(l1_ratio):
    X, y = sample()
    centered, target = X - X.mean(axis=0), y - y.mean()
    path = sa.LassoRegressor(l1_ratio=l1_ratio).path(X, y, alphas=10)
    alphas, coefs, _ = enet_path(
        centered, target, l1_ratio=l1_ratio, alphas=path.alphas, tol=1e-12, max_iter=100_000
    )
    np.testing.assert_array_equal(alphas, path.alphas)
    np.testing.assert_allclose(path.coefs, coefs.T, atol=1e-6)
    largest = np.abs(centered.T @ target).max() / (len(y) * l1_ratio)
    np.testing.assert_allclose(path.alphas, np.geomspace(largest, largest / 1000, 10), rtol=1e-5)
    assert path.gaps.max() < 1e-8
    assert path.dof[0] == 1 and path.dof[-1] == 7


def test_every_point_of_a_path_is_the_fit_at_its_alpha():
    X, y = sample()
    path = sa.GraphFusedClassifier(graph=(2, 3)).path(X, y > 0, alphas=6)
    assert path.coefs.shape == (6, 1, 6) and path.intercepts.shape == (6, 1)
    for alpha, coef, bic in zip(path.alphas, path.coefs, path.bic, strict=True):
        model = sa.GraphFusedClassifier(graph=(2, 3), alpha=alpha).fit(X, y > 0)
        np.testing.assert_allclose(coef, model.coef_, atol=1e-6)
        np.testing.assert_allclose(bic, model.bic_, rtol=1e-6)


def test_a_path_leaves_the_estimator_alone_and_sorts_alphas():
    X, y = sample()
    model = sa.LassoRegressor()
    path = model.path(X, y, alphas=[0.01, 1.0, 0.1])
    assert path.alphas.tolist() == [1.0, 0.1, 0.01]
    assert not hasattr(model, "coef_")
    with pytest.raises(ValueError, match="alphas must be non-negative"):
        model.path(X, y, alphas=[])


def test_warm_starts_save_passes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 10))
    y = X @ np.repeat([1.0, 0.0], 5) + rng.standard_normal(30_000) > 0
    model = sa.FusedLassoClassifier(tol=1e-4)
    path = model.path(X, y, alphas=8)
    cold = [
        sa.FusedLassoClassifier(tol=1e-4, alpha=alpha).fit(X, y).n_passes_ for alpha in path.alphas
    ]
    assert path.gaps.max() <= 1e-4
    assert path.n_passes.sum() < 0.8 * sum(cold)


def test_the_gram_matrix_is_made_once_along_a_path():
    X, y = sample(n=50_000)
    path = sa.FusedLassoRegressor().path(X, y, alphas=6)
    cold = [sa.FusedLassoRegressor(alpha=a).fit(X, y).n_passes_ for a in path.alphas[1:]]
    assert path.n_passes[1:].sum() < sum(cold)
    single = sa.FusedLassoRegressor(alpha=path.alphas[3]).fit(X, y)
    np.testing.assert_allclose(path.coefs[3], single.coef_, atol=1e-7)


def test_the_multiplier_is_carried_in_proportion_to_alpha():
    X, y = sample()
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(1.0)
    )
    seen = []

    def solve(problem, start, workspace):
        seen.append(start)
        return sa.minimize(problem, "gram", stop=sa.Gap(1e-10))

    found = list(solve_path(unit, [0.2, 0.1], solve))
    assert seen[0] is None
    np.testing.assert_allclose(seen[1][1], 0.5 * found[0][2].dual)
    np.testing.assert_array_equal(seen[1][0].x2, found[0][2].x2)


def test_strength_zero_has_no_structure():
    X, y = sample()
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(1.0)
    )
    assert not at_strength(unit, 0.0).constrained
    exact = np.linalg.lstsq(X, y, rcond=None)[0]
    model = sa.FusedLassoRegressor(alpha=0.0, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact, atol=1e-8)


def test_the_null_model_is_the_fit_of_what_is_free():
    X, y = sample()
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(1.0), intercept=True
    )
    x2, gradient = null_model(unit)
    design = np.column_stack([X.sum(axis=1), np.ones(len(X))])
    level, intercept = np.linalg.lstsq(design, y, rcond=None)[0]
    np.testing.assert_allclose(x2, [level] * 6 + [intercept], atol=1e-8)
    assert abs(gradient[:6].sum()) < 1e-12 and abs(gradient[-1]) < 1e-12


def test_alpha_max_of_a_chain_by_hand():
    X, y = sample()
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(1.0)
    )
    _, gradient = null_model(unit)
    running = np.abs(np.cumsum(gradient))[:-1].max()
    np.testing.assert_allclose(alpha_max(unit), running, rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("kind", ["walk", "smooth", "iid"])
def test_alpha_max_of_a_trend_filter_is_its_only_multiplier(order, kind):
    rng = np.random.default_rng(order)
    n, d = 40, 60
    X = rng.standard_normal((n, d))
    if kind != "iid":
        X = np.cumsum(X, axis=1)
    if kind == "smooth":
        X = np.cumsum(X, axis=1) / d
    y = X @ np.interp(np.arange(d), [0, 20, 40, 59], [0.0, 1.0, -1.0, 0.5])
    y = y / y.std() + 0.3 * rng.standard_normal(n)
    D = sa.Differences(d, order)
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=D, on_structure=sa.L1(1.0), intercept=True
    )
    powers = np.polynomial.legendre.legvander(np.linspace(-1, 1, d), order - 1)
    free = np.column_stack([X @ powers, np.ones(n)])
    free, _ = np.linalg.qr(free)
    rest = y - free @ (free.T @ y)
    by_hand = np.linalg.lstsq(D.tosparse().toarray().T, X.T @ rest / n, rcond=None)[0]
    assert alpha_max(unit) == pytest.approx(np.abs(by_hand).max(), rel=1e-5)


@pytest.mark.parametrize("kind", ["graph", "dense"])
def test_alpha_max_is_large_enough_and_close_where_the_linear_program_fails(kind, monkeypatch):
    rng = np.random.default_rng(0)
    D = sa.GridDifferences((5, 5)) if kind == "graph" else rng.standard_normal((50, 25))
    X = rng.standard_normal((40, 25))
    y = X @ rng.standard_normal(25)
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=D, on_structure=sa.L1(1.0), intercept=True
    )
    exact = alpha_max(unit)
    monkeypatch.setattr(path, "_linear_program", lambda *_: None)
    found = alpha_max(unit)
    assert exact * (1 - 1e-5) <= found <= exact * 1.01


@pytest.mark.parametrize("D", [sa.Differences(25), sa.GridDifferences((5, 5))])
def test_no_strength_is_large_enough_for_a_sign_that_the_multiplier_has_not(D):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 25))
    y = X @ D.tosparse().T @ np.ones(D.shape[0]) + X @ np.arange(25.0)
    unit = sa.Problem.linear(sa.Squared(), X, y, structure=D, on_structure=sa.NonNegative())
    with pytest.raises(ValueError, match="alpha_max is not available"):
        alpha_max(unit)


@pytest.mark.parametrize("order", [1, 2])
def test_default_strengths_on_a_random_walk_are_certified_and_cross_validated(order):
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((60, 20)), axis=1)
    y = X @ np.repeat([0.0, 1.0], 10) + 20.0 * rng.standard_normal(60)
    model = sa.TrendFilterRegressor(order=order - 1)
    found = model.path(X, y, alphas=5)
    assert found.gaps.max() <= 1e-4
    kinks = np.abs(np.diff(found.coefs, order)).max(axis=-1)
    assert kinks[0] <= 1e-6 * kinks[-1]
    if order == 1:
        chosen = sa.FusedLassoRegressorCV(alphas=5, cv=3).fit(X, y)
        assert chosen.alpha_ in chosen.alphas_ and chosen.alpha_ < chosen.alphas_.max()


def test_alpha_max_of_groups_and_rows_by_hand():
    X, y = sample()
    Y = np.column_stack([y, X[:, 0]])
    gradient = X.T @ (Y - Y.mean(axis=0)) / len(X)
    rows = sa.SparseLowRankRegressor(l1_ratio=1.0, sparsity="rows").alpha_max(X, Y)
    np.testing.assert_allclose(rows, np.linalg.norm(gradient, axis=1).max(), rtol=1e-5)
    nuclear = sa.SparseLowRankRegressor(l1_ratio=0.0).alpha_max(X, Y)
    np.testing.assert_allclose(nuclear, np.linalg.norm(gradient, 2), rtol=1e-5)
    groups = [[0, 1], [2, 3], [4, 5]]
    model = sa.OverlappingGroupRegressor(groups=groups, group_weights=[1.0, 1.0, 2.0])
    norms = [np.linalg.norm(gradient[g, 0]) / c for g, c in zip(groups, [1, 1, 2], strict=True)]
    np.testing.assert_allclose(model.alpha_max(X, y), max(norms), rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*2 columns are in no group")
@pytest.mark.parametrize("groups", [[[0, 1, 2], [2, 3, 4], [4, 5, 0]], [[0, 1], [1, 2, 3]]])
@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4, 1.0])
def test_alpha_max_of_overlapping_groups(groups, latent, l1_ratio):
    X, y = sample()
    options = {"groups": groups, "latent": latent, "l1_ratio": l1_ratio}
    largest = sa.OverlappingGroupRegressor(**options).alpha_max(X, y)
    listed = sorted({j for group in groups for j in group})
    above = sa.OverlappingGroupRegressor(alpha=1.01 * largest, **options).fit(X, y)
    below = sa.OverlappingGroupRegressor(alpha=0.99 * largest, **options).fit(X, y)
    inside = listed if l1_ratio == 0 else slice(None)
    assert np.abs(above.coef_[inside]).max() < 1e-9 < np.abs(below.coef_[inside]).max()


def stacked(kind, d=40):
    """Return unit problems whose largest strength has no closed form."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, d))
    Y = X[:, :5] @ rng.standard_normal((5, 4)) + rng.standard_normal((100, 4))
    if kind == "groups":
        copies = sa.Selection([range(i, min(i + 20, d)) for i in range(0, d - 10, 10)], d)
        return sa.Problem.linear(
            sa.Squared(), X, Y[:, 0], structure=copies, on_structure=sa.GroupL2(1.0, copies.sizes)
        )
    other = sa.L1(0.5) if kind == "entries" else sa.RowsL21(0.5)
    return sa.Problem.linear(
        sa.Squared(),
        X,
        Y,
        structure=sa.Identity(d),
        on_structure=sa.Nuclear(0.5),
        on_coefficients=other,
        intercept=kind == "rows",
    )


@pytest.mark.parametrize(
    "kind, d", [("entries", 40), ("rows", 40), ("groups", 40), ("groups", 400)]
)
def test_alpha_max_between_bounds_is_that_of_exact_proximal_steps(kind, d, monkeypatch):
    unit = stacked(kind, d)
    fast = alpha_max(unit)
    monkeypatch.setattr(path, "DENSE_IDENTITY", d)
    monkeypatch.setattr(path, "_norms_of_coefficients", lambda *parts: None)
    np.testing.assert_allclose(fast, alpha_max(unit), rtol=2e-6)


def test_alpha_max_of_norms_solves_no_quadratic_models(monkeypatch):
    monkeypatch.setattr(path, "minimize_quadratic", None)
    for kind in ("entries", "rows", "groups"):
        assert alpha_max(stacked(kind)) > 0


def test_alpha_max_is_climbed_where_a_penalty_is_no_norm():
    X, y = sample()
    for part in (sa.ElasticNet(1.0, 0.5), sa.NonNegative()):
        unit = sa.Problem.linear(
            sa.Squared(),
            X,
            y,
            structure=sa.Identity(6),
            on_structure=sa.GroupL2(1.0, [3, 3]),
            on_coefficients=part,
        )
        assert _norms_of_coefficients(unit) is None and alpha_max(unit) > 0


@pytest.mark.parametrize("name", ["LassoRegressor", "FusedLassoRegressor"])
def test_alpha_max_with_signs(name):
    X, y = sample()
    model = getattr(sa, name)(positive=True)
    largest = model.alpha_max(X, y)
    above = getattr(sa, name)(positive=True, alpha=1.01 * largest).fit(X, y)
    below = getattr(sa, name)(positive=True, alpha=0.99 * largest).fit(X, y)
    assert not above.coef_.any() and below.coef_.any()


def test_there_is_no_largest_alpha_of_a_square():
    X, y = sample()
    with pytest.raises(ValueError, match="choose l1_ratio > 0"):
        sa.LassoRegressor(l1_ratio=0.0).alpha_max(X, y)
    with pytest.raises(ValueError, match="targets are constant"):
        sa.LassoRegressor().path(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="0 < eps < 1"):
        alpha_grid(1.0, eps=2.0)


def test_cross_validation_is_that_of_scikit_learn():
    X, y = sample()
    model = sa.LassoRegressorCV(alphas=12, cv=4).fit(X, y)
    reference = LassoCV(alphas=model.alphas_, cv=4, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(model.mse_path_, reference.mse_path_, rtol=1e-6)
    assert model.alpha_ == reference.alpha_
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-7)
    assert model.alphas_[model.best_index_] == model.alpha_


def test_the_one_standard_error_rule_chooses_the_larger_alpha():
    X, y = sample()
    best = sa.FusedLassoRegressorCV(alphas=8, cv=4).fit(X, y)
    simple = sa.FusedLassoRegressorCV(alphas=8, cv=4, one_standard_error=True).fit(X, y)
    assert simple.alpha_ >= best.alpha_
    scores = simple.score_path_
    error = scores[best.best_index_].std(ddof=1) / 2
    assert scores[simple.best_index_].mean() >= scores[best.best_index_].mean() - error
    assert best_index(np.array([[1.0], [2.0]]), True) == 1


def test_scoring_weights_and_missing_targets_in_cross_validation():
    X, y = sample()
    weight = np.linspace(0.5, 2, len(y))
    classifier = sa.SparseLogisticClassifierCV(alphas=4, cv=3, scoring="accuracy")
    classifier.fit(X, y > 0, sample_weight=weight)
    assert 0.7 < classifier.score_path_.max() <= 1
    Y = np.column_stack([y, -y])
    Y[::7, 0] = np.nan
    tasks = sa.SparseLowRankRegressorCV(alphas=4, cv=3).fit(X, Y, sample_weight=weight)
    assert tasks.coef_.shape == (2, 6) and np.isfinite(tasks.mse_path_).all()
    counts = np.random.default_rng(0).poisson(np.exp(X[:, 0]))
    rates = sa.LassoRegressorCV(cv=3, loss="poisson", alphas=[1.0, 0.1, 0.01])
    assert not hasattr(rates.fit(X, counts, offset=0.1 * X[:, 1]), "mse_path_")


def test_a_path_reads_less_than_its_values_alone():
    data = sa.datasets.make_graph_fused(8000, 20, random_state=0)
    method = "sampled-newton"
    structure = sa.VStack([sa.Incidence(data.graph, 20), sa.Identity(20)])

    def unit():
        return sa.Problem.linear(
            sa.Logistic(), data.X, data.y, structure=structure, on_structure=sa.L1(1.0)
        )

    def solve(problem, start, workspace):
        return solve_in(problem, method, Request(stop=sa.Gap(1e-5), start=start), workspace)

    alphas = alpha_grid(alpha_max(unit()), n_alphas=8, eps=1e-2)
    together = list(solve_path(unit(), alphas, solve))
    alone = [sa.minimize(at_strength(unit(), a), method, stop=sa.Gap(1e-5)) for a in alphas]
    for (_, problem, result), single in zip(together, alone, strict=True):
        assert result.converged and result.relative_gap <= 1e-5
        assert abs(result.objective - single.objective) <= 2e-5 * single.objective
        outside = sa.certify(problem, result.pair, result.dual, strength="corrected")
        assert outside.gap <= 1e-4 * outside.objective
    assert sum(r.n_passes for _, _, r in together) < 0.6 * sum(r.n_passes for r in alone)


def test_nothing_is_remembered_unless_asked_for():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.standard_normal(300)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.01))
    first, second = sa.minimize(problem, "gram"), sa.minimize(problem, "gram")
    assert first.n_passes == second.n_passes
    workspace = Workspace()
    solve_in(problem, "gram", Request(), workspace)
    assert solve_in(problem, "gram", Request(), workspace).n_passes < first.n_passes


def test_folds_and_strengths_factorize_a_graph_once(monkeypatch):
    """Once for the largest strength, all folds and strengths, and the last fit together."""
    masks, build = [], StructureSolver.build.__func__

    def counted(cls, S, mask):
        masks.append(mask.tobytes())
        return build(cls, S, mask)

    monkeypatch.setattr(StructureSolver, "build", classmethod(counted))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 12))
    y = X @ np.repeat([1.0, -1.0, 0.5], 4) + rng.standard_normal(100)
    for folds in (2, 5):
        masks.clear()
        model = sa.GraphFusedRegressorCV(graph=(3, 4), alphas=6, cv=folds, solver="sampled-newton")
        model.fit(X, y)
        # rows that a certificate chooses for the moment are factorized as they change, not anew
        assert masks.count(masks[0]) == 1 and len(masks) <= 4
        masks.clear()
        sa.GraphFusedRegressor(graph=(3, 4), solver="sampled-newton").path(X, y, alphas=6)
        assert masks.count(masks[0]) == 1


def test_a_path_under_a_general_constraint_has_one_eliminated_data_term():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    y = np.sign(X @ np.ones(8) + rng.standard_normal(200))
    unit = sa.Problem(
        sa.FiniteSum(sa.Logistic(), X, y),
        h1=sa.L1(1.0),
        h2=sa.L1(1.0),
        A1=rng.standard_normal((5, 6)),
        A2=rng.standard_normal((5, 8)),
        b=np.ones(5),
    )
    terms = []

    def solve(problem, start, workspace):
        terms.append(weakref.ref(Elimination.of(problem, workspace).reduced.f2))
        return solve_in(problem, "auto", Request(stop=sa.Gap(1e-6), start=start), workspace)

    alive = []
    for _, problem, result in solve_path(unit, [0.1, 0.05, 0.02, 0.01], solve):
        assert result.converged
        gc.collect()
        alive.append(len({id(ref()) for ref in terms if ref() is not None}))
        alone = sa.minimize(problem, stop=sa.Gap(1e-6))
        assert abs(alone.objective - result.objective) <= 2e-6 * abs(alone.objective)
    assert alive == [1] * 4


@pytest.mark.parametrize("solver", ["sampled-newton", "gram", "tied-newton"])
def test_what_a_path_keeps_does_not_grow_with_the_number_of_strengths(solver):
    X, y = sample()
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(6), on_structure=sa.L1(1.0)
    )
    asked, made = Request(stop=sa.Gap(1e-8)), []

    def solve(problem, start, workspace):
        made.append(weakref.ref(one_block(problem, workspace)))
        made.append(weakref.ref(model_of(one_block(problem, workspace), workspace)))
        return solve_in(problem, solver, replace(asked, start=start), workspace)

    found = []
    for _ in solve_path(unit, alpha_grid(alpha_max(unit), 20), solve):
        gc.collect()
        found.append(sum(ref() is not None for ref in made))
    assert len(made) == 40 and max(found) <= 4


@pytest.mark.parametrize("outputs", [None, 2])
def test_bounds_stay_when_the_strength_is_zero(outputs):
    rng = np.random.default_rng(0)
    X, d = rng.standard_normal((30, 4)), 4
    y = X @ np.array([1.0, -2.0, 0.0, 1.0]) + 0.3 * rng.standard_normal(30)
    unit = sa.Problem.linear(
        sa.Squared(),
        X,
        y if outputs is None else np.c_[y, -y],
        structure=sa.VStack([sa.Differences(d), sa.Identity(d)]),
        on_structure=sa.Stacked([(sa.L1(1.0), d - 1), (sa.NonNegative(), d)]),
    )
    none = sa.minimize(at_strength(unit, 0.0))
    tiny = sa.minimize(at_strength(unit, 1e-9))
    assert none.coef.min() >= 0.0
    np.testing.assert_allclose(none.coef, tiny.coef, atol=1e-5)


def test_a_ball_and_a_general_constraint_stay_when_the_strength_is_zero():
    X, y = np.eye(3), np.array([3.0, 4.0, 0.0])
    ball = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Identity(3), on_structure=sa.L2Ball(1.0)
    )
    assert abs(np.linalg.norm(sa.minimize(at_strength(ball, 0.0)).coef) - 1.0) <= 1e-6
    f2, A = sa.FiniteSum(sa.Squared(), X, y), np.ones((1, 3))
    sums = sa.Problem(f2, h1=sa.Box(2.0, 2.0), A1=np.array([[-2.0]]), A2=A)
    assert abs(sa.minimize(at_strength(sums, 0.0)).x2.sum() - 4.0) <= 1e-6


def test_penalties_that_vanish_at_strength_zero_leave_nothing_behind():
    unit = sa.Problem.linear(
        sa.Squared(), np.eye(4), np.ones(4), structure=sa.Differences(4), on_structure=sa.L1(1.0)
    )
    assert not at_strength(unit, 0.0).constrained


def test_the_extended_bic_counts_the_models_of_a_size():
    from math import comb, log

    X, y = np.random.default_rng(0).standard_normal((30, 12)), np.arange(30.0)
    path = sa.LassoRegressor().path(X, y, alphas=6)
    wanted = [b + log(comb(12, min(int(k), 12))) for b, k in zip(path.bic, path.dof, strict=True)]
    np.testing.assert_allclose(path.ebic(0.5), wanted)
    np.testing.assert_array_equal(path.ebic(0.0), path.bic)
    with pytest.raises(ValueError, match="gamma is 2"):
        path.ebic(2)
