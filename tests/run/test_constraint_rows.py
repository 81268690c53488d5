"""Units of the rows of a general constraint change neither the answer nor the work."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa

UNEVEN = np.array([1e-4, 1e4, 30.0, 1e-2])
METHODS = [
    "aadmm",
    "acc-sadmm",
    "admm",
    "asvrg-admm",
    "auto",
    "fast-ladmm",
    "inertial-admm",
    "ladm-ne",
    "ladmpsap",
    "linearized-admm",
    "sag-admm",
    "svrg-admm",
]


def general(scale, seed=0, dtype=np.float64):
    """Return a problem with a constraint whose rows are multiplied by numbers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 6))
    y = np.sign(X[:, 0] + rng.standard_normal(60))
    A1, A2 = rng.standard_normal((4, 5)), rng.standard_normal((4, 6))
    b = 0.1 * rng.standard_normal(4)
    return sa.Problem(
        sa.FiniteSum(sa.Logistic(), X.astype(dtype), y.astype(dtype)),
        h1=sa.L1(0.1),
        h2=sa.Ridge(0.05),
        A1=sa.Matrix((scale[:, None] * A1).astype(dtype)),
        A2=sa.Matrix((scale[:, None] * A2).astype(dtype)),
        b=(scale * b).astype(dtype),
    )


@pytest.mark.parametrize("method", METHODS)
def test_rows_over_eight_powers_of_ten_cost_at_most_twice_the_passes(method):
    asked = {"stop": 1e-5, "max_passes": 2000}
    even = sa.minimize(general(np.ones(4)), method, **asked)
    problem = general(UNEVEN)
    uneven = sa.minimize(problem, method, **asked)
    assert even.converged and uneven.converged
    assert uneven.n_passes <= 2 * even.n_passes
    assert abs(uneven.objective - even.objective) <= uneven.gap + even.gap
    # everything is said in the units of the user
    residual = np.linalg.norm(problem.constraint(uneven.pair))
    assert residual / (1 + np.linalg.norm(problem.b)) == pytest.approx(uneven.feasibility)
    assert uneven.feasibility <= 1e-12
    again = sa.certify(problem, uneven.pair, uneven.dual, strength="corrected")
    assert again.gap <= 2e-5 * again.objective


def test_multipliers_are_those_of_the_rows_as_they_are_given():
    exact = sa.minimize(general(np.ones(4)), stop=1e-12)
    uneven = sa.minimize(general(UNEVEN), stop=1e-12)
    np.testing.assert_allclose(uneven.dual * UNEVEN, exact.dual, atol=1e-6)
    np.testing.assert_allclose(uneven.x2, exact.x2, atol=1e-6)
    assert "constraint rows" in uneven.info["units"]


def test_a_start_and_its_multiplier_are_taken_in_the_same_units():
    problem = general(UNEVEN)
    first = sa.minimize(problem, "acc-sadmm", stop=1e-6, max_passes=2000)
    again = sa.minimize(problem, "acc-sadmm", stop=1e-5, start=first)
    assert again.converged and again.n_epochs <= 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
def test_powers_of_two_in_the_rows_keep_every_bit(method, dtype):
    scales = [2.0 ** np.array(power) for power in ([0, 20, -7, 3], [-30, 1, 15, 0])]
    one, two = (sa.minimize(general(s, dtype=dtype), method, stop=1e-4) for s in scales)
    assert one.status is two.status and one.converged
    assert one.objective == two.objective and one.gap == two.gap
    np.testing.assert_array_equal(one.x2, two.x2)
    np.testing.assert_array_equal(one.dual * scales[0], two.dual * scales[1])
