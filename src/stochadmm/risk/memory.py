"""What a run needs beyond the data and its iterates: numbers of rows."""

from __future__ import annotations

import math
from typing import Any

from ..base.capabilities import Has, offers
from ..data import Blocking


def recomputes(f2: Any) -> bool:
    """Say whether snapshots keep nothing per row, so that a batch's part is computed again."""
    return offers(f2, Has.MEMORY) and not f2.keeps_rows


def block_numbers(f2: Any, tables: float) -> int:
    """Return the numbers of one block of rows: a copy of it, and tables of its predictions."""
    columns, outputs = f2.shape[0], math.prod(f2.shape[1:])
    blocking = Blocking()
    rows = max(blocking.fewest, blocking.block_bytes // (f2.dtype.itemsize * columns))
    return int(min(rows, f2.n_terms) * (columns + tables * outputs))
