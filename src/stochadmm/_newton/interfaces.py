"""The four exchangeable parts of the Newton loop, and what passes between them.

All parts are frozen; what changes is in `NewtonState`, and what is expensive to make (factors,
Gram matrices) in the workspace of the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.immutable import copied
from ..base.protocols import Array
from ..base.serialize import CACHE
from ..base.workspace import Workspace
from ..certificates import DualPoint
from ..problem import Pair, Problem
from ..risk import Evaluation
from .composite import Composite, DataTerm
from .trust import Trust


@dataclass(frozen=True)
class Run:
    """What is asked of a run: how accurate, until when, with which random numbers."""

    rng: np.random.Generator
    target: float | None = None
    """Relative duality gap that is waited for; without one no dual point is looked for."""
    deadline: Deadline = NEVER


@dataclass
class NewtonState:
    """All that changes in the loop, and nothing else."""

    x: Pair
    """Iterate w = x.x2 in the type of the data, and the block x1 that follows from it."""
    mu: Array
    """Multiplier of S w - o."""
    warm: Any
    """Warm start of the subproblem: a frozen object of its own class."""
    trust: Trust
    at: Evaluation
    """Value, gradient and derivatives of f at w, in float64."""
    objective: float
    """F(w)."""
    is_structured: bool = False
    """Whether zeros and ties of w are exact, so that none need be looked for."""
    dual: DualPoint | None = None
    """The dual point of the best lower bound so far."""
    predicted: float = np.inf
    """Decrease of F that the last model predicted,"""
    decrease: float = np.inf
    """and what the step brought."""
    n_steps: int = 0
    n_passes: float = 0.0
    """Rows read / n."""
    n_gradients: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)
    """What the result says of the run, by name."""
    setup_counted: bool = False
    """Whether the reads are counted for what the curvature needs once: Gram matrix, sampler."""
    model: Any = field(default=None, repr=False, metadata=CACHE)
    """The model of the last step. Before the first one, that of a run that ended here, or None."""

    @property
    def lower_bound(self) -> float:
        """The best lower bound of the optimal value."""
        return -np.inf if self.dual is None else self.dual.bound

    def copy(self) -> NewtonState:
        """Return a state with arrays of its own."""
        return copied(self)


@dataclass(frozen=True)
class Candidate:
    """What a subproblem returns."""

    w: Array
    mu: Array
    predicted: float
    """Decrease of F that the model predicts for the whole step."""
    dual: DualPoint | None = None
    """That of the smaller problem, where a subproblem solves one."""
    is_structured: bool = False
    """Whether zeros and ties of w are exact."""

    @property
    def is_finite(self) -> bool:
        """Whether the model had a minimizer."""
        return bool(np.isfinite(self.w).all() and np.isfinite(self.mu).all())


class Hessian(Protocol):
    """A model ``H`` of the second derivative of f at one point."""

    @property
    def fraction(self) -> float:
        """Fraction of the rows that H was made from."""

    @property
    def is_exact(self) -> bool:
        """Whether f is quadratic and H its Hessian: the model then is f itself."""

    def quadratic(self, step: Array) -> float:
        """Return ``<step, H step>``."""

    def damped(self, damping: float) -> Hessian:
        """Return H with a fraction of the curvature bound in place of what was added before."""


class Curvature(Protocol):
    """How the second derivative of f is modelled."""

    def first_trust(self, p: Composite) -> Trust:
        """Return damping and sample size of the first step."""

    def model(self, p: Composite, s: NewtonState, run: Run) -> Hessian:
        """Return the Hessian model at ``s.at``."""

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn from the step between two evaluations: quasi-Newton pairs."""


class Subproblem(Protocol):
    """How the model plus the penalties is minimized, inexactly."""

    def first_warm(self) -> Any:
        """Return the warm start of the first subproblem."""

    def minimize(self, p: Composite, s: NewtonState, H: Any, run: Run) -> Candidate:
        """Return (nearly) argmin <g, v - w> + 1/2 <v - w, H (v - w)> + h(S v - o); set s.warm."""


class DualRule(Protocol):
    """How a dual point, and so a lower bound, comes from what a step has computed."""

    def of_model(
        self, p: Composite, s: NewtonState, H: Any, c: Candidate, run: Run
    ) -> tuple[Candidate, DualPoint | None]:
        """Return a dual point made with the model, before the step is taken.

        Where that solves the model to more digits, its minimizer is the better candidate.
        """

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        """Return a dual point made with the evaluation at the new iterate; may refine s.mu."""


@dataclass(frozen=True)
class Begin:
    """Where a run begins."""

    x: Pair
    mu: Array
    warm: Any = None
    n_passes: float = 0.0
    """What it took to get there."""
    setup_counted: bool = False
    """Whether that has the reads for what the curvature needs once."""


@dataclass(frozen=True)
class Plan:
    """A Newton method: a choice of parts."""

    curvature: Curvature
    subproblem: Subproblem
    dual: DualRule
    begin: Callable[[Composite, Run], Begin | None] | None = None
    """Where a part of the rows leads, None where it is not worth its steps."""
    own_bound: bool = False
    """Whether no certificate but the plan's own is to be tried: another would cost more."""
    data: Callable[[Composite], DataTerm] | None = None
    """Another data term than the mean loss as it is."""

    def composite(self, problem: Problem, workspace: Workspace) -> Composite:
        """Return a problem as the loop sees it."""
        p = Composite(problem, workspace)
        return p if self.data is None else p.with_data(self.data(p))


class Verdict(Enum):
    """What a step says of going on."""

    CONTINUE = "the next step may help"
    AT_ROUNDING = "a model of all rows predicts no more than the rounding of the objective"
    GIVE_UP = "steps have failed to lower the objective too often"
