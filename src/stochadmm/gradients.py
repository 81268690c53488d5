"""Gradient estimators: what a method knows of the gradient between passes.

Each is asked for an estimate at a point from a batch of rows, and counts nothing: passes belong to the
state of the method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .finite_sum import Snapshot
from .protocols import Array, SmoothSum
from .sampling import Runs


@dataclass(frozen=True)
class Anchored:
    """The SVRG estimate: full gradient at an anchor, plus the batch's change since then."""

    f2: SmoothSum
    runs: Runs
    at: Any
    """A ``Snapshot``, or the anchor itself for finite sums that keep none."""
    full_gradient: Array

    @classmethod
    def take(cls, f2: Any, runs: Runs, x: Array, known: Snapshot | None = None) -> Anchored:
        """Make the pass at x, unless ``known`` is that pass already."""
        if known is not None and known.x is x:
            return cls(f2, runs, known, known.gradient)
        if hasattr(f2, "snapshot"):
            snapshot = f2.snapshot(x)
            return cls(f2, runs, snapshot, snapshot.gradient)
        return cls(f2, runs, x, f2.gradient(x))

    def estimate(self, batch: NDArray[np.int64], x: Array) -> Array:
        """Return the estimate at x from the rows of a batch."""
        rows = self.runs.rows(batch)
        change = self.f2.gradient_change(rows, x, self.at)
        return self.full_gradient + (self.runs.row_weight * len(rows)) * change
