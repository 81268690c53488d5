"""Rows of a dense matrix, in either order; those of a read-only memory map are read in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..kernels.columns import is_plain, squares
from ..kernels.extension import available
from ..linear_algebra.dense import weighted_gram
from .rows import ALL, DENSE, ColumnMoments, Counted


@dataclass(frozen=True, eq=False)
class DenseRows(Counted):
    """An array of shape (n, d)."""

    storage: ClassVar[str] = DENSE

    X: Array

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix."""
        return int(self.X.nbytes)

    @property
    def n_entries(self) -> int:
        """Numbers stored: all of them."""
        return int(self.X.size)

    def ranges(self, within: slice = ALL, itemsize: int = 8) -> Iterator[slice]:
        """Yield the row ranges of blocks."""
        n, d = self.shape
        return self.blocking.ranges(n, d * itemsize, within)

    def blocks(self, within: slice = ALL, itemsize: int = 8) -> Iterator[tuple[slice, DenseRows]]:
        """Yield consecutive rows, with their range."""
        return ((rows, self.take(rows)) for rows in self.ranges(within, itemsize))

    def in_type(self, dtype: Any) -> Iterator[tuple[slice, DenseRows, DenseRows]]:
        """Yield consecutive rows as they are and in a type; copies share their memory.

        New memory for every copy would cost more than the products: systems hand out pages of
        zeros, one by one.
        """
        buffer: Array | None = None
        for part, rows in self.blocks(itemsize=self.dtype.itemsize):
            wide = rows
            if rows.dtype != dtype:
                buffer = np.empty_like(rows.X, dtype=dtype) if buffer is None else buffer
                wide = DenseRows(buffer[: len(rows.X)])
                np.copyto(wide.X, rows.X)
            yield part, rows, wide

    def take(self, rows: Any) -> DenseRows:
        """Return some rows in memory; slices are not copied."""
        taken = DenseRows(self.X[rows])
        self.tally.add(len(taken.X))
        return taken

    def columns(self, index: NDArray[np.intp]) -> DenseRows:
        """Return some columns, copied row by row."""
        self.note_all()
        return DenseRows(np.take(self.X, index, axis=1))

    def matvec(self, v: Array) -> Array:
        """Return ``X v`` for ``v`` of shape (d,) or (d, C)."""
        self.note_all()
        return np.asarray(self.X @ v)

    def rmatvec(self, u: Array) -> Array:
        """Return ``X' u`` for ``u`` of shape (n,) or (n, C)."""
        self.note_all()
        return np.asarray(self.X.T @ u)

    def sandwich(
        self, weights: Array, rows: Any = None, *, ones: bool = False, single: bool = False
    ) -> Array:
        """Return ``sum_i weights_i a_i a_i'`` in float64 over all rows or those named.

        With ``ones`` every row ends with a one that is not stored; with ``single`` dense rows are
        multiplied in float32.
        """
        self.tally.add(len(weights))
        return weighted_gram(self.X, weights, ones, single=single, rows=rows)

    def row_norms2(self) -> Array:
        """Return the squared norm of each row."""
        self.note_all()
        return np.asarray(np.einsum("ij,ij->i", self.X, self.X))

    def row_sums_of_squares(self, v: Array) -> Array:
        """Return ``sum_j x_ij^2 v_j`` of each row, without a copy of the rows."""
        self.note_all()
        return np.asarray(np.einsum("ij,ij,j->i", self.X, self.X, v, dtype=np.float64))

    def column_sums_of_squares(self, weights: Array | None = None) -> Array:
        """Return ``sum_i weights_i x_ij^2`` of each column in float64; weights of one if none."""
        self.note_all()
        if weights is None and available() and is_plain(self.X):
            return squares(self.X)
        if weights is None:
            return np.asarray(np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64))
        sums = np.einsum("i,ij,ij->j", weights, self.X, self.X, dtype=np.float64)
        return np.asarray(sums)

    def largest_sums_of_squares(self, weights: Array, edges: NDArray[np.intp]) -> Array:
        """Return, per column, the largest ``sum_i weights_i x_ij^2`` of runs of rows.

        Run r is ``edges[r]`` up to ``edges[r + 1]``.
        """
        (n, d), n_runs = self.shape, len(edges) - 1
        largest = np.zeros(d)
        together = max(1, self.blocking.block_bytes * n_runs // max(8 * n * d, 1))
        for run in range(0, n_runs, together):
            here = edges[run : run + together + 1]
            rows = slice(int(here[0]), int(here[-1]))
            block = np.square(self.take(rows).X, dtype=np.float64)
            block *= weights[rows, None]
            sums = np.add.reduceat(block, here[:-1] - here[0], axis=0)
            np.maximum(largest, sums.max(axis=0), out=largest)
        return largest

    def column_moments(self) -> ColumnMoments:
        """Return sums over columns in two reads, a wide copy of some rows at a time."""
        d = self.shape[1]
        top = np.zeros(d)
        for _, block in self.blocks():
            np.maximum(top, np.abs(block.X).max(axis=0), out=top)
        unit = np.where(top > 0, top, 1.0)
        count, total, squares = np.zeros(d, dtype=np.intp), np.zeros(d), np.zeros(d)
        for _, block in self.blocks():
            wide = np.asarray(block.X, dtype=np.float64) / unit
            count += np.count_nonzero(wide, axis=0)
            total += wide.sum(axis=0)
            squares += np.einsum("ij,ij->j", wide, wide)
        return ColumnMoments(unit, count, total, squares)

    def entries_per_row(self) -> Array:
        """Return the number of columns, for each row."""
        n, d = self.shape
        return np.full(n, d, dtype=np.float64)

    def dense(self, dtype: Any = np.float64) -> Array:
        """Return the array itself where it has the type asked for."""
        self.note_all()
        return self.X.astype(dtype, copy=False)

    def as_type(self, dtype: Any) -> DenseRows:
        """Return the rows in a type; themselves where they have it."""
        return self if self.dtype == dtype else DenseRows(self.dense(dtype))

    def changed(self, shift: Array | None, scale: Array | None) -> DenseRows:
        """Return a copy with ``(x_ij - shift_j) scale_j``; sparse columns with zeros stay put."""
        self.note_all()
        X = np.array(self.X)
        if shift is not None:
            X -= shift.astype(X.dtype)
        if scale is not None:
            X *= scale.astype(X.dtype)
        return DenseRows(X)

    def with_ones(self) -> DenseRows:
        """Return a copy with one more, last column of ones."""
        self.note_all()
        return DenseRows(np.hstack([self.X, np.ones((len(self.X), 1), self.X.dtype)]))

    def followed_by(self, *others: Any) -> DenseRows:
        """Return a copy of these rows and others below them."""
        self.note_all()
        return DenseRows(np.concatenate([self.X, *(other.dense(self.dtype) for other in others)]))
