"""Small dense matrices: Gram matrices of rows, inverses, triangles made whole."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.linalg import blas, lapack

from . import threads
from .protocols import Array

CHUNK_BYTES = 1 << 22
COMPILED_FROM = 1 << 13
"""Stored numbers from which on sparse rows are worth a compiled loop."""
FULL = 0.25
"""Share of stored numbers from which on sparse rows are multiplied as dense ones."""
PART_WORK = 1 << 23
"""Products below which a part of a Gram matrix is not worth another thread."""
SPARSE_PART_WORK = 1 << 19
"""The same for sparse rows, whose products are slower."""
SOME_ENTRIES = 1 << 14
MOST_PARTS = 16
ROWS_PER_COLUMN = 4
"""Rows of a part for each column: adding up its matrix is then a small share of its work."""
THIN = 64
"""Rows of the data for each column from which on a few matrices are small beside them."""


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


def gram_parts(n: int, d: int, n_data: int) -> int:
    """Return into how many parts threads cut the Gram matrix of n of n_data rows.

    One where the matrix is not small beside the data: BLAS then uses threads of its own, and no
    second matrix is needed.
    """
    if n_data < THIN * d:
        return 1
    return max(1, min(n * d * d // PART_WORK, n // (ROWS_PER_COLUMN * d), MOST_PARTS))


def _gram(block: Any, numbers: Array, single: bool) -> Array:
    n, d = block.shape
    if not (numbers >= 0).all():
        positive = _gram(block, np.maximum(numbers, 0.0), single)
        return positive - _gram(block, np.maximum(-numbers, 0.0), single)
    parts = threads.ranges(n, gram_parts(n, d, n))
    lower = threads.add_up(lambda rows: _lower_gram(block, numbers, rows, single), parts)
    return mirrored(lower).astype(np.float64, copy=False)


def _lower_gram(block: Any, numbers: Array, within: slice, single: bool) -> Array:
    d = block.shape[1]
    dtype = np.dtype(np.float32 if single else np.float64)
    update = blas.ssyrk if single else blas.dsyrk
    total = np.zeros((d, d), dtype=dtype, order="F")
    length = max(256, CHUNK_BYTES // (dtype.itemsize * max(d, 1)))
    for start in range(within.start, within.stop, length):
        rows = slice(start, min(start + length, within.stop))
        root = np.sqrt(numbers[rows]).astype(dtype)[:, None]
        part: Any = block[rows]
        part = cast(Any, part).toarray() if sparse.issparse(part) else part
        scaled = part.astype(dtype) if single else part * root
        if single:
            scaled *= root
        total = update(1.0, scaled.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    return total


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

    def columns(those: slice) -> None:  # no two threads write to the same place
        sparse_gram(
            block.indptr, block.indices, block.data, numbers, those.start, those.stop, total
        )

    threads.run(columns, _column_ranges(block))
    return mirrored(total)


def _column_ranges(block: Any) -> list[slice]:
    """Return ranges of columns with about equal numbers of entries, one for each thread.

    Each entry of the Gram matrix is the sum over the rows in their order, whatever the ranges.
    """
    n, d = block.shape
    work = block.nnz * (1 + block.nnz // n)
    parts = min(work // SPARSE_PART_WORK, d)
    parts = parts if parts <= 1 else min(parts, threads.count())
    if parts <= 1:
        return [slice(0, d)]
    some = np.sort(block.indices[:: 1 + block.nnz // SOME_ENTRIES])
    inner = some[np.arange(1, parts) * some.size // parts]
    edges = [0, *(int(column) for column in inner), d]
    return [slice(*edge) for edge in itertools.pairwise(edges)]
