"""Rows of numbers in memory, and the products that the rest of the package takes with them.

Nothing above this room indexes the matrix of the data: it asks for blocks, for some rows, for some
columns, or for a product. A provider counts what is read of it: a product with all rows is one
read, and rows that are taken are read when they are taken, once, whatever is done with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array

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
        """float32 or float64."""
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
        self.note_read(self.shape[0])


@dataclass(frozen=True)
class ColumnMoments:
    """Sums over each column, of entries divided by ``unit`` so that squares do not overflow."""

    unit: Array
    """Largest absolute entry, one for columns of zeros."""
    count: NDArray[np.intp]
    """Entries other than zero."""
    total: Array
    squares: Array


@runtime_checkable
class Rows(Protocol):
    """A matrix of rows in float32 or float64."""

    @property
    def has_view(self) -> bool:
        """Whether compiled loops can read the numbers as they are."""

    @property
    def X(self) -> Any:
        """The matrix itself, for views that compiled loops take and for fingerprints."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""

    @property
    def storage(self) -> str:
        """Either "dense" or "csr"."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix."""

    @property
    def n_entries(self) -> int:
        """Numbers stored."""

    @property
    def reads(self) -> float:
        """What has been read so far, in units of all rows."""

    def note_read(self, rows: int) -> None:
        """Count rows that a compiled loop read through a view."""

    def ranges(self, within: slice = ALL, itemsize: int = 8) -> Iterator[slice]:
        """Yield the row ranges of blocks."""

    def blocks(self, within: slice = ALL, itemsize: int = 8) -> Iterator[tuple[slice, Rows]]:
        """Yield consecutive rows, with their range."""

    def in_type(self, dtype: Any) -> Iterator[tuple[slice, Rows, Rows]]:
        """Yield consecutive rows as they are and in a type; copies share their memory."""

    def take(self, rows: Any) -> Rows:
        """Return some rows in memory; consecutive ones are not copied."""

    def columns(self, index: NDArray[np.intp]) -> Rows:
        """Return some columns, copied."""

    def matvec(self, v: Array) -> Array:
        """Return ``X v`` for ``v`` of shape (d,) or (d, C)."""

    def rmatvec(self, u: Array) -> Array:
        """Return ``X' u`` for ``u`` of shape (n,) or (n, C)."""

    def sandwich(
        self, weights: Array, rows: Any = None, *, ones: bool = False, single: bool = False
    ) -> Array:
        """Return ``sum_i weights_i a_i a_i'`` in float64 over all rows or those named.

        With ``ones`` every row ends with a one that is not stored; with ``single`` dense rows are
        multiplied in float32.
        """

    def row_norms2(self) -> Array:
        """Return the squared norm of each row."""

    def row_sums_of_squares(self, v: Array) -> Array:
        """Return ``sum_j x_ij^2 v_j`` of each row, in float64."""

    def column_sums_of_squares(self, weights: Array | None = None) -> Array:
        """Return ``sum_i weights_i x_ij^2`` of each column, in float64; weights of one if none."""

    def largest_sums_of_squares(self, weights: Array, edges: NDArray[np.intp]) -> Array:
        """Return, per column, the largest ``sum_i weights_i x_ij^2`` of consecutive runs of rows.

        Run r is ``edges[r]`` up to ``edges[r + 1]``.
        """

    def column_moments(self) -> ColumnMoments:
        """Return sums of entries and squares of each column."""

    def entries_per_row(self) -> Array:
        """Return how many numbers are stored of each row."""

    def dense(self, dtype: Any = np.float64) -> Array:
        """Return all rows as one dense array."""

    def as_type(self, dtype: Any) -> Rows:
        """Return the rows in a type; themselves where they have it."""

    def changed(self, shift: Array | None, scale: Array | None) -> Rows:
        """Return a copy with ``(x_ij - shift_j) scale_j``; sparse columns with zeros stay put."""

    def with_ones(self) -> Rows:
        """Return a copy with one more, last column of ones."""

    def followed_by(self, *others: Rows) -> Rows:
        """Return a copy of these rows and others below them."""
