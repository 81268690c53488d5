"""The fit of what no penalty sees, for losses that are straight but for a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import PoissonRegressor

import stochadmm as sa
from stochadmm.certificates.null_space import clear_free_directions
from stochadmm.problem import at_strength
from stochadmm.run.null_model import null_model
from stochadmm.run.path import alpha_max

LOSSES = [
    sa.Quantile(0.9),
    sa.Quantile(0.5),
    sa.Quantile(0.1, 1e-3),
    sa.Huber(0.05),
    sa.Huber(1e-3),
    sa.SquaredHinge(),
    sa.Poisson(),
    sa.Logistic(),
]


def drawn(loss, seed):
    rng = np.random.default_rng(seed)
    n, d = 40, 5
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_t(2, n)
    if isinstance(loss, (sa.SquaredHinge, sa.Logistic)):
        y = np.where(y > 0, 1.0, -1.0)
    if isinstance(loss, sa.Poisson):
        y = rng.poisson(2.0, n).astype(float)
    return X, y


@pytest.mark.parametrize("units", [1.0, 1e3])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_free_coefficients_are_fitted_to_the_last_digits(loss, units):
    X, y = drawn(loss, 3)
    X = X * units ** np.linspace(-1, 1, X.shape[1])
    f2 = sa.FiniteSum(loss, X, y, intercept=True)
    at = f2.evaluate_exactly(np.zeros(6))
    moved, _ = clear_free_directions(f2, at, [(slice(None), sparse.eye_array(6, format="csc"))])
    assert moved.value <= at.value
    columns = np.append(np.abs(X).mean(axis=0), 1.0)
    assert np.abs(f2.gradient(moved.x) / columns).max() <= 1e-7 * np.abs(at.derivative).mean()


@pytest.mark.parametrize("loss", LOSSES[:4], ids=str)
def test_the_largest_strength_of_a_fused_fit_is_where_coefficients_part(loss):
    X, y = drawn(loss, 0)
    unit = sa.Problem.linear(
        loss, X, y, structure=sa.Differences(5), on_structure=sa.L1(1.0), intercept=True
    )
    x, alpha = null_model(unit)[0], alpha_max(unit)
    whole = sa.Problem.linear(loss, X.sum(axis=1, keepdims=True), y, intercept=True)
    assert unit.f2.value(x) == pytest.approx(sa.minimize(whole, stop=1e-9).objective, rel=1e-7)
    assert np.ptp(sa.minimize(at_strength(unit, 1.01 * alpha)).coef) == 0.0
    assert np.ptp(sa.minimize(at_strength(unit, 0.9 * alpha)).coef) > 1e-3


def test_two_outputs_of_a_saturated_loss_are_fitted():
    X, y = (part[:39] for part in drawn(LOSSES[0], 1))  # an odd number: there is one median
    unit = sa.Problem.linear(
        sa.Huber(0.01), X, np.c_[y, -3 * y + 5], on_structure=sa.L1(1.0), intercept=True
    )
    x, _ = null_model(unit)
    for column, target in enumerate((y, -3 * y + 5)):
        one = sa.Problem.linear(sa.Huber(0.01), X, target, on_structure=sa.L1(1.0), intercept=True)
        assert x[-1, column] == pytest.approx(null_model(one)[0][-1], rel=1e-5)


@pytest.mark.compiled
@pytest.mark.parametrize("fused", [False, True])
def test_factors_without_a_base_are_certified_to_many_digits(fused):
    rng = np.random.default_rng(0)
    n, levels = 3000, (12, 7, 3)
    codes = [rng.integers(0, k, n) for k in levels]
    X = sparse.hstack([sparse.eye_array(k).tocsr()[c] for k, c in zip(levels, codes, strict=True)])
    exposure = rng.uniform(0.1, 1.0, n)
    y = rng.poisson(0.2 * exposure * np.exp(0.1 * codes[0] - 0.2 * codes[1])).astype(float)
    chains = sparse.block_diag([sa.Differences(k).tosparse() for k in levels]).tocsr()
    penalty = {"structure": chains, "on_structure": sa.L1(1e-3)} if fused else {}
    offset = np.log(exposure)
    problem = sa.Problem.linear(
        sa.Poisson(), X.tocsr(), y, intercept=True, offset=offset, **penalty
    )
    result = sa.minimize(problem, stop=1e-9)
    assert result.status.name == "CONVERGED"
    if fused:
        return
    base = np.delete(X.toarray(), np.cumsum((0, *levels[:-1])), axis=1)
    glm = PoissonRegressor(alpha=0, solver="newton-cholesky", tol=1e-12)
    glm.fit(base, y / exposure, sample_weight=exposure)
    z = base @ glm.coef_ + glm.intercept_ + offset
    assert result.objective == pytest.approx(np.mean(np.exp(z) - y * z), rel=1e-11)
