"""One look at the columns of a source: means and deviations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.protocols import Array
from ..data import CSR, Block, Shard, Source, columns_of
from ._reading import add, over_blocks, over_source


@dataclass(frozen=True)
class ColumnMeans:
    """Weighted means of the columns, and the sums of the squares of their distances from them."""

    weight: float
    mean: Array
    spread: Array
    is_sparse: bool

    @property
    def deviation(self) -> Array:
        """Root mean square distances from the means."""
        return np.sqrt(self.spread / self.weight)

    def add(self, other: ColumnMeans) -> ColumnMeans:
        """Return those of two ranges of rows (Chan, Golub, LeVeque 1983)."""
        weight = self.weight + other.weight
        share, apart = other.weight / weight if weight else 0.0, other.mean - self.mean
        return ColumnMeans(
            weight,
            self.mean + share * apart,
            self.spread + other.spread + self.weight * share * apart**2,
            self.is_sparse or other.is_sparse,
        )


@dataclass(frozen=True)
class _Sums:
    block_bytes: int

    def __call__(self, shard: Shard) -> ColumnMeans:
        return over_blocks(shard, self.block_bytes, _sums, add)


def _sums(block: Block) -> ColumnMeans:
    weight, (mean, deviation) = float(block.weights.sum()), columns_of(block)
    return ColumnMeans(weight, mean, weight * deviation**2, block.rows.storage == CSR)


def column_means(source: Source, block_bytes: int = 1 << 24) -> ColumnMeans:
    """Return means and deviations of the columns, in one read.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.streaming import column_means
    >>> found = column_means(sa.data.ArraySource(np.array([[1.0], [3.0]]), np.zeros(2)))
    >>> found.mean, found.deviation
    (array([2.]), array([1.]))
    """
    found = over_source(source, _Sums(block_bytes), add)
    if not found.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    return found
