"""The Newton loop (`stochadmm._newton`) as a method of the driver: one epoch is one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .._newton import METHODS, Composite, NewtonState, Run, Verdict, start, step
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..problem import Pair, Problem
from ._base import Solver, State, own_state, register_as, start_point
from .default.handover import Relay, go_on, without_model


@dataclass
class NewtonRun(Relay):
    """State of the loop, and of the method that goes on where the loop gives up."""

    newton: NewtonState = field(kw_only=True)
    failed: bool = False
    """Whether the loop has given up."""


@dataclass
class Memory:
    """Where the last run on the same rows ended, for the next one: a path's next strength."""

    last: NewtonState | None = None
    model: Any = None
    """Its last model of the curvature; a state does not keep it, for it holds rows."""


def memory_of(f2: Any) -> Memory:
    """Return the memory of runs on the rows of f2 before the first of them."""
    return Memory()


@dataclass(frozen=True)
class Newton(Solver[NewtonRun]):
    """Inexact proximal Newton methods on ``f2(w) + h(S w - o)``, x1 eliminated.

    Parameters
    ----------
    plan : str, default="sampled-newton"
        Which curvature, inner solver and dual point:

        * "sampled-newton": exact gradients, the Hessian from a sample of rows;
        * "gram": the Gram matrix of a quadratic loss, made once;
        * "streamed-newton": rows that are read from a source for every step, the Hessian and the
          dual point from a sample of them;
        * "tied-newton": thousands of columns coupled by a sparse structure: one factor of it, and
          F itself in the values of the columns that are fused;
        * "coordinate-newton": sparse rows and penalties of single entries, the model minimized
          coordinate by coordinate;
        * "working-set": steps on the columns that matter, a set that grows as needed.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 8))
    >>> y = np.sign(X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(500))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(8), on_structure=sa.L1(0.01)
    ... )
    >>> sa.minimize(problem, sa.Newton(), stop=sa.Gap(1e-8)).status.name
    'CONVERGED'
    """

    has_kernel: ClassVar[bool] = True
    plan: str = "sampled-newton"

    def __post_init__(self) -> None:
        if self.plan not in METHODS:
            raise ValueError(f"plan is {self.plan!r}, expected one of {', '.join(METHODS)}")

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the plan."""
        return self.plan

    @property
    def needs_no_rows(self) -> bool:  # type: ignore[override]
        """Whether sums of products of rows in files serve as well as the rows."""
        return self.plan == "gram"

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why these steps cannot serve a problem, None if they can."""
        return METHODS[self.plan].why_not(problem, workspace or Workspace())

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> NewtonRun:
        """Return the state before the first epoch: some of the rows may have led somewhere."""
        workspace = workspace or Workspace()
        point, multiplier = start_point(problem, x, dual)
        p = METHODS[self.plan].plan.composite(problem, workspace)
        mu = None
        if dual is not None:
            mu = p.form.from_multiplier(multiplier, deadline=deadline)
        run = Run(np.random.default_rng(0), None, deadline)
        memory = workspace.rows.once(memory_of, problem.f2)
        known = memory.last
        s = start(p, METHODS[self.plan].plan, run, None if x is None else point, mu, known)
        if known is not None and s.at is known.at:
            s.model = memory.model
        state = NewtonRun(
            x=s.x,
            output=s.x,
            dual=multiplier,
            beta=1.0,
            workspace=workspace,
            bound=-np.inf,  # nothing is certified before it may succeed
            own_bound=METHODS[self.plan].plan.own_bound,
            newton=s,
        )
        _show(p, state)
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one step."""
        s = own_state(state, NewtonRun)
        if s.failed:
            solver = without_model(problem)
            go_on(problem, s, solver, rng)
            s.notes["then"] = f"its steps stopped helping, {solver.name} took over"
            return
        p = METHODS[self.plan].plan.composite(problem, s.workspace)
        run = Run(rng, s.target, s.deadline)
        verdict = step(p, s.newton, METHODS[self.plan].plan, run)
        gap = s.newton.objective - s.newton.lower_bound
        last_digits = s.target is not None and s.target <= 1e-12
        if last_digits and verdict is Verdict.CONTINUE and gap <= 2e-14 * abs(s.newton.objective):
            # a gap at rounding leaves half of the digits of the point; one more step has the rest
            verdict = step(p, s.newton, METHODS[self.plan].plan, run)
        s.failed, s.settled = verdict is Verdict.GIVE_UP, verdict is Verdict.AT_ROUNDING
        s.own_bound = s.own_bound and not s.failed
        memory = s.workspace.rows.once(memory_of, problem.f2)
        memory.last, memory.model, s.newton.model = s.newton, s.newton.model, None
        s.n_epochs += 1
        _show(p, s)


def _show(p: Composite, s: NewtonRun) -> None:
    """Bring what the driver looks at to where the loop is."""
    inner = s.newton
    s.x = s.output = inner.x
    s.cache, s.bound, s.exact = inner.at, inner.lower_bound, inner.is_structured
    s.dual = p.form.to_multiplier(inner.mu).astype(p.problem.dtype)
    s.n_passes, s.n_gradients = inner.n_passes, inner.n_gradients
    s.beta = inner.warm.rho or 1.0
    s.notes |= inner.notes


for _name in METHODS:
    register_as(_name, partial(Newton, _name))
