"""Count models: totals balance, weights are repeated rows, an offset is a weighted rate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.certificates.relative import gap_scale, null_value

ALPHA = 1e-3


def counts(seed=0, n=2000, d=8, low=-1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    rate = np.exp(low + X @ (0.4 * rng.standard_normal(d)))
    exposure = rng.gamma(1.0, 1.0, n) + 0.05
    return X, rng.poisson(rate * exposure).astype(float), exposure, rng


def model(X, y, alpha=ALPHA, **options):
    loss = sa.Poisson.for_targets(y)
    return sa.Problem.linear(loss, X, y, on_coefficients=sa.L1(alpha), intercept=True, **options)


def predictions(problem, result):
    z = problem.f2.X @ result.coef + result.intercept
    return np.exp(z if problem.f2.offset is None else z + problem.f2.offset)


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("low", [-3.0, 0.0, 3.0])
def test_totals_balance_at_the_default_tolerance_of_estimators(solver, low):
    """The gap bounds the imbalance: F falls by about (difference)^2 / (2 total n) along c."""
    X, y, _, _ = counts(low=low)
    problem = model(X, y)
    result = sa.minimize(problem, solver, stop=1e-4, max_passes=300)
    assert result.status.name == "CONVERGED"
    total = predictions(problem, result).sum()
    assert abs(total - y.sum()) <= 1.5 * np.sqrt(2 * result.gap * y.sum() * len(y)) + 1e-9
    assert total == pytest.approx(y.sum(), rel=5e-3)


def test_a_constant_in_the_loss_does_not_loosen_the_tolerance():
    """Counts in hundreds have |F| far above what the model explains."""
    X, y, _, _ = counts(low=5.0)
    problem = model(X, y)
    result = sa.minimize(problem, stop=1e-6)
    intercept = np.log(y.mean())
    null = problem.objective(sa.Pair(np.zeros(0), np.append(np.zeros(8), intercept)))
    assert null_value(problem) == pytest.approx(null, rel=1e-10)
    bound = result.objective - result.gap
    assert result.relative_gap == pytest.approx(result.gap / (null - bound), rel=1e-6)
    assert gap_scale(problem, result.objective, bound) < 0.5 * abs(result.objective)


def test_weights_are_repeated_rows():
    X, y, _, rng = counts()
    times = rng.integers(0, 4, len(y))
    weighted = sa.minimize(model(X, y, sample_weight=times.astype(float)), stop=1e-10)
    repeated = sa.minimize(model(np.repeat(X, times, axis=0), np.repeat(y, times)), stop=1e-10)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-7)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=1e-7)


def test_an_offset_is_a_weighted_rate():
    """exp(z + log e) - y z is e (exp(z) - (y / e) z): the same model, its mean taken over e."""
    X, y, exposure, _ = counts()
    offset = sa.minimize(model(X, y, offset=np.log(exposure)), stop=1e-10)
    rate = sa.minimize(
        model(X, y / exposure, alpha=ALPHA / exposure.mean(), sample_weight=exposure), stop=1e-10
    )
    np.testing.assert_allclose(offset.coef, rate.coef, atol=1e-6)
    assert offset.intercept == pytest.approx(rate.intercept, abs=1e-6)


def test_exposures_that_are_passed_as_offsets_are_told_and_their_logarithms_are_not():
    rng = np.random.default_rng(0)
    X, exposure = rng.standard_normal((60, 3)), rng.uniform(1.0, 300.0, 60)
    y = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    model = sa.LassoRegressor(loss="poisson", alpha=0.01)
    with pytest.warns(UserWarning, match=r"offset=np\.log\(exposure\)"):
        model.fit(X, y, offset=exposure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, offset=np.log(exposure))
        sa.LassoRegressor(alpha=0.01).fit(X, y, offset=exposure)  # a squared loss has no link
