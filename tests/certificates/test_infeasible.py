"""A point outside of a constraint is never an answer, however large the numbers around it are."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.certificates.repair import is_rounding


def contradictory(seed, unit=1.0, dtype=np.float64):
    """Rows that are multiples of each other are all to be ``unit``, which no point can do."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(3)
    A, X = np.outer(rng.standard_normal(3), a), rng.standard_normal((1, 3))
    return sa.Problem.linear(
        sa.Logistic(), X.astype(dtype), [1.0], structure=A, on_structure=sa.Box(unit, unit)
    )


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("unit", [1.0, 1e-8])
@pytest.mark.parametrize("seed", [3, 22, 26])
def test_coefficients_that_run_off_do_not_excuse_a_violated_bound(seed, unit, method):
    found = sa.minimize(contradictory(seed, unit), method, max_passes=15)
    assert found.status is not sa.Status.CONVERGED
    assert found.gap == np.inf and found.objective == np.inf
    assert "no point inside" in found.message


@pytest.mark.parametrize("seed", range(6))
def test_random_contradictions_are_never_solved(seed):
    rng = np.random.default_rng(100 + seed)
    A = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 5))
    X, y = rng.standard_normal((4, 5)), np.array([1.0, -1.0, 1.0, 1.0])
    low = rng.standard_normal(8)
    problem = sa.Problem.linear(
        sa.Logistic(), X, y, structure=A, on_structure=sa.Box(low, low + 0.01)
    )
    found = sa.minimize(problem, max_passes=15)
    assert found.status is not sa.Status.CONVERGED and found.gap == np.inf


def test_rounding_is_measured_by_what_is_added_up_and_by_what_rows_are_to_be():
    problem = contradictory(3)
    x = problem.feasible(sa.Pair(np.zeros(3), np.full(3, 1e3)))
    assert is_rounding(problem, x, np.full(3, 1e-14))
    assert not is_rounding(problem, x, np.full(3, 1e-9))
    far = problem.feasible(sa.Pair(np.zeros(3), np.full(3, 1e18)))
    assert not is_rounding(problem, far, np.full(3, 1e-5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_equation_without_a_solution_is_refused_in_words(dtype):
    rng = np.random.default_rng(0)
    f2 = sa.FiniteSum(sa.Squared(), rng.standard_normal((9, 2)).astype(dtype), np.ones(9))
    A1, A2 = np.ones((2, 1)), np.ones((2, 2))
    problem = sa.Problem(f2, h1=sa.L1(0.1), A1=A1, A2=A2, b=np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="has no solution"):
        sa.minimize(problem)
    dependent = sa.Problem(f2, h1=sa.L1(0.1), A1=A1, A2=A2, b=np.array([1.0, 1.0]))
    assert sa.minimize(dependent, max_passes=20).feasibility < 1e-6  # which is not refused
