"""Squared losses over files: sums of products do not tell what little tells columns apart."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa

N = 6000
FIRST = 3000
"""Rows that say nothing of the difference: a rough fit to the first of a file does not see it."""


def nearly_dependent(apart):
    """Return rows whose first columns differ little, the same span in good columns, targets."""
    rng = np.random.default_rng(0)
    x, other, y = rng.standard_normal((3, N))
    y[:FIRST] = 0.0
    X = np.column_stack([x, x + apart * y, other])
    little = X[:, 1] - x  # exact: the two are next to each other
    good = np.column_stack([x, little / np.abs(little).max(), other])
    return X, good, y + other + 0.1 * rng.standard_normal(N)


def over_files(X, y, **more):
    """Return a problem whose rows are read from a source."""
    return sa.Problem.linear(sa.Squared(), sa.data.ArraySource(X, y), **more)


@pytest.mark.parametrize("apart", [1e-8, 1e-9])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_gap_never_hides_what_sums_of_products_have_lost(apart, intercept):
    X, good, y = nearly_dependent(apart)
    found = sa.minimize(over_files(X, y, intercept=intercept), max_passes=10)
    best = sa.minimize(sa.Problem.linear(sa.Squared(), good, y, intercept=intercept))
    assert best.converged
    assert found.objective - best.objective <= found.gap * (1 + 1e-6) + best.gap


def test_columns_that_depend_on_others_are_certified():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    kind = np.eye(2)[rng.integers(2, size=N)]  # beside an intercept one of the two is too many
    y = X @ np.array([1.0, 0.0, -1.0]) + kind[:, 0] + 0.1 * rng.standard_normal(N)
    whole = np.column_stack([X, X[:, 0], kind, np.zeros(N)])
    found = sa.minimize(over_files(whole, y, intercept=True), stop=sa.Gap(1e-9))
    least = np.linalg.lstsq(whole, y, rcond=1e-9)[0]
    assert found.converged
    assert found.objective == pytest.approx(0.5 * np.mean((whole @ least - y) ** 2), rel=1e-9)


def test_a_gap_is_at_least_the_rounding_of_the_sums():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4)) + 3.0 * rng.standard_normal((N, 1))
    y = X.sum(axis=1) + rng.standard_normal(N)
    found = sa.minimize(over_files(X, y, on_coefficients=sa.L1(0.1)), stop=sa.Gap(1e-9))
    assert found.converged
    assert 1e-16 < found.relative_gap < 1e-9
