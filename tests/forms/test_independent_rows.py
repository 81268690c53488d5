"""Structures of independent rows: the same problem with the rows as variables."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.forms.independent_rows import IndependentRows
from stochadmm.problem import at_strength
from stochadmm.run.path import alpha_max


def wide(loss="squared", n=60, d=300, order=2, free=0, **given):
    rng = np.random.default_rng(order)
    X = rng.standard_normal((n, d + free))
    z = X[:, :d] @ np.repeat(rng.standard_normal(6), d // 6) / 10
    if loss == "logistic":
        f, y = sa.Logistic(), np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)
    else:
        f, y = sa.Squared() if loss == "squared" else sa.Huber(0.5), z + rng.standard_normal(n)
    D = sa.Differences(d, order=order)
    structure = sa.operators.PadColumns(D, free) if free else D
    return sa.Problem.linear(
        f, X, y, structure=structure, on_structure=sa.L1(1.0), intercept=True, **given
    )


@pytest.mark.parametrize(("order", "free"), [(2, 0), (3, 0), (2, 2)])
def test_changed_variables_state_the_same_problem(order, free):
    problem = at_strength(wide(order=order, free=free), 0.3)
    view = IndependentRows.of(problem, Workspace())
    rng = np.random.default_rng(0)
    c = rng.standard_normal(view.reduced.shape2)
    x = view.up(c)
    np.testing.assert_allclose(
        problem.f2.predict(x.x2), view.reduced.f2.predict(c), rtol=1e-10, atol=1e-8
    )
    assert problem.penalty(x) == pytest.approx(view.reduced.penalty(view.pair(c)), rel=1e-9)
    np.testing.assert_allclose(view.down(x), c, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
@pytest.mark.parametrize("order", [2, 3])
def test_a_wide_trend_filter_is_certified_and_its_certificate_holds_for_the_problem_itself(
    loss, order
):
    unit = wide(loss, order=order)
    problem = at_strength(unit, 0.1 * alpha_max(unit))
    found = sa.minimize(problem, stop=sa.Gap(1e-7))
    assert found.converged
    assert "independent" in found.info["reason"]
    # the same point, certified without the changed variables
    alone = sa.certify(problem, sa.Pair(found.x1, found.x2))
    assert alone.gap <= 1e-3 * abs(alone.objective)
    assert alone.bound <= found.objective
    # the bound is below the problem itself at points that no run has come from
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3, 1e-6):
        near = problem.feasible(
            sa.Pair(found.x1, found.x2 + size * rng.standard_normal(found.x2.shape))
        )
        value = problem.f2.value(near.x2) + problem.penalty(near)
        assert found.objective - found.gap <= value
    knots = np.abs(np.diff(found.x2[:-1], n=order))
    assert (knots > 1e-10 * np.abs(found.x2).max()).sum() < 60


def test_a_trend_filter_is_that_of_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    unit = wide(d=210)
    problem = at_strength(unit, 0.05 * alpha_max(unit))
    found = sa.minimize(problem, stop=sa.Gap(1e-8))
    w, b = cp.Variable(210), cp.Variable()
    X, y, alpha = problem.f2.X, problem.f2.y, problem.h1.alpha
    fit = cp.sum_squares(X @ w + b - y) / (2 * len(y)) + alpha * cp.norm1(cp.diff(w, 2))
    value = cp.Problem(cp.Minimize(fit)).solve(solver=cp.CLARABEL)
    assert "independent" in found.info["reason"]
    assert found.objective == pytest.approx(value, rel=1e-6)


def test_a_bound_is_charged_for_the_rounding_of_sums():
    problem = at_strength(wide(), 1e-3)
    view = IndependentRows.of(problem, Workspace())
    assert view.bound(1.0, np.ones(view.reduced.shape2)) < 1.0
    assert view.bound(None, np.ones(view.reduced.shape2)) is None


def test_rows_of_a_thousand_entries_are_no_differences():
    A = np.random.default_rng(0).standard_normal((3, 1200))
    X = np.random.default_rng(1).standard_normal((20, 1200))
    unit = sa.Problem.linear(sa.Squared(), X, X[:, 0], structure=A, on_structure=sa.L1(1.0))
    assert IndependentRows.of(unit, Workspace()) is None


def test_nothing_changes_where_coefficients_have_a_penalty_of_their_own():
    problem = wide(on_coefficients=sa.L1(0.1))
    assert IndependentRows.of(problem, Workspace()) is None


def test_a_path_ends_where_single_fits_do():
    unit = wide()
    largest = alpha_max(unit)
    start = None
    for share in (0.5, 0.2, 0.1):
        problem = at_strength(unit, share * largest)
        start = sa.minimize(problem, stop=sa.Gap(1e-8), start=start)
        alone = sa.minimize(problem, stop=sa.Gap(1e-8))
        assert start.objective == pytest.approx(alone.objective, rel=1e-7)


@pytest.mark.parametrize("empty", [False, True])
def test_rounded_coefficients_of_long_trends_keep_their_differences_exact(empty):
    rng = np.random.default_rng(1)
    n, d = 40, 12_000
    X = np.zeros((n, d + empty))  # an empty column is seen by no row and no penalty
    X[np.arange(n).repeat(20), rng.integers(d, size=20 * n)] = rng.standard_normal(20 * n)
    y = X[:, :d].sum(axis=1) + rng.standard_normal(n)
    D = sa.Differences(d, order=3)
    structure = sa.operators.PadColumns(D, 1) if empty else D
    unit = sa.Problem.linear(
        sa.Squared(), X, y, structure=structure, on_structure=sa.L1(1.0), intercept=True
    )
    problem = at_strength(unit, 0.3 * alpha_max(unit))
    found = sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=1000)
    assert found.converged
    assert np.count_nonzero(D.matvec(found.x2[:d])) <= n


@pytest.mark.parametrize(
    ("n", "d", "share"), [(120, 100, 0.01), (120, 100, 0.99), (700, 190, 0.3)]
)
def test_smooth_columns_that_leave_a_square_model_no_digit_are_no_trouble(n, d, share):
    rng = np.random.default_rng([0, d, 2])
    place = np.linspace(0, 1, d)
    X = np.exp(-(((place - rng.random(n)[:, None]) / 0.1) ** 2))
    y = X @ np.abs(2 * place - 1)
    y = y / y.std() + 0.3 * rng.standard_normal(n)
    unit = sa.Problem.linear(
        sa.Squared(),
        X,
        y,
        structure=sa.Differences(d, order=3),
        on_structure=sa.L1(1.0),
        intercept=True,
    )
    found = sa.minimize(at_strength(unit, share * alpha_max(unit)), max_passes=50)
    assert found.converged
    knots = np.abs(np.diff(found.x2[:-1], n=3))
    assert (knots > 1e-9 * np.abs(found.x2).max()).any()
