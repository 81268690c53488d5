"""A copy of rows in another order, so that an extent of it holds rows from a whole neighbourhood.

Windows of extents are as good as single rows from everywhere where rows next to each other have
nothing in common; in files they often do (the same day, the same place, the same label). So every
neighbourhood of as many extents as there are windows is dealt out: of ``count`` consecutive rows
each extent of the neighbourhood gets one. Every window then has its share of whatever is there,
and blocks are still written in long runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..base.capabilities import fact
from ._protocol import Block, Source
from ._scratch import Scratch, reserved
from ._views import toss


@dataclass(frozen=True)
class Lanes:
    """Where the rows of a source lie in the copy: a function of their numbers alone.

    Parameters
    ----------
    n_rows : int
        Rows of the source.
    count, length : int
        Extents of a neighbourhood, and rows of each.
    seed : int
        Of the coin.

    Examples
    --------
    >>> from stochadmm.data import Lanes
    >>> Lanes(12, count=2, length=3).places(0, 12)
    array([ 3,  0,  1,  4,  2,  5,  6,  9,  7, 10,  8, 11])
    """

    n_rows: int
    count: int
    length: int
    seed: int = 0

    def places(self, first: int, n: int) -> NDArray[np.int64]:
        """Return the places of consecutive rows."""
        around, end = self.count * self.length, first + n
        last = self.n_rows - self.n_rows % around  # from here on rows do not fill all extents
        found = [np.empty(0, dtype=np.int64)]
        if first < last:
            start, stop = first - first % self.count, min(end, last)
            stop += -stop % self.count
            coin = toss(self.seed, start, stop - start).reshape(-1, self.count)
            group = np.arange(start // self.count, stop // self.count)
            base = group // self.length * around + group % self.length
            places = (base[:, None] + _ranks(coin) * self.length).ravel()
            found.append(places[first - start : min(end, last) - start])
        if end > last:
            places = last + _ranks(toss(self.seed, last, self.n_rows - last))
            found.append(places[max(first, last) - last : end - last])
        return np.concatenate(found)


def _ranks(coin: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(coin, axis=-1), axis=-1).astype(np.int64)


@dataclass(frozen=True)
class Shuffle(Scratch):
    """Files for the rows of a source in another order."""

    lanes: Lanes = field(kw_only=True)

    def write(self, block: Block) -> None:
        """Write some rows to their places, in as long runs as there are."""
        places = self.lanes.places(block.first, len(block))
        order = np.argsort(places)
        places = places[order]
        edges = np.flatnonzero(np.diff(places, prepend=-2, append=-2) != 1)
        for file, rows in self.parts(block):
            file.scatter(places[edges[:-1]], edges, rows[order])


def shuffle_for(source: Source, lanes: Lanes, beside: Scratch | None = None) -> Shuffle | None:
    """Return files for a copy of dense rows of files in another order; None where none is made.

    ``beside`` is a copy in the order of the source that is written at the same time.
    """
    if beside is None and not fact(source, "on_disk"):
        return None
    files = reserved(source, copies=1 if beside is None else 2)
    return None if files is None else Shuffle(files, lanes=lanes)
