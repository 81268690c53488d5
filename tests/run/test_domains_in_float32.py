"""float32 coefficients and the domains of penalties: inside where they can be, and paid for."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa

METHODS = ("auto", "acc-sadmm", "admm", "katyusha")


def data(dtype, n=60, d=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    return X, (X @ np.ones(d) + 0.1 * rng.standard_normal(n)).astype(dtype)


def optimum(X, y, constraints):
    w = cp.Variable(X.shape[1])
    X, y = X.astype(float), y.astype(float)
    loss = cp.sum_squares(X @ w - y) / (2 * len(y))
    return cp.Problem(cp.Minimize(loss), constraints(w)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("penalty", "constraints"),
    [
        (sa.Box(-0.1, 0.1), lambda w: [cp.abs(w) <= 0.1]),
        (sa.Box(-0.3, 0.3), lambda w: [cp.abs(w) <= 0.3]),
        (sa.L2Ball(0.7), lambda w: [cp.norm(w) <= 0.7]),
    ],
    ids=["a tenth", "three tenths", "ball"],
)
def test_coefficients_are_inside_a_domain_whose_edge_is_no_float32(method, penalty, constraints):
    X, y = data(np.float32)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=penalty)
    result = sa.minimize(problem, method, stop=1e-5, max_passes=500)
    assert penalty.value(result.coef.astype(float)) == 0  # the penalty of the float64 numbers
    assert result.status is sa.Status.CONVERGED
    best = optimum(X, y, constraints)
    assert result.objective - best <= result.gap + 1e-7


@pytest.mark.parametrize("method", ("auto", "acc-sadmm"))
def test_differences_that_rounding_takes_over_an_edge_are_charged_for(method):
    X, y = data(np.float32)
    D = np.diff(np.eye(8), axis=0)
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=D, on_structure=sa.Box(-0.1, 0.1), on_coefficients=None
    )
    result = sa.minimize(problem, method, stop=1e-5, max_passes=2000)
    assert result.status is sa.Status.CONVERGED
    assert np.isfinite(result.gap)
    best = optimum(X, y, lambda w: [cp.abs(cp.diff(w)) <= 0.1])
    below = best - result.objective  # rounding may leave the domain, and gain no more than it pays
    assert below <= result.gap + 1e-7
    assert -below <= result.gap + 1e-7


def test_every_status_agrees_with_the_gap_beside_it():
    rng = np.random.default_rng(1)
    for seed in range(12):
        X, y = data(np.float32)
        upper = float(rng.uniform(0.05, 0.7))
        tol = 10.0 ** -int(rng.integers(4, 8))
        problem = sa.Problem.linear(
            sa.Huber(),
            X,
            y,
            structure=np.diff(np.eye(8), axis=0),
            on_structure=sa.Separable(l1=0.05, l2=0.1, upper=upper),
        )
        result = sa.minimize(problem, stop=tol, random_state=seed)
        assert (result.status is sa.Status.CONVERGED) == (result.relative_gap <= tol)
