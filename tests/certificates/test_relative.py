"""What a relative gap is relative to: nothing that an intercept can explain."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.certificates import relative


def drawn(mean, loss, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4))
    y = X @ np.array([1.0, -2.0, 0.0, 1.0]) + 0.3 * rng.standard_normal(30)
    return sa.Problem.linear(loss, X, y + mean, on_structure=sa.L1(0.03), **options)


@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "admm", "sampled-newton"])
@pytest.mark.parametrize("mean", [1e4, 1e6])
@pytest.mark.parametrize("loss", [sa.Squared(), sa.Huber(1.0)], ids=str)
def test_a_large_mean_of_targets_does_not_excuse_a_bad_fit(loss, mean, method):
    best = sa.minimize(drawn(0.0, loss, intercept=True), stop=1e-9).objective
    found = sa.minimize(drawn(mean, loss, intercept=True), method)
    assert found.gap >= found.objective - best - 1e-9 * best
    if found.converged:
        assert found.objective <= best * (1 + 2e-6)


def test_a_large_offset_does_not_excuse_a_bad_fit():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.where(rng.random(30) > 0.5, 1.0, -1.0)
    options = {"on_structure": sa.L2Ball(1.0), "intercept": True}
    best = sa.minimize(sa.Problem.linear(sa.SquaredHinge(), X, y, **options), stop=1e-9)
    far = sa.minimize(
        sa.Problem.linear(sa.SquaredHinge(), X, y, offset=np.full(30, 1e5), **options)
    )
    assert far.converged and far.objective == pytest.approx(best.objective, rel=2e-6)


def test_without_free_coefficients_the_floor_is_a_share_of_the_value_at_zero():
    problem = drawn(0.0, sa.Squared())
    assert relative.null_value(problem) == problem.objective_at_zero
    assert relative.gap_scale(problem, 1e-9, None) == 1e-3 * problem.objective_at_zero


def test_the_null_model_is_looked_for_only_where_the_floor_acts(monkeypatch):
    problem = drawn(1e3, sa.Squared(), intercept=True)
    at_zero = problem.objective_at_zero
    assert relative.gap_scale(problem, 1.0, None) == 1.0 < 1e-3 * at_zero
    monkeypatch.setattr(relative, "null_value", None)  # a call would fail
    assert relative.gap_scale(problem, 1e-2 * at_zero, None) == 1e-2 * at_zero


@pytest.mark.parametrize("seed", range(4))
def test_the_null_model_of_a_pair_is_at_most_its_value_at_zero(seed):
    rng = np.random.default_rng(seed)
    f2 = sa.FiniteSum(sa.Squared(), rng.standard_normal((20, 4)), rng.standard_normal(20) + 9)
    A1, A2 = rng.standard_normal((2, 3)), rng.standard_normal((2, 4))
    problem = sa.Problem(f2, h1=sa.L1(0.1), A1=A1, A2=A2, b=rng.standard_normal(2))
    assert 0 <= relative.null_value(problem) <= problem.objective_at_zero


@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "sampled-newton"])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_unit_of_amounts_does_not_loosen_the_tolerance(method, streamed):
    if streamed and method == "sampled-newton":
        pytest.skip("needs rows in memory")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = np.exp(X @ [0.5, -0.5, 0.3, 0.0]) * rng.gamma(2.0, 0.5, 400)
    sizes, least = [], []
    for unit in (1.0, 1e6):
        rows = (sa.data.ArraySource(X, unit * y), None) if streamed else (X, unit * y)
        problem = sa.Problem.linear(sa.Gamma(), *rows, on_structure=sa.L1(0.01), intercept=True)
        found = sa.minimize(problem, method, stop=sa.Gap(1e-5), max_passes=1000)
        assert found.converged
        sizes.append(found.gap / found.relative_gap)
        least.append(found.objective - np.log(unit))
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-2)
    assert least[1] == pytest.approx(least[0], abs=2e-5 * sizes[0])


@pytest.mark.parametrize("mean", [1e3, 1e6, 1e9])
def test_the_null_model_is_the_mean_to_the_digits_that_targets_have(mean):
    problem = drawn(mean, sa.Squared(), intercept=True)
    variance = 0.5 * float(np.var(problem.f2.y))
    assert relative.null_value(problem) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rows", [1, 5])
def test_targets_that_an_intercept_explains_are_fitted_at_once(seed, rows):
    """F* is zero, and so is F of the null model but for rounding: nothing is relative to that."""
    rng = np.random.default_rng(seed)
    X, y = 3 * rng.random((rows, 10)), np.full(rows, rng.uniform(0.1, 10))
    model = sa.FusedLassoRegressor(max_passes=100).fit(X, y)
    assert model.result_.converged
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-12)
