"""The loopless variant of the snapshot estimator: a coin decides when the anchor moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array, SmoothSum
from .gradients import Anchored
from .sampling import Runs


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
