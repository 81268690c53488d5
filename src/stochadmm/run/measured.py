"""Arrays as they would be returned, with everything that is said about them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates.repair import is_rounding, repaired, wide
from ..problem import Pair, Problem
from ..risk import Evaluation, loss_of_rows
from ..solvers import State
from .prediction_range import ROUNDING
from .result import Record


@dataclass(frozen=True)
class Measured:
    """Arrays as they would be returned, with everything that is said about them.

    Only `Monitor.appraise` makes one: objective, feasibility, gap and the verdict belong to these
    arrays, evaluated in float64.
    """

    point: Pair
    """What is returned, in the type of the data."""
    dual: Array
    beta: float
    objective: float
    """F at ``point``; of a model, F of x2."""
    feasibility: float
    """|A1 x1 + A2 x2 - b| / (1 + |b|) at ``point``."""
    residual: float
    """|A1 x1 + A2 x2 - b| that the objective may owe to. Where x1 follows from x2 it is what
    rounding to the type of the data takes out of the domains of penalties."""
    strayed: float
    """Relative infeasibility of the pair of the method."""
    bound: float | None
    kkt_residual: float | None
    scale: float
    weight: float = 0.0
    """Norm of the larger of two multipliers: that of the method and that of the bound."""
    cache: Evaluation | None = None
    meets: bool = False
    """Whether the stopping rule holds for these arrays."""
    beyond: float | None = None
    """How far predictions lie beyond the range where the loss is exact; None before the rule
    accepts the arrays."""

    @property
    def in_range(self) -> bool:
        """Whether the loss is exact at these arrays, as far as is known."""
        return self.beyond is None or self.beyond <= ROUNDING

    @property
    def gap(self) -> float | None:
        """Certified upper bound on the distance to the optimum; infinite where it is no number.

        At least what a multiplier makes of the infeasibility: below the optimum the distance to a
        lower bound says nothing.
        """
        if self.bound is None:
            return None
        distance = self.objective - self.bound
        return float(max(distance, self.charge)) if distance < np.inf else np.inf

    @property
    def relative_gap(self) -> float | None:
        """The gap relative to the objective."""
        gap, scale = self.gap, self.scale
        if gap is None or gap == np.inf:
            return gap
        if scale > 0:
            return float(gap / scale)
        return 0.0 if gap == 0 else np.inf

    def copy(self) -> Measured:
        """Return a measurement that a method cannot change by working in its own arrays."""
        return dataclasses.replace(self, point=self.point.copy(), dual=self.dual.copy())

    @property
    def charge(self) -> float:
        """What a multiplier makes of the infeasibility: F may be so much below the optimum."""
        return self.weight * self.residual if self.residual else 0.0

    def merit(self, other: Measured) -> float:
        """Return F plus twice what the larger multiplier makes of the infeasibility.

        It is an exact penalty: its minimizers are feasible.
        """
        if not self.residual:
            return self.objective
        return self.objective + 2.0 * max(self.weight, other.weight) * self.residual

    def better_than(self, other: Measured) -> bool:
        """Say whether this later point is at least as good: by rule, by merit, by KKT residual.

        Values that differ by their rounding tell nothing of two points, and steps go forward.
        """
        if self.meets != other.meets:
            return self.meets
        mine, theirs = self.merit(other), other.merit(self)
        if np.isfinite(mine) or np.isfinite(theirs):  # a number is better than none
            slack = 4.0 * float(np.finfo(np.float64).eps) * abs(theirs)
            return bool(np.isfinite(mine) and not mine > theirs + slack)
        a, b = self.kkt_residual, other.kkt_residual
        return a is not None and (b is None or bool(a <= b))

    def record(self, state: State, solving: float, measuring: float) -> Record:
        """Return the numbers of this measurement; the infeasibility is that of the method."""
        return self._numbers(state, solving, measuring, self.strayed)

    def returned(self, state: State) -> Record:
        """Return the numbers of these arrays alone, for the stopping rule."""
        return self._numbers(state, 0.0, 0.0, self.feasibility)

    def _numbers(
        self, state: State, solving: float, measuring: float, feasibility: float
    ) -> Record:
        return Record(
            state.n_epochs,
            state.n_passes,
            state.n_gradients,
            solving,
            measuring,
            self.objective,
            feasibility,
            self.gap,
            self.relative_gap,
            self.kkt_residual,
            int(np.count_nonzero(self.point.x2)),
        )


class Memory(NamedTuple):
    """What a monitor knows after some measurements."""

    bound: float | None = None
    """Best lower bound on the optimal value."""
    previous: float = np.inf
    """Objective of the measurement before."""
    patience: int = 0
    """Measurements to wait before the next tight certificate."""


# ---------------------------------------------------------------- what is said about arrays


def as_returned(problem: Problem, point: Pair) -> tuple[Pair, bool]:
    """Return a pair in the type of the data, and whether its x2 is still the same numbers.

    In a model x1 follows from the x2 that is returned. A zero has no sign.
    """
    x1 = point.x1.astype(problem.dtype) + problem.dtype.type(0)
    x2 = _rounded_inside(problem, point.x2) + problem.dtype.type(0)
    exact = bool(np.array_equal(x2, point.x2))
    if problem.is_model and not exact:
        again = repaired(problem, Pair(x1, x2))
        if again is not None and np.array_equal(again.x2.astype(problem.dtype), x2):
            x1 = again.x1.astype(problem.dtype)
    return Pair(x1, x2), exact


def _rounded_inside(problem: Problem, x2: Array) -> Array:
    """Return x2 in the type of the data, rounded so that it stays in the domain of h2."""
    x = x2.astype(problem.dtype)
    if problem.h2 is None or problem.dtype == np.float64:
        return x
    for _ in range(4):  # one unit is enough for a box, a ball asks for one per rounded product
        exact = x.astype(np.float64)
        if np.isfinite(problem.h2.value(exact)):
            break
        outside = exact - problem.inside(Pair(problem.zeros().x1, exact)).x2
        inward = np.nextafter(x, -np.copysign(np.inf, outside), dtype=x.dtype)
        x = np.where(outside == 0, x, inward)
    return x


def infeasibility(problem: Problem, x: Pair) -> tuple[float, float]:
    """Return |A1 x1 + A2 x2 - b| in float64, as it is and over 1 + |b|."""
    if not problem.constrained:
        return 0.0, 0.0
    residual = float(np.linalg.norm(problem.constraint(wide(x))))
    right = 0.0 if problem.b is None else float(np.linalg.norm(problem.b))
    return residual, residual / (1.0 + right)


def value_of(problem: Problem, x2: Array) -> float:
    """Return f2 in float64 whatever the data."""
    f2 = loss_of_rows(problem.f2)
    if f2 is not None and problem.dtype != np.float64:
        return f2.value(x2.astype(np.float64))
    return float(problem.f2.value(x2))


def penalty_of(
    problem: Problem, x: Pair, workspace: Workspace | None = None
) -> tuple[float, float]:
    """Return the penalties of a returned pair, and how far it is outside of their domains.

    Of a model they are those of x2 and of what follows from it in float64; x1 is rounded to the
    type of the data. Where rounding of x2 has taken x1 out of a domain, the penalties are those
    of the nearest point inside, and the second number is what is missing in the constraint there.
    """
    if not problem.is_model or not problem.constrained:
        return problem.penalty(x), 0.0
    if problem.dtype == np.float64:  # x1 of its own, as methods have, says nothing about x2
        own = is_rounding(problem, x, problem.constraint(x), workspace=workspace)
        return problem.penalty(x if own else problem.feasible(x)), 0.0
    follows = problem.feasible(wide(x))
    value = problem.penalty(follows)
    if np.isfinite(value):
        return value, 0.0
    inside = problem.inside(follows)
    missing = problem.constraint(inside)
    if not is_rounding(problem, follows, missing, problem.dtype, workspace):
        return value, 0.0
    return problem.penalty(inside), float(np.linalg.norm(missing))
