"""The problem as the loop sees it: ``F(w) = f(w) + h(S w - o)``, x1 eliminated."""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import gap_scale
from ..forms.one_block import one_block
from ..problem import Pair, Problem
from ..risk import Evaluation, FiniteSum
from ..risk.finite_sum import as_finite_sum
from ..risk.lines import Line
from ..risk.mean_loss import mean_loss
from ..second_order import priced


class DataTerm(Protocol):
    """A smooth convex function f: the mean loss of the rows, or one made of it."""

    @property
    def n_terms(self) -> int:
        """Rows of the data."""

    @property
    def opening_passes(self) -> float:
        """Reads before the first evaluation."""

    def evaluate_exactly(self, x: Array) -> Evaluation:
        """Return the evaluation at x in float64; where coefficients are fitted, near x."""

    def along(self, at: Evaluation, x: Array) -> Line:
        """Return the line from ``at.x`` to x, where f is evaluated."""


class Composite:
    """A problem with its one-block form and its data term; it holds nothing that changes."""

    def __init__(self, problem: Problem, workspace: Workspace) -> None:
        self.problem, self.workspace = problem, workspace
        self.form = one_block(problem, workspace)
        self.S, self.St = self.form.S, self.form.St
        f2 = mean_loss(problem.f2)
        if f2 is None:
            raise TypeError(f"f2 is {type(problem.f2).__name__}, expected a mean loss of rows")
        self.f: DataTerm = f2.opened(workspace)

    def with_data(self, f: DataTerm) -> Composite:
        """Return the same penalties with another data term."""
        other = copy(self)
        other.f = f
        return other

    @property
    def rows(self) -> FiniteSum:
        """The data term as rows in memory; others are refused."""
        return as_finite_sum(self.problem.f2)

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
