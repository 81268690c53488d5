"""The mean loss along the line between two points.

Rows in memory keep one prediction per row, linear along a line, so that a line search reads
nothing. Rows from a source keep nothing per row; one read answers all lengths of a line search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from ..base.protocols import Array
from .evaluation import Evaluation

if TYPE_CHECKING:
    from .finite_sum import FiniteSum
    from .streamed import OpenedSum

LENGTHS = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.005, 1e-3, 1e-4)
"""Step lengths in the order of trial: a fixed grid, so that a source answers all in one read."""


class Line(Protocol):
    """The data term along ``w + t (v - w)``, 0 <= t <= 1."""

    lengths: ClassVar[tuple[float, ...]]
    """Values of t in the order of trial."""
    takes_first: ClassVar[bool]
    """Whether the first that is short enough is taken: each costs much."""

    def point(self, t: float) -> Array:
        """Return w + t (v - w)."""

    def value(self, t: float) -> float:
        """Return f there."""

    def evaluation(self, t: float, x: Array) -> Evaluation:
        """Return the evaluation there; x is that point, rounded to the type of the data."""

    @property
    def n_passes(self) -> float:
        """Reads of the rows so far."""


@dataclass
class LineInMemory:
    """The line between two evaluations that have their predictions."""

    lengths: ClassVar[tuple[float, ...]] = LENGTHS
    takes_first: ClassVar[bool] = False
    f2: FiniteSum
    start: Evaluation
    end: Evaluation
    n_passes: float = 1.0

    def point(self, t: float) -> Array:
        return self.end.x if t == 1 else self.start.x + t * (self.end.x - self.start.x)

    def _predictions(self, t: float) -> Array:
        z = self.start.predictions
        return np.asarray(z + t * (self.end.predictions - z))

    def value(self, t: float) -> float:
        return self.end.value if t == 1 else self.f2.value_at(self._predictions(t))

    def evaluation(self, t: float, x: Array) -> Evaluation:
        if t == 1:
            return self.end
        x = np.asarray(x, np.float64)
        if self.f2.dtype != np.float64:  # predictions of rounded points are not linear in t
            self.n_passes += 1.0
            return self.f2.evaluate_exactly(x)
        self.n_passes += 0.5  # the gradient of known predictions
        return self.f2.at_predictions(x, self._predictions(t))


@dataclass
class LineFromSource:
    """The line between two evaluations of rows from a source, which share a sample."""

    lengths: ClassVar[tuple[float, ...]] = LENGTHS
    takes_first: ClassVar[bool] = False
    f2: OpenedSum
    start: Evaluation
    end: Evaluation
    n_passes: float = 1.0
    values: dict[float, float] | None = None

    def point(self, t: float) -> Array:
        return self.end.x if t == 1 else self.start.x + t * (self.end.x - self.start.x)

    def value(self, t: float) -> float:
        if t == 1:
            return self.end.value
        if self.values is None:  # all lengths in one read
            shorter = LENGTHS[1:]
            values = self.f2.values_along(self.start.x, self.end.x - self.start.x, shorter)
            self.values = dict(zip(shorter, values, strict=True))
            self.n_passes += 1.0
        return float(self.values[t])

    def evaluation(self, t: float, x: Array) -> Evaluation:
        if t == 1:
            return self.end
        self.n_passes += 1.0
        return self.f2.evaluate_with(self.start.sample, x)
