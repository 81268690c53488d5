"""Small dense matrices: Gram matrices of rows, inverses, triangles made whole."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas, lapack

from ..base.protocols import Array
from . import threads


@dataclass(frozen=True)
class GramOptions:
    """How the work of a Gram matrix is cut.

    Parameters
    ----------
    chunk_bytes : int
        Scaled rows that are multiplied at a time: enough for BLAS, little beside the data.
    compiled : int
        Stored numbers from which on sparse rows are worth a compiled loop.
    full : float
        Share of stored numbers from which on sparse rows are multiplied as dense ones.
    part_work, sparse_work : int
        Products below which a part is not worth another thread; those of sparse rows are slower.
    looks_at : int
        Entries of sparse rows that the cut into ranges of columns looks at.
    most_parts : int
        Parts at most: each has a matrix of its own.
    rows_per_column : int
        Rows of a part for each column: adding up its matrix is then a small share of its work.
    thin : int
        Rows of the data for each column from which on a few matrices are small beside them.
    """

    chunk_bytes: int = 1 << 22
    compiled: int = 1 << 13
    full: float = 0.25
    part_work: int = 1 << 23
    sparse_work: int = 1 << 19
    looks_at: int = 1 << 14
    most_parts: int = 16
    rows_per_column: int = 4
    thin: int = 64


OPTIONS = GramOptions()


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


def weighted_gram(
    block: Any, numbers: Array, intercept: bool, single: bool = False, rows: Any = None
) -> Array:
    """Return ``sum_i numbers_i a_i a_i'`` in float64 over the rows of a block.

    Parameters
    ----------
    block : array or CSR array
        The rows a_i.
    numbers : array
        One number per row used, of any sign.
    intercept : bool
        Whether each row ends with a one that is not stored.
    single : bool
        Multiply dense rows in float32, twice as fast.
    rows : array of int, optional
        The rows used, all of them by default; they are gathered a few at a time.
    """
    is_sparse: bool = sparse.issparse(block)
    if is_sparse and block.nnz < OPTIONS.full * block.shape[0] * block.shape[1]:
        return _sparse_gram(block, numbers, intercept, rows)
    return _gram(block, numbers, intercept, single, rows)


def gram_parts(n: int, d: int, n_data: int) -> int:
    """Return into how many parts threads cut the Gram matrix of n of n_data rows.

    One where the matrix is not small beside the data: BLAS then uses threads of its own, and no
    second matrix is needed.
    """
    if n_data < OPTIONS.thin * d:
        return 1
    work, rows = n * d * d // OPTIONS.part_work, n // (OPTIONS.rows_per_column * d)
    return max(1, min(work, rows, OPTIONS.most_parts))


def _gram(block: Any, numbers: Array, intercept: bool, single: bool, rows: Any) -> Array:
    if (numbers < 0).any():
        if (numbers <= 0).all():  # of two classes, as curvatures are
            return -_gram(block, -numbers, intercept, single, rows)
        positive = _gram(block, np.maximum(numbers, 0.0), intercept, single, rows)
        return positive - _gram(block, np.maximum(-numbers, 0.0), intercept, single, rows)
    n, (n_data, d) = len(numbers), block.shape
    parts = threads.ranges(n, gram_parts(n, d, n_data))

    def part(within: slice) -> Array:
        return _lower_gram(block, numbers, intercept, single, rows, within, len(parts) > 1)

    return mirrored(threads.add_up(part, parts)).astype(np.float64, copy=False)


def _lower_gram(
    block: Any,
    numbers: Array,
    intercept: bool,
    single: bool,
    rows: Any,
    within: slice,
    shared: bool,
) -> Array:
    """Return the lower triangle of the Gram matrix of a range of the rows used.

    Where threads share the work, NumPy multiplies: it lets them run meanwhile, the routines of
    SciPy do not. These add to a matrix in place, which needs less memory.
    """
    d = block.shape[1]
    dtype = np.dtype(np.float32 if single else np.float64)
    update = blas.ssyrk if single else blas.dsyrk
    total = np.zeros((d + intercept, d + intercept), dtype=dtype, order="F")
    length = max(256, OPTIONS.chunk_bytes // (dtype.itemsize * d), 2 * d if shared else 0)
    memory = np.empty((min(length, within.stop - within.start), d + intercept), dtype=dtype)
    for start in range(within.start, within.stop, length):
        few = slice(start, min(start + length, within.stop))
        root = np.sqrt(numbers[few]).astype(dtype, copy=False)
        part = block[few if rows is None else rows[few]]
        is_sparse: bool = sparse.issparse(part)
        part = part.toarray() if is_sparse else part
        scaled = memory[: len(root)]
        np.multiply(part, root[:, None], out=scaled[:, :d], dtype=dtype, casting="same_kind")
        if intercept:
            scaled[:, d] = root
        if shared:
            total += scaled.T @ scaled
        else:
            total = update(1.0, scaled.T, beta=1.0, c=total, lower=1, overwrite_c=1)
    return np.tril(total) if shared else total


def _sparse_gram(block: Any, numbers: Array, intercept: bool, rows: Any) -> Array:
    n, d = len(numbers), block.shape[1]
    lower, border = np.zeros((d + intercept, d + intercept)), np.zeros(d)
    length = n
    if rows is not None:
        length = max(256, OPTIONS.chunk_bytes // (12 * (1 + block.nnz // block.shape[0])))
    for start in range(0, n, length):
        few = slice(start, start + length)
        part = block if rows is None else block[rows[few]]
        _add_products(part, numbers[few], lower)
        if intercept:
            border += part.T @ numbers[few]
    if intercept:
        lower[d, :d], lower[d, d] = border, numbers.sum()
    return mirrored(lower)


def _add_products(block: Any, numbers: Array, lower: Array) -> None:
    from ..kernels.extension import available

    if block.nnz < OPTIONS.compiled or not available():
        d = block.shape[1]
        lower[:d, :d] += np.tril((block.T @ (sparse.diags_array(numbers) @ block)).toarray())
        return
    from ..kernels.passes import sparse_gram

    def columns(those: slice) -> None:  # no two threads write to the same place
        sparse_gram(block, numbers, those.start, those.stop, lower)

    threads.run(columns, _column_ranges(block))


def _column_ranges(block: Any) -> list[slice]:
    """Return ranges of columns with about equal numbers of entries, one for each thread.

    Each entry of the Gram matrix is the sum over the rows in their order, whatever the ranges.
    """
    n, d = block.shape
    work = block.nnz * (1 + block.nnz // n)
    parts = min(work // OPTIONS.sparse_work, d)
    parts = parts if parts <= 1 else min(parts, threads.count())
    if parts <= 1:
        return [slice(0, d)]
    some = np.sort(block.indices[:: 1 + block.nnz // OPTIONS.looks_at])
    inner = some[np.arange(1, parts) * some.size // parts]
    edges = [0, *(int(column) for column in inner), d]
    return [slice(*edge) for edge in itertools.pairwise(edges)]
