"""One look at the targets of a source: enough of them to tell their size and their spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.protocols import Array
from ..data import Block, Shard, Source, check_block
from ._reading import add, over_blocks, over_source

ENOUGH = 1 << 16  # targets: quartiles are then known to half a percent of a deviation


@dataclass(frozen=True)
class SampledTargets:
    """Targets, weights and offsets of some rows, and the ends of all."""

    y: Array
    weight: Array
    offset: Array | None
    low: Array
    high: Array

    def add(self, other: SampledTargets) -> SampledTargets:
        """Return what is known of two ranges of rows."""
        offset = None
        if self.offset is not None and other.offset is not None:
            offset = np.concatenate([self.offset, other.offset])
        return SampledTargets(
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weight, other.weight]),
            offset,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


@dataclass(frozen=True)
class _Some:
    """The work on one shard: every so many rows."""

    every: int
    block_bytes: int

    def __call__(self, shard: Shard) -> SampledTargets:
        return over_blocks(shard, self.block_bytes, self._block, add)

    def _block(self, block: Block) -> SampledTargets:
        check_block(block)
        y = np.asarray(block.y, dtype=np.float64)
        some = slice(-block.first % self.every, None, self.every)
        offset = None if block.offset is None else block.offset[some].astype(np.float64)
        return SampledTargets(y[some], block.weights[some], offset, y.min(axis=0), y.max(axis=0))


def sampled_targets(
    source: Source, block_bytes: int = 1 << 24
) -> tuple[Array, Array, Array | None]:
    """Return targets, weights and offsets that stand for those of a source, in one read.

    All of them where they are few. The smallest and the largest target of all rows are the last
    two, with a weight of zero.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.streaming import sampled_targets
    >>> sampled_targets(sa.data.ArraySource(np.ones((3, 1)), np.array([2.0, 5.0, 3.0])))[:2]
    (array([2., 5., 3., 2., 5.]), array([1., 1., 1., 0., 0.]))
    """
    found = over_source(source, _Some(-(-source.n_rows // ENOUGH), block_bytes), add)
    y = np.concatenate([found.y, [found.low, found.high]])
    weight = np.concatenate([found.weight, [0.0, 0.0]])
    offset = found.offset
    if offset is not None:  # ends are those of y alone
        offset = np.concatenate([offset, np.repeat(offset[:1], 2, axis=0)])
    return y, weight, offset
