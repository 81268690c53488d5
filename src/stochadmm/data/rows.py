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
