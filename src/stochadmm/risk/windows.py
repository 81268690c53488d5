"""Batches of rows that are in files: windows of many short extents, drawn from everywhere.

Rows are cut into extents, each of which is one consecutive read. A window is as many of them as
fit into memory, one of each neighbourhood of the file, dealt at random until all had their turn;
the steps of an epoch go from window to window, and batches go through the rows of a window in
random order. Rows sorted by label or by time do no harm: an extent may hold one label only, a
window holds its share of each; and dense files are copied in an order in which an extent is as
good as so many single rows (`data.Lanes`). The rows of a batch have numbers in the files that are
read, so that with the rows in memory the same batches give the same iterates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..data import DENSE, Block, Lanes, Rows, Shard, as_rows, check_origins, pieces_of
from . import Evaluation, FiniteSum
from .gradients import Anchored
from .passes import note_read
from .sampling import Runs

if TYPE_CHECKING:
    from .streamed import StreamedSum


@dataclass(frozen=True)
class WindowRuns(Runs):
    """How single rows are drawn from windows; ``Runs.rows`` of a batch are their numbers.

    Parameters
    ----------
    extent : int
        Rows of an extent; the last one may be shorter.
    per_window : int
        Extents in a window.
    """

    extent: int = 1
    per_window: int = 1

    @classmethod
    def of(cls, f2: StreamedSum, batch_size: int) -> WindowRuns:
        """Return windows that fit into the memory of a streamed sum."""
        n, row = f2.n_terms, 8 * f2.n_columns
        fits = max(
            1, int(0.7 * f2.memory) // row
        )  # the remainder is for samples and small matrices
        # extents of at most 256 KiB: longer ones are read no faster; at least 512 in a window, as
        # neighbours in a file are often alike and places count, not rows: steps in the metric of
        # the data go all the way to the solution of a window, which must be near that of all rows
        longest = min(max(1, (1 << 18) // row), max(1, fits // 512))
        extent = min(n, max(longest, max(1, (1 << 12) // row)))  # 4 KiB: shorter ones are slow
        return cls(n, n, min(batch_size, n), extent, max(1, fits // extent))

    @property
    def n_extents(self) -> int:
        """Extents of all rows."""
        return -(-self.n_rows // self.extent)

    @property
    def n_windows(self) -> int:
        """Windows that hold all rows together."""
        return -(-self.n_extents // min(self.per_window, self.n_extents))

    def lanes(self, seed: int) -> Lanes:
        """Return how rows are dealt to the extents of a neighbourhood, one of each window."""
        return Lanes(self.n_rows, self.n_windows, self.extent, seed)

    def dealt(self, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Return the extents of each window of one pass.

        Of neighbours in the file every window gets one, at random: whatever rows are sorted by,
        each window has its share of all of it.
        """
        strata = np.arange(-(-self.n_extents // self.n_windows) * self.n_windows)
        mixed = rng.permuted(strata.reshape(-1, self.n_windows), axis=1)
        return [part[part < self.n_extents] for part in mixed.T]

    def spans(self, n_batches: int) -> list[slice]:
        """Return which of so many batches come from the same window."""
        wanted = n_batches * self.per_batch * self.n_windows / self.n_rows
        count = int(np.clip(round(wanted), 1, n_batches))
        edges = [n_batches * k // count for k in range(count + 1)]
        return [slice(a, b) for a, b in pairwise(edges)]

    def draw(self, rng: np.random.Generator, n_batches: int) -> Any:
        """Return so many batches, drawn window by window as they are used.

        All numbers of rows of an epoch would take more memory than a budget allows.
        """
        return Drawn(self, n_batches, int(rng.integers(1 << 62)))


@dataclass(frozen=True)
class Drawn:
    """The batches of an epoch, from a seed of their own."""

    runs: WindowRuns
    n_batches: int
    seed: int

    def __len__(self) -> int:
        return self.n_batches

    def windows(self) -> Iterator[NDArray[np.int64]]:
        """Yield the rows of the batches of one window after the other, one batch a row."""
        runs, rng = self.runs, np.random.default_rng(self.seed)
        waiting: list[NDArray[np.int64]] = []
        for span in runs.spans(self.n_batches):
            waiting = waiting or runs.dealt(rng)
            start = waiting.pop() * runs.extent
            length = np.minimum(runs.extent, runs.n_rows - start)
            last = np.cumsum(length)
            place = _in_turn(int(last[-1]), (span.stop - span.start, runs.per_batch), rng)
            which = np.searchsorted(last, place, side="right")
            yield start[which] + place - (last - length)[which]


def _in_turn(n: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return batches that go through n places in random order, then again in another one.

    Nobody waits while others come twice, which independent draws would let happen.
    """
    wanted = shape[0] * shape[1]
    rounds = [rng.permutation(n) for _ in range(-(-wanted // n))]
    return np.concatenate(rounds)[:wanted].reshape(shape)


@dataclass(frozen=True)
class Window:
    """Rows in memory, and the steps that draw from them."""

    f2: FiniteSum
    batches: NDArray[np.int64]
    """Of places in the window."""
    runs: Runs
    weight: float
    """Mean weight of the window's rows over that of all."""

    def anchored(self, gradient: Anchored) -> Anchored:
        """Return the estimate of gradients with differences from the rows of the window."""
        at = Evaluation(gradient.at.x, gradient.at.value, gradient.full_gradient)
        runs = WeightedRuns(self.runs.n_rows, self.runs.n_runs, self.runs.per_batch, self.weight)
        return Anchored(self.f2, runs, at, gradient.full_gradient)


@dataclass(frozen=True)
class WeightedRuns(Runs):
    """Runs whose rows count with a factor: weights of a window have a mean of their own."""

    factor: float = 1.0

    @property
    def row_weight(self) -> float:
        """Weight of a row of a batch."""
        return self.factor * super().row_weight


def windows(f2: StreamedSum, drawn: Drawn, mean_weight: float) -> Iterator[Window]:
    """Read the rows that an epoch's batches draw, window after window.

    A window is to be used before the next one is asked for: they share their memory.
    """
    parts, runs = _Parts(f2.source.shards), drawn.runs
    most = min(runs.per_window * runs.extent, runs.n_rows)
    buffer: list[Array] = []  # of dense rows, one window after the other
    for wanted in drawn.windows():
        extents = np.unique(wanted // runs.extent)
        start = extents * runs.extent
        stop = np.minimum(start + runs.extent, runs.n_rows)
        blocks = parts.read(list(zip(start.tolist(), stop.tolist(), strict=True)), f2.block_bytes)
        before = np.cumsum(stop - start) - (stop - start)
        which = np.searchsorted(extents, wanted // runs.extent)
        places = np.asarray(before[which] + wanted - start[which], dtype=np.int64)
        term, weight = _joined(f2, blocks, most, buffer)
        check_origins(f2.source)
        n = term.n_terms
        yield Window(term, places, Runs(n, n, runs.per_batch), weight / mean_weight)


def _joined(
    f2: StreamedSum, blocks: Iterator[Block], most: int, buffer: list[Array]
) -> tuple[FiniteSum, float]:
    """Return the mean loss of some blocks of rows in float64, and their mean weight.

    Dense rows are written to ``buffer``, of ``most`` rows, over those of the window before.
    """
    sparse: list[Rows] = []
    numbers: dict[str, list[Array]] = {"y": [], "weight": [], "offset": []}
    place = 0
    for block in blocks:
        if block.rows.storage == DENSE:
            if not buffer:
                buffer.append(np.empty((most, f2.n_features)))
            buffer[0][place : place + len(block)] = block.rows.dense(block.rows.dtype)
        else:
            sparse.append(block.rows.as_type(np.float64))
        for name, array in (("y", block.y), ("weight", block.weight), ("offset", block.offset)):
            if array is not None:
                numbers[name].append(array)
        place += len(block)
    rows = sparse[0].followed_by(*sparse[1:]) if sparse else as_rows(buffer[0][:place])
    y, weight, offset = (np.concatenate(part) if part else None for part in numbers.values())
    term = FiniteSum(f2.loss, rows, y, weight, intercept=f2.intercept, offset=offset)
    return term, 1.0 if weight is None else float(weight.mean(dtype=np.float64))


@dataclass(frozen=True)
class _Parts:
    """Any rows of a source whose shards can be read in parts."""

    shards: Sequence[Shard]

    def read(self, extents: list[tuple[int, int]], max_bytes: int) -> Iterator[Block]:
        """Yield the rows of extents in their order; blocks end where shards do."""
        for number, own in groupby(self._within_shards(extents), key=lambda part: part[0]):
            ranges = [(first, stop) for _, first, stop in own]
            yield from pieces_of(self.shards[number], ranges, max_bytes)
            note_read(sum(stop - first for first, stop in ranges))

    def _within_shards(self, extents: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """Yield the shard, the first and the last row but one of each extent, cut at shards."""
        for first, stop in extents:
            number = bisect_right(self.shards, first, key=lambda shard: shard.first) - 1
            while first < stop:
                shard = self.shards[number]
                end = min(stop, shard.first + shard.n_rows)
                yield number, first, end
                first, number = end, number + 1
