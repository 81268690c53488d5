"""Small dense matrices: Gram matrices of rows, inverses, triangles made whole."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.linalg import blas, lapack

from .protocols import Array

CHUNK_BYTES = 1 << 22
COMPILED_FROM = 1 << 13
"""Stored numbers from which on sparse rows are worth a compiled loop."""
FULL = 0.25
"""Share of stored numbers from which on sparse rows are multiplied as dense ones."""


def mirrored(lower: Array) -> Array:
    """Return the symmetric matrix of a lower triangle; above it there must be zeros."""
    whole = lower + lower.T
    whole.flat[:: len(whole) + 1] *= 0.5
    return whole


def inverse(matrix: Array) -> Array | None:
    """Return the inverse of a symmetric matrix, None where it is not positive definite."""
    factor, info = lapack.dpotrf(matrix.T, lower=1, clean=1)
    if info != 0:
        return None
    half, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    return mirrored(half)


def weighted_gram(block: Any, numbers: Array, intercept: bool, single: bool = False) -> Array:
    """Return ``sum_i numbers_i a_i a_i'`` in float64 over the rows of a block.

    Parameters
    ----------
    block : array or CSR array
        The rows a_i.
    numbers : array
        One number per row, of any sign.
    intercept : bool
        Whether each row ends with a one that is not stored.
    single : bool
        Multiply dense rows in float32, twice as fast.
    """
    features = block.shape[1]
    total = np.zeros((features + intercept, features + intercept))
    total[:features, :features] = (
        _sparse_gram(block, numbers) if sparse.issparse(block) else _gram(block, numbers, single)
    )
    if intercept:
        total[-1, :features] = total[:features, -1] = block.T @ numbers
        total[-1, -1] = float(numbers.sum())
    return total


def _gram(block: Any, numbers: Array, single: bool) -> Array:
    n, d = block.shape
    if not (numbers >= 0).all():
        positive = _gram(block, np.maximum(numbers, 0.0), single)
        return positive - _gram(block, np.maximum(-numbers, 0.0), single)
    dtype = np.dtype(np.float32 if single else np.float64)
    update = blas.ssyrk if single else blas.dsyrk
    total = np.zeros((d, d), dtype=dtype, order="F")
    root = np.sqrt(numbers).astype(dtype)[:, None]
    length = max(256, CHUNK_BYTES // (dtype.itemsize * max(d, 1)))
    for start in range(0, n, length):
        rows = slice(start, start + length)
        part: Any = block[rows]
        part = cast(Any, part).toarray() if sparse.issparse(part) else part
        scaled = part.astype(dtype) if single else part * root[rows]
        if single:
            scaled *= root[rows]
        total = update(1.0, scaled.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    return mirrored(total).astype(np.float64, copy=False)


def _sparse_gram(block: Any, numbers: Array) -> Array:
    n, d = block.shape
    if block.nnz < COMPILED_FROM:
        scaled = sparse.diags_array(numbers) @ block
        product = (block.T @ scaled).toarray()
        return cast(Array, 0.5 * (product + product.T))
    if block.nnz >= FULL * n * d:
        return _gram(block, numbers, False)
    from .kernels.passes import sparse_gram

    total = np.zeros((d, d))
    sparse_gram(block.indptr, block.indices, block.data, numbers, total)
    return mirrored(total)
