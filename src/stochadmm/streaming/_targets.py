"""One look at the targets of a source: classes, range, weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.protocols import Array
from ..data import Block, DataError, Shard, Source, check_block, is_numeric
from ._reading import over_blocks, over_source


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
    >>> from stochadmm.streaming import targets_of
    >>> source = sa.data.ArraySource(np.ones((4, 1)), np.array([2.0, 5.0, 2.0, 5.0]))
    >>> found = targets_of(source, most_classes=10)
    >>> found.classes, found.mass
    (array([2., 5.]), array([2., 2.]))
    """
    work = Look(most_classes, block_bytes)
    return over_source(source, work, work.join)
