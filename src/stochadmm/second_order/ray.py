"""The objective along a step, on predictions at hand."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..problem import Pair, Problem
from ..risk import FiniteSum
from .model import priced


@dataclass(frozen=True)
class Ray:
    """Points on the way from a start to x2 and beyond it, and the objective there."""

    problem: Problem
    f2: FiniteSum
    start: Pair
    x2: Array
    predictions: Array
    """Those of the start,"""
    change: Array
    """and what x2 adds to them."""
    workspace: Workspace

    def at(self, t: float) -> tuple[Pair, float]:
        """Return the pair at a share of the way, and its penalty.

        Between two points inside of all domains rounding alone leads out, and is taken back;
        beyond x2 there may be an end.
        """
        dtype, begin = self.problem.dtype, self.start.x2
        step = (self.x2 - begin).astype(dtype)
        x = Pair(self.start.x1, begin + dtype.type(t) * step)
        if t <= 1:
            return priced(self.problem, x, self.workspace)
        ahead = self.problem.feasible(x)
        return ahead, self.problem.penalty(ahead)

    def value(self, t: float) -> float:
        """Return the objective at a share of the way, without a read of the data."""
        return self.f2.value_at(self.predictions + t * self.change) + self.at(t)[1]
