"""The problem as the loop sees it: ``F(w) = f(w) + h(S w - o)``, x1 eliminated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import gap_scale
from ..forms.one_block import one_block
from ..problem import Pair, Problem
from ..risk.mean_loss import MeanLoss, mean_loss
from ..second_order import priced


class Composite:
    """A problem with its one-block form and its data term; it holds nothing that changes."""

    def __init__(self, problem: Problem, workspace: Workspace) -> None:
        self.problem, self.workspace = problem, workspace
        self.form = one_block(problem, workspace)
        self.S, self.St = self.form.S, self.form.St
        f2 = mean_loss(problem.f2)
        if f2 is None:
            raise TypeError(f"f2 is {type(problem.f2).__name__}, expected a mean loss of rows")
        self.f: MeanLoss = f2.opened(workspace)

    def inside(self, w: Array) -> tuple[Pair, float]:
        """Return a point near w where all penalties are finite, and the penalty there.

        It is in the type of the data, so that the objective is that of what will be returned.
        """
        dtype = self.problem.dtype
        x = Pair(self.problem.zeros().x1, w.astype(dtype, copy=False))
        return priced(self.problem, x, self.workspace)

    def predicted_decrease(self, objective: float, at: Any, H: Any, w: Array) -> float:
        """Return ``F(x) - m(w)`` with the model m of F at x.

        m(w) = f(x) + <g, w - x> + 1/2 <w - x, H (w - x)> + h(S w - o). A point outside of the
        domain of h is worth what the point inside is, which a step would lead to.
        """
        point, penalty = self.inside(w)
        rounded = np.array_equal(point.x2, w.astype(point.x2.dtype, copy=False))
        step = (w if rounded else point.x2) - at.x
        smooth = at.value + float(np.vdot(at.gradient, step)) + 0.5 * H.quadratic(step)
        return float(objective - (smooth + penalty))

    def gap_scale(self, objective: float, lower_bound: float) -> float:
        """Return what a relative gap is relative to."""
        return gap_scale(self.problem, objective, lower_bound, self.workspace)
