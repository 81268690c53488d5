"""One look at a source, in one read: its columns, its targets, a sample of these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.protocols import Array
from ..data import (
    CSR,
    Block,
    DataError,
    Shard,
    Source,
    check_block,
    is_numeric,
    mean_and_deviation,
)
from .passes import add, over_blocks, over_source

ENOUGH = 1 << 16  # targets: quartiles are then known to half a percent of a deviation


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
    weight, columns = float(block.weights.sum()), block.X.shape[1]
    mean, deviation = (
        mean_and_deviation(block.X, block.weights)
        if weight
        else (np.zeros(columns), np.zeros(columns))
    )
    return ColumnMeans(weight, mean, weight * deviation**2, block.rows.storage == CSR)


def column_means(source: Source, block_bytes: int = 1 << 24) -> ColumnMeans:
    """Return means and deviations of the columns, in one read.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.risk.looks import column_means
    >>> found = column_means(sa.data.ArraySource(np.array([[1.0], [3.0]]), np.zeros(2)))
    >>> found.mean, found.deviation
    (array([2.]), array([1.]))
    """
    found = over_source(source, _Sums(block_bytes), add)
    if not found.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    return found


@dataclass(frozen=True)
class Targets:
    """What is known of targets without holding them."""

    n: int
    """Rows of a weight above zero."""
    classes: Array | None
    """Different values, sorted; None where they are more than asked for."""
    mass: Array | None
    """Sum of the weights of each class."""
    low: float
    high: float
    """Ends of their range; NaN for texts."""
    outputs: int | None
    """Targets of a row, None for one number."""

    def add(self, other: Targets, most: int) -> Targets:
        """Return what is known of two ranges of rows."""
        classes, mass = None, None
        if self.classes is not None and other.classes is not None:
            both = np.concatenate([self.classes, other.classes])
            classes, place = np.unique(both, return_inverse=True)
            assert self.mass is not None and other.mass is not None
            mass = np.bincount(place, np.concatenate([self.mass, other.mass]), len(classes))
            if len(classes) > most:
                classes = mass = None
        return Targets(
            self.n + other.n,
            classes,
            mass,
            min(self.low, other.low),
            max(self.high, other.high),
            self.outputs,
        )


@dataclass(frozen=True)
class Look:
    """The work on one shard."""

    most: int
    block_bytes: int

    def __call__(self, shard: Shard) -> Targets:
        """Read the shard once."""
        return over_blocks(shard, self.block_bytes, self._block, self.join)

    def join(self, a: Targets, b: Targets) -> Targets:
        """Return what is known of two ranges of rows."""
        return a.add(b, self.most)

    def _block(self, block: Block) -> Targets:
        check_block(block, labels=self.most > 0)
        y, q = block.y, block.weights
        classes, mass, outputs = None, None, None if y.ndim == 1 else y.shape[1]
        if y.ndim == 1:
            classes, place = _different(block)
            mass = np.bincount(place, q, len(classes))
            if len(classes) > self.most:
                classes = mass = None
        ends = (float(y.min()), float(y.max())) if is_numeric(y) else (np.nan, np.nan)
        return Targets(int(np.count_nonzero(q)), classes, mass, *ends, outputs)


def _different(block: Block) -> tuple[Array, Array]:
    """Return the different targets of a block, sorted, and which of them each row has."""
    try:
        classes, place = np.unique(block.y, return_inverse=True)
    except TypeError as error:
        raise DataError(
            f"{block.place}: the labels are of several kinds, or some are missing; make them all "
            "texts or all numbers"
        ) from error
    return classes, place


def targets_of(source: Source, most_classes: int = 0, block_bytes: int = 1 << 24) -> Targets:
    """Look at the targets of a source, in one read on the engine in use.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.risk.looks import targets_of
    >>> source = sa.data.ArraySource(np.ones((4, 1)), np.array([2.0, 5.0, 2.0, 5.0]))
    >>> found = targets_of(source, most_classes=10)
    >>> found.classes, found.mass
    (array([2., 5.]), array([2., 2.]))
    """
    work = Look(most_classes, block_bytes)
    return over_source(source, work, work.join)


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
    >>> from stochadmm.risk.looks import sampled_targets
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
