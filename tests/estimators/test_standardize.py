"""Columns of unit deviation, whatever their origin, unit and storage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.risk.looks import column_means
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


def as_files(X, y, folder):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return sa.open(folder / "X.npy", folder / "y.npy")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_columns_of_files_are_standardized_as_those_in_memory(tmp_path, dtype, intercept):
    X, y = rows(n=300)
    far = {np.float64: (1e3, [1.7e9, -3e11]), np.float32: (1.0, 1e4), np.uint8: (20.0, 100.0)}
    X[:, :2] = far[dtype][0] * X[:, :2] + far[dtype][1]
    X[:, 3] = 0.1
    X, y = np.abs(X).astype(dtype) if dtype == np.uint8 else X.astype(dtype), np.round(y, 3)
    options = {"standardize": True, "fit_intercept": intercept}
    held = sa.LassoRegressor(0.05, **options).fit(X, y)
    streamed = sa.LassoRegressor(0.05, **options).fit(as_files(X, y, tmp_path))
    assert streamed.status_ is Status.CONVERGED
    # without an intercept columns far from zero are the same one in different units
    np.testing.assert_allclose(
        streamed.predict(X), held.predict(X), atol=2e-3 if dtype == np.float32 else 1e-5
    )


def test_deviations_do_not_depend_on_blocks_of_a_source():
    X, y = rows(n=200)
    X[:, 0] = 1.7e9 + 1000 * X[:, 0]
    weight = np.where(np.arange(200) < 100, 0.0, 1.0)  # blocks without weight
    source = sa.data.ArraySource(X, y, weight)
    for block_bytes in (100, 1000, 1 << 24):
        found = column_means(source, block_bytes)
        np.testing.assert_allclose(found.deviation, X[100:].std(axis=0), rtol=1e-6)


@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array])
def test_a_constant_column_is_told_by_its_values_however_many(as_given):
    X, y = rows(n=3000)
    X[:, 3] = 2.1
    model = sa.LassoRegressor(0.05, standardize=True).fit(as_given(X), y)
    other = sa.LassoRegressor(0.05, standardize=True).fit(sa.data.ArraySource(as_given(X), y))
    assert model.status_ is other.status_ is Status.CONVERGED
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6)
    assert model.coef_[3] == 0.0
