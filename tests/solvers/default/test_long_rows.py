"""A few long rows of a structure are a correction of its factor."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm._newton.factor import factored_structure
from stochadmm.operators import as_operator


def problem(loss, n=40, d=320, rows=10):
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((n, d)), rng.standard_normal((rows, d)) / np.sqrt(d)
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
    unit = sa.Problem.linear(loss, X, y, intercept=True, on_coefficients=sa.L1(1.0))
    mu = 0.1 * float(np.abs(unit.f2.gradient(unit.zeros().x2)).max())
    given = {"structure": A, "on_structure": sa.L1(mu), "on_coefficients": sa.L1(mu)}
    return sa.Problem.linear(loss, X, y, intercept=True, **given), X, y, A, mu


def test_the_factor_solves_with_long_rows_and_absorbs_any_residual():
    rng = np.random.default_rng(1)
    A, d = rng.standard_normal((5, 100)), 100
    S = as_operator(np.concatenate([A, 2 * np.eye(d)])).tosparse()
    sigma = rng.uniform(0.5, 2.0, d + 5)
    found = factored_structure(S, np.ones(d + 5, dtype=bool), sigma, np.ones(d))
    assert found.long is not None
    L = S.T @ np.diag(sigma) @ S
    right = rng.standard_normal((d, 3))
    np.testing.assert_allclose(L @ found.solve(right), right, atol=1e-10)
    np.testing.assert_allclose(found.product(right[:, 0]), L @ right[:, 0])
    np.testing.assert_allclose(S.T @ found.absorb(right[:, 0]), right[:, 0], atol=1e-12)


@pytest.mark.parametrize("loss", [sa.Squared(), sa.Huber(0.5)], ids=["squared", "huber"])
def test_a_dense_operator_beside_an_l1_norm_is_certified(loss):
    given = problem(loss)[0]
    found = sa.minimize(given, stop=sa.Gap(1e-6), max_passes=1000)
    assert found.info["route"] == "tied-newton"
    assert found.converged


def test_it_is_that_of_a_conic_solver():
    cp = pytest.importorskip("cvxpy")
    given, X, y, A, mu = problem(sa.Squared())
    found = sa.minimize(given, stop=sa.Gap(1e-7), max_passes=1000)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    fit = cp.sum_squares(X @ w + b - y) / (2 * len(y))
    value = cp.Problem(cp.Minimize(fit + mu * (cp.norm1(A @ w) + cp.norm1(w)))).solve(
        solver=cp.CLARABEL
    )
    assert found.objective == pytest.approx(value, rel=1e-6)
    assert found.objective - found.gap <= value * (1 + 1e-8)
