"""The problem as the loop sees it: ``F(w) = f(w) + h(S w - o)``, x1 eliminated."""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol

import numpy as np

from ..base.capabilities import Has
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import gap_scale, has_certificate, repaired
from ..forms.one_block import one_block
from ..problem import Pair, Problem
from ..risk import Evaluation, FiniteSum, loss_of_rows
from ..risk.finite_sum import as_finite_sum
from ..risk.lines import Line
from ..risk.mean_loss import mean_loss


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


def why_no_form(problem: Problem, workspace: Workspace | None = None) -> str | None:
    """Return why a problem is no f2(w) + H(S w - o) with conjugates, None if it is."""
    if problem.f1 is not None:
        return "f1 beside a structure"
    if not has_certificate(problem, workspace):
        return "a part has no conjugate, or an operator no matrix"
    if one_block(problem, workspace).is_through:
        return "A1 is not a multiple of the identity"
    return None


def is_quadratic(problem: Problem) -> bool:
    """Say whether f2 is a quadratic function."""
    return loss_of_rows(problem.f2, Has.SQUARE) is not None


def priced(problem: Problem, x: Pair, workspace: Workspace) -> tuple[Pair, float]:
    """Return a feasible pair near x inside the domain of the penalties, and the penalty there."""
    near = problem.feasible(x)
    penalty = problem.penalty(near)
    found = None if np.isfinite(penalty) else repaired(problem, near, workspace=workspace)
    if found is None:
        return near, penalty
    moved = Pair(found.x1.astype(problem.dtype), found.x2.astype(problem.dtype))
    return moved, problem.penalty(moved)
