"""What dense and sparse rows in memory share: blocks, and a count of what is read.

Nothing outside of this package indexes the matrix of the data: it asks for blocks, for some rows,
for some columns, or for a product. Both kinds count what is read of them: a product with all rows
is one read, and rows that are taken are read once, when they are taken, whatever is done with
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.protocols import Array
from ..base.validation import as_csr, is_sparse, refuse_masked
from ..kernels.columns import is_plain, squares
from ..kernels.extension import available
from ..kernels.passes import sparse_copy
from ..linear_algebra.dense import weighted_gram

DENSE, CSR = "dense", "csr"
ALL = slice(None)
_LOCK = Lock()


class Reads:
    """How many rows have been read; safe with threads."""

    def __init__(self) -> None:
        self.rows = 0

    def add(self, rows: int) -> None:
        """Count some rows."""
        with _LOCK:
            self.rows += rows


@dataclass(frozen=True)
class Blocking:
    """How rows are cut into blocks that one pass goes through.

    Parameters
    ----------
    block_bytes : int
        Rows of a block: they stay in a second-level cache between the two products of a pass.
    fewest : int
        Rows of a block at least: below, calls cost more than products.
    """

    block_bytes: int = 1 << 19
    fewest: int = 256

    def ranges(self, n_rows: int, bytes_per_row: int, within: slice = ALL) -> Iterator[slice]:
        """Yield consecutive row ranges; where they are cut depends on the sizes alone."""
        start, stop, _ = within.indices(n_rows)
        yield from cut(start, stop, max(self.fewest, self.block_bytes // max(bytes_per_row, 1)))


def cut(start: int, stop: int, length: int) -> Iterator[slice]:
    """Yield consecutive ranges of a length; the last may be shorter."""
    for first in range(start, stop, length):
        yield slice(first, min(first + length, stop))


@dataclass(frozen=True, eq=False)
class Counted:
    """A matrix with rows in memory, which counts what is read of it."""

    has_view: ClassVar[bool] = True
    """Whether compiled loops can read the numbers as they are."""

    X: Any
    tally: Reads = field(default_factory=Reads, repr=False)
    blocking: Blocking = field(default=Blocking(), repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, d = self.X.shape
        return int(n), int(d)

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = self.X.dtype
        return kind

    @property
    def reads(self) -> float:
        """What has been read so far, in units of all rows."""
        return self.tally.rows / self.shape[0]

    def note_read(self, rows: int) -> None:
        """Count rows that a compiled loop read through a view."""
        self.tally.add(rows)

    def note_all(self) -> None:
        """Count all rows."""
        self.tally.add(self.shape[0])


@dataclass(frozen=True)
class ColumnMoments:
    """Sums over each column, of entries divided by ``unit`` so that squares do not overflow."""

    unit: Array
    """Largest absolute entry, one for columns of zeros."""
    count: NDArray[np.intp]
    """Entries other than zero."""
    total: Array
    squares: Array


@dataclass(frozen=True, eq=False)
class DenseRows(Counted):
    """An array of shape (n, d)."""

    storage: ClassVar[str] = DENSE

    X: Array

    @property
    def n_bytes(self) -> int:
        return int(self.X.nbytes)

    @property
    def n_entries(self) -> int:
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


def half_rows(X: Any) -> HalfRows | None:
    """Return a memory map of float16 as rows that are read in place, None for any other X."""
    mapped = isinstance(X, np.memmap) and X.dtype == np.float16 and X.ndim == 2
    return HalfRows(X) if mapped else None


@dataclass(frozen=True, eq=False)
class HalfRows(DenseRows):
    """An array or memory map of float16 of shape (n, d), read in place.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.data import HalfRows
    >>> rows = HalfRows(np.ones((3, 2), dtype=np.float16))
    >>> rows.dtype, rows.n_bytes, rows.matvec(np.array([1.0, 2.0]))
    (dtype('float32'), 12, array([3., 3., 3.]))
    """

    has_view: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.X.dtype != np.float16 or self.X.ndim != 2:
            raise ValueError(
                f"X has dtype {self.X.dtype} and {self.X.ndim} dimension(s), expected a matrix of "
                "float16; pass other rows as they are"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def take(self, rows: Any) -> DenseRows:
        """Return a wide copy of some rows."""
        taken = DenseRows(np.asarray(self.X[rows], dtype=np.float32))
        self.tally.add(len(taken.X))
        return taken

    def columns(self, index: NDArray[np.intp]) -> DenseRows:
        self.note_all()
        return HalfRows(np.take(self.X, index, axis=1))

    def matvec(self, v: Array) -> Array:
        out = np.empty((self.shape[0], *v.shape[1:]), dtype=np.result_type(self.dtype, v.dtype))
        for rows, block in self.blocks():
            out[rows] = block.X @ v
        return out

    def rmatvec(self, u: Array) -> Array:
        """Return ``X' u``, added up in float64."""
        total = np.zeros((self.shape[1], *u.shape[1:]))
        for rows, block in self.blocks():
            total += block.X.T @ u[rows]
        return total.astype(np.result_type(self.dtype, u.dtype), copy=False)

    def row_norms2(self) -> Array:
        out = np.empty(self.shape[0], dtype=np.float32)
        for rows, block in self.blocks():
            out[rows] = np.einsum("ij,ij->i", block.X, block.X)
        return out

    def dense(self, dtype: Any = np.float64) -> Array:
        """Return a wide copy of all rows."""
        self.note_all()
        return self.X.astype(dtype)

    def changed(self, shift: Array | None, scale: Array | None) -> DenseRows:
        """Return a copy with ``(x_ij - shift_j) scale_j``, in float32."""
        return DenseRows(self.dense(np.float32)).changed(shift, scale)

    def with_ones(self) -> DenseRows:
        return DenseRows(self.dense(np.float32)).with_ones()


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


Rows = DenseRows | CSRRows
"""A matrix of rows in float32 or float64."""


def as_rows(X: Any) -> Rows:
    """Return rows of a dense or CSR matrix of floats as it is: nothing is checked or copied."""
    if isinstance(X, Rows):
        return X
    return CSRRows(X) if is_sparse(X) else DenseRows(X)


def checked_rows(X: Any, notes: list[str]) -> Rows:
    """Return the rows that a user gave; what was converted or copied is noted.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Rows
        Row-major arrays and CSR matrices of floats are taken without a copy, read-only ones too.
    notes : list of str
        Grows by a sentence for every conversion.
    """
    if isinstance(X, Rows):
        return X
    by_entries = is_sparse(X)
    if by_entries:
        made = as_csr(X, "X")
        if X.format != "csr":
            notes.append(f"X converted from {X.format} to CSR")
        elif made.nnz < X.nnz:
            notes.append("duplicate entries of the CSR matrix X were summed in a copy")
        X = made
    else:
        refuse_masked(X, "X")
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension(s), expected 2 (rows, columns); reshape it, e.g. "
            "X.reshape(-1, 1) for one column"
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X has shape {X.shape}; pass at least one row and one column")
    X = _floats(X, notes)
    if by_entries:
        return CSRRows(X)
    if not X.flags.c_contiguous:
        notes.append("X copied to row-major order")
    X = np.require(X, requirements=["C", "A"])  # numbers at odd addresses are copied too
    if X.nbytes <= 1 << 20:  # read in no time as it is
        return DenseRows(X)
    some = np.ascontiguousarray(X[:: max(1, len(X) // 500)])
    if np.count_nonzero(some) > 0.15 * some.size:  # a sparse copy would be slower to multiply with
        return DenseRows(X)
    X = sparse_copy(X)
    share = 1 - X.nnz / (X.shape[0] * X.shape[1])
    notes.append(f"{100 * share:.0f} % of X are zeros: a sparse copy is worked on")
    return CSRRows(X)


def _floats(X: Any, notes: list[str]) -> Any:
    if X.dtype in (np.float32, np.float64):
        return X
    if not np.issubdtype(X.dtype, np.number) and X.dtype != bool:
        raise ValueError(
            f"X has dtype {X.dtype}, expected numbers; encode text columns first, e.g. "
            "with sklearn.preprocessing.OneHotEncoder"
        )
    if np.issubdtype(X.dtype, np.complexfloating):
        raise ValueError("X is complex, expected real numbers; split it into two columns")
    notes.append(f"X converted from {X.dtype} to float64")
    return X.astype(np.float64)


def check_finite(norms2: Array) -> None:
    """Raise where a squared row norm is not finite, with the number of the row."""
    if not np.isfinite(norms2).all():
        bad = int(np.flatnonzero(~np.isfinite(norms2))[0])
        raise ValueError(
            f"X contains NaN, infinite or overflowing values (first in row {bad}); remove or "
            "impute them, e.g. with sklearn.impute.SimpleImputer, and rescale huge columns"
        )


def bytes_per_row(X: Any) -> int:
    """Return the mean size of a row."""
    if is_sparse(X):
        size = X.data.itemsize + X.indices.itemsize
        return max(1, int(X.nnz * size) // max(1, int(X.shape[0])))
    return int(X.shape[1] * np.dtype(X.dtype).itemsize)


def wide(X: Array) -> Array:
    """Return float16 as float32, whole numbers as float64."""
    return np.asarray(X, dtype=np.float32 if X.dtype == np.float16 else np.float64)


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
