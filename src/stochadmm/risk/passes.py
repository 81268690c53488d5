"""How a pass over all rows is cut among threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..data import cut
from ..linear_algebra import threads


@dataclass(frozen=True)
class Passes:
    """How a pass over all rows is cut.

    Parameters
    ----------
    part_bytes : int
        Work below which a part is not worth another thread.
    most_parts : int
        Parts at most: each adds up a gradient of its own.
    fewest_rows : int
        Rows of a part at least.
    rows_per_sum : int
        Rows whose sums a compiled pass keeps in the data's type before they are added in float64.
    predictions : int
        Predictions that are in memory at a time where only their sum is asked for.
    """

    part_bytes: int = 1 << 21
    most_parts: int = 16
    fewest_rows: int = 256
    rows_per_sum: int = 1 << 14
    predictions: int = 1 << 20

    def parts(self, n_rows: int, n_bytes: int) -> list[slice]:
        """Return the row ranges that threads share, one where there is little work."""
        parts = min(n_bytes // self.part_bytes, n_rows // self.fewest_rows, self.most_parts)
        return threads.ranges(n_rows, parts)

    def few(self, part: slice, n_outputs: int) -> Iterator[slice]:
        """Yield ranges of a part whose predictions are few."""
        return cut(part.start, part.stop, max(self.fewest_rows, self.predictions // n_outputs))
