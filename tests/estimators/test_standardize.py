"""Columns of unit deviation, whatever their origin, unit and storage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.run.result import Status


def rows(seed=0, n=40, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X[:, 0] + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("origin", [0.0, 1.7e9, -3e11])
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_the_origin_of_a_column_changes_no_prediction(origin, as_given):
    X, y = rows()
    moved = X.copy()
    moved[:, 0] = origin + 1000 * X[:, 0]
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    here = sa.LassoRegressor(0.3, standardize=True).fit(X, y, weight)
    there = sa.LassoRegressor(0.3, standardize=True).fit(as_given(moved), y, weight)
    assert here.coef_[0] > 0.3
    np.testing.assert_allclose(there.predict(as_given(moved)), here.predict(X), atol=1e-5)


def test_sparse_columns_have_the_deviation_of_dense_ones():
    X, y = rows()
    X[np.abs(X) < 0.7] = 0.0
    X[:, 1] += 50.0 * (X[:, 1] != 0)
    held = sa.LassoRegressor(0.05, standardize=True).fit(X, y)
    stored = sa.LassoRegressor(0.05, standardize=True).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(stored.coef_, held.coef_, atol=1e-8)


@pytest.mark.parametrize("value", [2.0, 0.1, 1.7e9, -1e-12])
@pytest.mark.parametrize("estimator", [sa.FusedLassoRegressor, sa.LassoRegressor])
def test_a_constant_column_is_a_column_of_zeros(value, estimator):
    X, y = rows()
    X[:, 3] = value
    zero = X.copy()
    zero[:, 3] = 0.0
    model = estimator(0.05, standardize=True, max_seconds=20).fit(X, y)
    assert model.status_ is Status.CONVERGED
    other = estimator(0.05, standardize=True).fit(zero, y)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-8)
    np.testing.assert_allclose(model.predict(X), other.predict(zero), atol=1e-7)


def test_columns_are_standardized_in_single_precision_too():
    X, y = rows()
    moved = X.astype(np.float32)
    moved[:, 0] = 1e4 + 100 * X[:, 0]
    moved[:, 3] = 0.1
    model = sa.LassoRegressor(0.3, standardize=True).fit(moved, y.astype(np.float32))
    X[:, 3] = 0.1
    expected = sa.LassoRegressor(0.3, standardize=True).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(moved), expected, atol=2e-3)
