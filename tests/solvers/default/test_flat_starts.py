"""Second-order steps from points where every row is flat."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_a_right_hand_side_that_takes_every_row_into_saturation_ends_with_a_result(size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    y = np.where(X @ rng.standard_normal(5) + rng.standard_normal(80) > 0, 1.0, -1.0)
    A2, A1, b = (rng.standard_normal(s) for s in ((4, 5), (4, 5), 4))
    problem = sa.Problem(
        sa.FiniteSum(sa.Logistic(), X, y), h1=sa.L1(0.05), h2=sa.L1(0.01), A1=A1, A2=A2, b=size * b
    )
    result = sa.minimize(problem)
    assert np.isfinite(result.gap)
    assert result.feasibility <= 1e-12
    better = sa.minimize(problem, "acc-sadmm", max_passes=300)
    assert better.objective - better.gap <= result.objective
    assert result.objective - result.gap <= better.objective


def _rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    return X, X @ np.array([1.0, -2.0, 0.0, 1.0]) + 0.3 * rng.standard_normal(30)


@pytest.mark.parametrize("solver", ["auto", "sampled-newton"])
def test_an_offset_that_takes_every_row_into_saturation_is_undone_by_the_intercept(solver):
    X, y = _rows()
    parts = {"on_structure": sa.L1(0.03), "intercept": True}
    plain = sa.minimize(sa.Problem.linear(sa.Logistic(), X, np.sign(y), **parts))
    far = sa.Problem.linear(sa.Logistic(), X, np.sign(y), offset=np.full(30, 1e3), **parts)
    found = sa.minimize(far, solver)
    assert found.status is sa.Status.CONVERGED
    assert abs(found.objective - plain.objective) <= 1e-6 * plain.objective
    assert abs(found.intercept + 1e3 - plain.intercept) <= 1e-3


@pytest.mark.parametrize("solver", ["auto", "sampled-newton"])
def test_a_start_where_every_row_is_flat_leads_to_the_same_answer(solver):
    X, y = _rows()
    problem = sa.Problem.linear(sa.Logistic(), X, np.sign(y), on_structure=sa.L1(0.03))
    found = sa.minimize(problem, solver, start=np.full(4, -1e6))
    assert found.status is sa.Status.CONVERGED
    assert np.isfinite(found.dual).all()
    assert np.abs(found.coef - sa.minimize(problem).coef).max() <= 1e-3


def test_columns_next_to_nothing_and_rows_of_zeros_do_not_end_in_a_multiplier_without_numbers():
    X, y = _rows()
    tiny = sa.minimize(sa.Problem.linear(sa.Squared(), X * 1e-160, y, on_structure=sa.L1(0.1)))
    assert tiny.status is sa.Status.CONVERGED
    assert not tiny.coef.any()
    none = sa.Problem.linear(
        sa.Squared(), X, y, structure=np.zeros((1, 4)), on_structure=sa.Box(0.1, 0.1)
    )
    impossible = sa.minimize(none)
    assert impossible.status is not sa.Status.CONVERGED
    assert np.isfinite(impossible.dual).all()


def test_what_is_no_number_is_not_handed_over():
    from stochadmm.solvers.default.handover import in_numbers

    point, nothing = sa.Pair(np.zeros(2), np.ones(2)), np.full(2, np.nan)
    assert in_numbers(point, nothing) == (point, None)
    assert in_numbers(sa.Pair(np.zeros(2), nothing), np.ones(2))[0] is None


@pytest.mark.parametrize("seed", [2, 17])
def test_shortened_steps_that_bring_something_lead_to_the_end(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((20, 6)), 2 * rng.standard_t(2, 20)
    X[rng.random(X.shape) < 0.5] = 0
    model = sa.OverlappingGroupRegressor(
        groups=[[0, 1, 2], [3], [4, 5]],
        group_weights=np.sqrt([3, 1, 2]),
        alpha=0.02,
        l1_ratio=0.3,
        loss=sa.Quantile(0.5, 0.1),
        fit_intercept=False,
        max_passes=100,
    )
    result = model.fit(X, y).result_
    x, v = cp.Variable(6), cp.Variable(20)  # the smoothed loss is the least over v
    loss = 0.5 * cp.norm1(v) + cp.sum_squares(y - X @ x - v) / 0.2
    norms = 3**0.5 * cp.norm2(x[:3]) + cp.abs(x[3]) + 2**0.5 * cp.norm2(x[4:])
    F = loss / 20 + 0.014 * norms + 0.006 * cp.norm1(x)
    best = cp.Problem(cp.Minimize(F)).solve(cp.CLARABEL)
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-6)
