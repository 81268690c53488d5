"""Gram matrices and inverses against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from stochadmm.linear_algebra import dense


@pytest.mark.parametrize("storage", ["dense", "csr", "full csr"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("signs", [False, True])
def test_weighted_gram(monkeypatch, storage, intercept, signs):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((700, 9)) * (
        rng.random((700, 9)) < (0.9 if "full" in storage else 0.2)
    )
    numbers = rng.standard_normal(700) if signs else rng.random(700)
    wide = np.column_stack([X, np.ones(700)]) if intercept else X
    expected = wide.T @ (numbers[:, None] * wide)
    rows = X if storage == "dense" else sparse.csr_array(X)
    for limit in (1 << 30, 0):  # by SciPy, compiled
        small = dense.GramOptions(chunk_bytes=1 << 10, compiled=limit)
        monkeypatch.setattr(dense, "OPTIONS", small)
        found = dense.weighted_gram(rows, numbers, intercept)
        np.testing.assert_allclose(found, expected, atol=1e-11)
        np.testing.assert_array_equal(found, found.T)
    if storage == "dense":
        rough = dense.weighted_gram(rows, numbers, intercept, single=True)
        assert rough.dtype == np.float64
        np.testing.assert_allclose(rough, expected, atol=1e-3)


def test_inverse():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((8, 8))
    matrix = root @ root.T + 0.1 * np.eye(8)
    kept = matrix.copy()
    found = dense.inverse(matrix)
    np.testing.assert_allclose(found @ matrix, np.eye(8), atol=1e-10)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(matrix, kept)
    assert dense.inverse(-matrix) is None
