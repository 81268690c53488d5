"""Rows of a sparse matrix in CSR form; its three arrays may be read-only memory maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.protocols import Array
from ..linear_algebra.dense import weighted_gram
from .rows import ALL, CSR, Blocking, ColumnMoments, Counted


@dataclass(frozen=True, eq=False)
class CSRRows(Counted):
    """A CSR array of shape (n, d) without duplicate entries; `DenseRows` describes the members."""

    storage: ClassVar[str] = CSR
    # calls of SciPy for a block cost more than a cache of the second level saves
    blocking: Blocking = field(default=Blocking(block_bytes=1 << 21), repr=False)

    @property
    def n_bytes(self) -> int:
        return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)

    @property
    def n_entries(self) -> int:
        return int(self.X.nnz)

    def ranges(self, within: slice = ALL, itemsize: int = 8) -> Iterator[slice]:
        n = self.shape[0]
        return self.blocking.ranges(n, 12 * max(1, self.n_entries // n), within)

    def blocks(self, within: slice = ALL, itemsize: int = 8) -> Iterator[tuple[slice, CSRRows]]:
        return ((rows, self.take(rows)) for rows in self.ranges(within, itemsize))

    def in_type(self, dtype: Any) -> Iterator[tuple[slice, CSRRows, CSRRows]]:
        return ((part, rows, rows.as_type(dtype)) for part, rows in self.blocks())

    def take(self, rows: Any) -> CSRRows:
        """Return some rows in memory; entries of consecutive ones are not copied."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(self.shape[0])
            taken = CSRRows(_consecutive(self.X, start, stop))
        else:
            taken = CSRRows(self.X[rows])
        self.tally.add(taken.shape[0])
        return taken

    def columns(self, index: NDArray[np.intp]) -> CSRRows:
        self.note_all()
        return CSRRows(sparse.csr_array(self.X[:, index]))

    def matvec(self, v: Array) -> Array:
        self.note_all()
        return np.asarray(self.X @ v)

    def rmatvec(self, u: Array) -> Array:
        self.note_all()
        return np.asarray(_transposed(self.X) @ u)

    def sandwich(
        self, weights: Array, rows: Any = None, *, ones: bool = False, single: bool = False
    ) -> Array:
        self.tally.add(len(weights))
        return weighted_gram(self.X, weights, ones, single=single, rows=rows)

    def row_norms2(self) -> Array:
        """Return the squared norm of each row, added up in float64."""
        self.note_all()
        norms = np.zeros(self.shape[0])
        for rows in self.ranges():  # squares of all entries would take as much memory as they
            starts = self.X.indptr[rows.start : rows.stop + 1]
            squares = self.X.data[starts[0] : starts[-1]] ** 2
            filled = starts[1:] > starts[:-1]
            begins = (starts[:-1] - starts[0])[filled]
            norms[rows][filled] = np.add.reduceat(squares, begins, dtype=np.float64)
        return norms

    def row_sums_of_squares(self, v: Array) -> Array:
        self.note_all()
        return np.asarray(self.X.multiply(self.X) @ v, dtype=np.float64)

    def column_sums_of_squares(self, weights: Array | None = None) -> Array:
        self.note_all()
        if weights is None:
            squares = np.square(self.X.data, dtype=np.float64)
            return np.bincount(self.X.indices, squares, self.X.shape[1])
        return np.asarray(self.X.multiply(self.X).T @ weights, dtype=np.float64)

    def largest_sums_of_squares(self, weights: Array, edges: NDArray[np.intp]) -> Array:
        """Return the largest ``sum_i weights_i x_ij^2`` of runs of rows; sums stay sparse."""
        self.note_all()
        n = self.shape[0]
        run = sparse.csr_array((weights, np.arange(n), edges), (len(edges) - 1, n))
        largest = (run @ self.X.multiply(self.X).tocsr()).max(axis=0)
        return np.asarray(largest.toarray().ravel(), dtype=np.float64)

    def column_moments(self) -> ColumnMoments:
        """Return sums over the stored entries of columns."""
        self.note_all()
        d = self.shape[1]
        data, index = self.X.data.astype(np.float64), self.X.indices
        data, index = data[data != 0], index[data != 0]
        count = np.bincount(index, minlength=d)
        top = np.zeros(d)
        np.maximum.at(top, index, np.abs(data))
        unit = np.where(top > 0, top, 1.0)
        total = np.bincount(index, data / unit[index], minlength=d)
        squares = np.bincount(index, (data / unit[index]) ** 2, minlength=d)
        return ColumnMoments(unit, count, total, squares)

    def entries_per_row(self) -> Array:
        return np.asarray(np.diff(self.X.indptr), dtype=np.float64)

    def dense(self, dtype: Any = np.float64) -> Array:
        self.note_all()
        return np.asarray(self.X.toarray().astype(dtype, copy=False))

    def as_type(self, dtype: Any) -> CSRRows:
        return self if self.dtype == dtype else CSRRows(self.X.astype(dtype))

    def changed(self, shift: Array | None, scale: Array | None) -> CSRRows:
        """Return a copy with ``(x_ij - shift_j) scale_j`` for the stored entries."""
        self.note_all()
        X = self.X.copy()
        if shift is not None:
            X.data -= shift.astype(X.dtype)[X.indices]
        if scale is not None:
            X.data *= scale.astype(X.dtype)[X.indices]
        return CSRRows(X)

    def with_ones(self) -> CSRRows:
        self.note_all()
        ones: Any = np.ones((self.shape[0], 1), self.dtype)
        return CSRRows(sparse.csr_array(sparse.hstack([self.X, ones])))

    def followed_by(self, *others: Any) -> CSRRows:
        self.note_all()
        more = [sparse.csr_array(other.X) for other in others]
        return CSRRows(sparse.csr_array(sparse.vstack([self.X, *more])))


def _consecutive(X: Any, start: int, stop: int) -> Any:
    """Return a view of consecutive rows of a CSR matrix: no entry is copied."""
    if start == 0 and stop == X.shape[0]:
        return X
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    view.data = X.data[first:last]
    view.indices = X.indices[first:last]
    view.indptr = X.indptr[start : stop + 1] - first
    return view


def _transposed(X: Any) -> Any:
    """Return a view of the transpose of a CSR matrix; SciPy's copies the entries of a view."""
    view = sparse.csc_array(X.shape[::-1], dtype=X.dtype)
    view.data, view.indices, view.indptr = X.data, X.indices, X.indptr
    return view
