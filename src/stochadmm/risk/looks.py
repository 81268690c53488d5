"""One look at a source, in one read: its columns, its targets, a sample of these."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..base.protocols import Array
from ..data import CSR, Block, DataError, Source, check_block, is_numeric, mean_and_deviation
from .passes import over_source

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
    found = over_source(source, _column_means, block_bytes=block_bytes)
    if not found.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    return found


def _column_means(block: Block) -> ColumnMeans:
    weight, d = float(block.weights.sum()), block.X.shape[1]
    mean, deviation = np.zeros(d), np.zeros(d)
    if weight:
        mean, deviation = mean_and_deviation(block.X, block.weights)
    return ColumnMeans(weight, mean, weight * deviation**2, block.rows.storage == CSR)


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


def targets_of(source: Source, most_classes: int = 0) -> Targets:
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
    join = partial(_joined, most=most_classes)
    found: Targets = over_source(source, partial(_targets, most=most_classes), join)
    return found


def _targets(block: Block, most: int) -> Targets:
    check_block(block, labels=most > 0)
    y, q = block.y, block.weights
    classes, mass, outputs = None, None, None if y.ndim == 1 else y.shape[1]
    if y.ndim == 1:
        try:
            classes, place = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise DataError(
                f"{block.place}: the labels are of several kinds, or some are missing; make them "
                "all texts or all numbers"
            ) from error
        mass = np.bincount(place, q, len(classes))
        if len(classes) > most:
            classes = mass = None
    ends = (float(y.min()), float(y.max())) if is_numeric(y) else (np.nan, np.nan)
    return Targets(int(np.count_nonzero(q)), classes, mass, *ends, outputs)


def _joined(a: Targets, b: Targets, most: int) -> Targets:
    """Return what is known of two ranges of rows."""
    classes, mass = None, None
    if a.classes is not None and b.classes is not None:
        assert a.mass is not None and b.mass is not None
        both = np.concatenate([a.classes, b.classes])
        classes, place = np.unique(both, return_inverse=True)
        mass = np.bincount(place, np.concatenate([a.mass, b.mass]), len(classes))
        if len(classes) > most:
            classes = mass = None
    low, high = min(a.low, b.low), max(a.high, b.high)
    return Targets(a.n + b.n, classes, mass, low, high, a.outputs)


def sampled_targets(source: Source) -> tuple[Array, Array, Array | None]:
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
    every = -(-source.n_rows // ENOUGH)
    parts = over_source(source, partial(_every, every=every), operator.add)
    targets, weights, offsets, low, high = zip(*parts, strict=True)
    y = np.concatenate([*targets, [np.min(low, axis=0), np.max(high, axis=0)]])
    weight = np.concatenate([*weights, [0.0, 0.0]])
    if offsets[0] is None:
        return y, weight, None
    # ends are those of y alone
    return y, weight, np.concatenate([*offsets, np.repeat(offsets[0][:1], 2, axis=0)])


def _every(block: Block, every: int) -> list[tuple[Array, Array, Array | None, Array, Array]]:
    """Return every so many rows of a block, and the ends of all its targets."""
    check_block(block)
    y = np.asarray(block.y, dtype=np.float64)
    some = slice(-block.first % every, None, every)
    offset = None if block.offset is None else block.offset[some].astype(np.float64)
    return [(y[some], block.weights[some], offset, y.min(axis=0), y.max(axis=0))]
