"""Weighted means and deviations of the columns of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from ..base.validation import is_sparse
from ._protocol import Block

BLOCK = 1 << 20  # entries of X that are converted to float64 at a time


def moments(X: Any, weight: Array | None) -> tuple[Array, Array]:
    """Return weighted means of the columns and of their squares, in float64."""
    n = X.shape[0]
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    if is_sparse(X):
        return X.T @ share, X.multiply(X).T @ share
    first, second = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    size = max(1, BLOCK // max(X.shape[1], 1))
    for start in range(0, n, size):
        block, part = X[start : start + size].astype(np.float64), share[start : start + size]
        first += part @ block
        second += part @ block**2
    return first, second


def mean_and_deviation(X: Any, weight: Array | None) -> tuple[Array, Array]:
    """Return weighted means of the columns and root mean square distances from them, in float64.

    They come from differences to a first mean, which these correct: a difference of means of
    squares has no digits left where a column lies far from zero.
    """
    n, center = X.shape[0], moments(X, weight)[0]
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    if is_sparse(X):
        entries = sparse.csr_array(X, dtype=np.float64, copy=True)
        entries.sum_duplicates()
        stored = sparse.csr_array((np.ones(entries.nnz), entries.indices, entries.indptr), X.shape)
        absent = np.where(stored.sum(axis=0) == n, 0.0, np.maximum(1.0 - stored.T @ share, 0.0))
        entries.data -= center[entries.indices]
        apart = entries.T @ share - absent * center
        entries.data **= 2
        square = entries.T @ share + absent * center**2
    else:
        apart, square = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        size = max(1, BLOCK // max(X.shape[1], 1))
        for start in range(0, n, size):
            part = slice(start, start + size)
            moved = X[part] - center
            apart += share[part] @ moved
            square += share[part] @ moved**2
    return center + apart, np.sqrt(np.maximum(square - apart**2, 0.0))


def columns_of(block: Block) -> tuple[Array, Array]:
    """Return means and deviations of the columns of a block, zeros where no row has a weight."""
    if not block.weights.any():
        return np.zeros(block.X.shape[1]), np.zeros(block.X.shape[1])
    return mean_and_deviation(block.X, block.weights)
