"""One look at the columns of a source: means and mean squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.protocols import Array
from ..data import CSR, Block, Shard, Source
from ._reading import add, over_blocks, over_source


@dataclass(frozen=True)
class ColumnMeans:
    """Weighted means of the columns and of their squares."""

    weight: float
    mean: Array
    square: Array
    is_sparse: bool

    def add(self, other: ColumnMeans) -> ColumnMeans:
        """Return the sums of two ranges of rows, before they are divided by the weight."""
        return ColumnMeans(
            self.weight + other.weight, self.mean + other.mean, self.square + other.square,
            self.is_sparse or other.is_sparse,
        )  # fmt: skip


@dataclass(frozen=True)
class _Sums:
    block_bytes: int

    def __call__(self, shard: Shard) -> ColumnMeans:
        return over_blocks(shard, self.block_bytes, _sums, add)


def _sums(block: Block) -> ColumnMeans:
    q, rows = block.weights, block.rows
    return ColumnMeans(
        float(q.sum()), rows.as_type(np.float64).rmatvec(q), rows.column_sums_of_squares(q),
        rows.storage == CSR,
    )  # fmt: skip


def column_means(source: Source, block_bytes: int = 1 << 24) -> ColumnMeans:
    """Return means of the columns and of their squares, in one read.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.streaming import column_means
    >>> column_means(sa.data.ArraySource(np.array([[1.0], [3.0]]), np.zeros(2))).mean
    array([2.])
    """
    sums = over_source(source, _Sums(block_bytes), add)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    return ColumnMeans(
        sums.weight, sums.mean / sums.weight, sums.square / sums.weight, sums.is_sparse
    )
