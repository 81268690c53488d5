"""What a run needs beyond the data and its iterates: numbers of rows."""

from __future__ import annotations

import math
from typing import Any

from ..base.capabilities import fact
from ..data import Blocking


def recomputes(f2: Any) -> bool:
    """Say whether snapshots keep nothing per row, so that a batch's part is computed again."""
    return not fact(f2, "keeps_rows")


def block_numbers(f2: Any, tables: int) -> int:
    """Return the numbers of one block of rows: a copy of it, and tables of its predictions."""
    numbers: int = f2.shape[0] + tables * math.prod(f2.shape[1:])
    return _block_rows(f2) * numbers


def pass_bytes(f2: Any) -> int:
    """Return the bytes of a pass that keeps nothing per row.

    Two sums of gradients in float64, what a block adds, and of the block predictions, derivatives,
    and predictions in float64 with their exponentials.
    """
    size: int = f2.dtype.itemsize
    tables = (2 * size + 16) * math.prod(f2.shape[1:]) * _block_rows(f2)
    return int((16 + size) * math.prod(f2.shape) + tables)


def _block_rows(f2: Any) -> int:
    blocking = Blocking()
    rows = max(blocking.fewest, blocking.block_bytes // (f2.dtype.itemsize * f2.shape[0]))
    return int(min(rows, f2.n_terms))
