"""The fit of what no penalty sees, for losses that are straight but for a few rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.certificates.null_space import clear_free_directions
from stochadmm.run.path import alpha_max, at_strength, null_model

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
