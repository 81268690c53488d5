"""One look at the columns of a source: means and mean squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import cluster
from ..base.protocols import Array
from ..data import CSR, Shard, Source


@dataclass(frozen=True)
class ColumnMeans:
    """Weighted means of the columns and of their squares."""

    weight: float
    mean: Array
    square: Array
    is_sparse: bool


@dataclass(frozen=True)
class _Sums:
    block_bytes: int

    def __call__(self, shard: Shard) -> ColumnMeans:
        total: ColumnMeans | None = None
        for block in shard.blocks(self.block_bytes):
            rows = block.rows
            q = np.ones(len(block)) if block.weight is None else block.weight.astype(np.float64)
            part = ColumnMeans(
                float(q.sum()), rows.as_type(np.float64).rmatvec(q),
                rows.column_sums_of_squares(q), rows.storage == CSR,
            )  # fmt: skip
            total = part if total is None else _add(total, part)
        assert total is not None, "a shard has at least one row"
        return total


def _add(a: ColumnMeans, b: ColumnMeans) -> ColumnMeans:
    return ColumnMeans(
        a.weight + b.weight, a.mean + b.mean, a.square + b.square, a.is_sparse or b.is_sparse
    )


def column_means(source: Source, block_bytes: int = 1 << 24) -> ColumnMeans:
    """Return means of the columns and of their squares, in one read.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.streaming import column_means
    >>> column_means(sa.data.ArraySource(np.array([[1.0], [3.0]]), np.zeros(2))).mean
    array([2.])
    """
    sums = cluster.current(source).map_reduce(source.shards, _Sums(block_bytes), _add)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    return ColumnMeans(
        sums.weight, sums.mean / sums.weight, sums.square / sums.weight, sums.is_sparse
    )
