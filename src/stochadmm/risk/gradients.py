"""Gradient estimators: what a method knows of the gradient between passes.

Each is asked for an estimate at a point from a batch of rows, and counts nothing: passes belong to
the state of the method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.capabilities import Has, offers
from ..base.protocols import Array, SmoothSum
from ..kernels.loops import Anchor
from .evaluation import Evaluation
from .sampling import Runs


@dataclass(frozen=True)
class Anchored:
    """The SVRG estimate: full gradient at an anchor, plus the batch's change since then."""

    f2: SmoothSum
    runs: Runs
    at: Any
    """An ``Evaluation``, or the anchor itself for finite sums that keep none."""
    full_gradient: Array
    reads: float = 1.0
    """Passes that it took."""

    @classmethod
    def take(cls, f2: Any, runs: Runs, x: Array, known: Evaluation | None = None) -> Anchored:
        """Make the pass at x, unless ``known`` is that pass already."""
        if known is not None and known.x is x:
            return cls(f2, runs, known, known.gradient)
        if offers(f2, Has.ANCHOR):
            at = f2.anchor(x)
            return cls(f2, runs, at, at.gradient)
        return cls(f2, runs, x, f2.gradient(x))

    @property
    def compiled(self) -> Anchor:
        """The same for compiled loops."""
        kept = self.at.derivative if self.at.has_rows else None
        return Anchor(kept, self.full_gradient, self.at.x)

    def estimate(self, batch: NDArray[np.int64], x: Array) -> Array:
        """Return the estimate at x from the rows of a batch."""
        rows = self.runs.rows(batch)
        change = self.f2.gradient_change(rows, x, self.at)
        change = (self.runs.row_weight * len(rows)) * change
        change += self.full_gradient
        return change


@dataclass(frozen=True)
class Fresh:
    """The plain estimate: the mean gradient of the batch, as noisy as the batch is small."""

    f2: Any
    runs: Runs

    def estimate(self, batch: NDArray[np.int64], x: Array) -> Array:
        """Return the estimate at x from the rows of a batch."""
        rows = self.runs.rows(batch)
        gradient: Array = self.f2.gradient_rows(rows, x)
        return (self.runs.row_weight * len(rows)) * gradient


@dataclass(frozen=True)
class Table:
    """The SAG estimate: the mean of the last gradient seen of every row.

    For linear models a row's gradient is its derivative times the row, so the table holds one
    number per row and output. With ``points`` it also holds where each row was seen last, which
    nothing compresses. The arrays belong to the state of the method and are changed in place.
    """

    f2: Any
    runs: Runs
    derivatives: Array
    mean_gradient: Array
    points: Array | None = None
    mean_point: Array | None = None

    def estimate(self, batch: NDArray[np.int64], x: Array) -> Array:
        """See the rows of a batch at x and return the mean over all rows."""
        rows = np.unique(self.runs.rows(batch))  # a row drawn twice is seen once
        n = self.f2.n_terms
        derivatives = self.f2.derivative(self.f2.predict(x, rows), rows)
        change = self.f2.weighted(derivatives - self.derivatives[rows], rows)
        self.mean_gradient[...] += self.f2.pull_back(change, rows) / n
        self.derivatives[rows] = derivatives
        if self.points is not None and self.mean_point is not None:
            self.mean_point[...] += (x - self.points[rows]).sum(axis=0) / n
            self.points[rows] = x
        return self.mean_gradient


@dataclass(frozen=True)
class Loopless:
    """The SVRG estimate whose anchor jumps to the current point with a fixed probability.

    There is no epoch length to choose: after every step a coin decides whether the next estimates
    start from a full gradient at the point just visited.

    D. Kovalev, S. Horvath, P. Richtarik, "Don't Jump Through Hoops and Remove Those Loops",
    ALT 2020, arXiv:1901.08689.
    """

    anchored: Anchored
    probability: float

    @classmethod
    def take(cls, f2: SmoothSum, runs: Runs, x: Array, probability: float) -> Loopless:
        """Make the first pass, at x."""
        return cls(Anchored.take(f2, runs, x), probability)

    def estimate(self, batch: NDArray[np.int64], x: Array) -> Array:
        """Return the estimate at x from the rows of a batch."""
        return self.anchored.estimate(batch, x)

    def spans(self, rng: np.random.Generator, n_steps: int) -> list[slice]:
        """Toss the coins of so many steps; the anchor moves after every span but the last.

        The last span is empty when the last coin says move.
        """
        moves = np.flatnonzero(rng.random(n_steps) < self.probability) + 1
        edges = [0, *(int(k) for k in moves), n_steps]
        return [slice(a, b) for a, b in pairwise(edges)]

    def moved(self, x: Array) -> Loopless:
        """Return the estimator with its anchor at x: one pass."""
        return replace(self, anchored=Anchored.take(self.anchored.f2, self.anchored.runs, x))
