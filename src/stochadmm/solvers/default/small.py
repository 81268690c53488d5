"""Small problems in one compiled call, certificate included.

Damped proximal Newton steps with dense matrices, exact zeros and ties, and a lower bound whose
rounding is charged for: `docs/design/small.md` says how. An epoch is the whole solve: there is one
measurement, and nothing is computed before it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...forms.small import SmallLimits, small_form
from ...problem import Pair, Problem
from ...risk.evaluation import Evaluation
from .._base import Solver, State, register, start_point


@dataclass
class SmallState(State):
    """State of a route in one compiled call."""

    then: State | None = field(default=None, kw_only=True)
    """State of the method that goes on where it ended."""
    unfinished: bool = field(default=False, kw_only=True)
    """Whether the next call goes on."""


@register
@dataclass(frozen=True)
class Small(Solver[SmallState]):
    """Solve a small problem in one compiled call.

    Parameters
    ----------
    limits : SmallLimits
        What counts as small.
    rounding : float, default=1e-9
        Relative gap below which only rounding is left: the answer does not depend on what gap was
        asked for.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(),
    ...     np.eye(4),
    ...     np.array([3.0, 3.0, 0.0, -1.0]),
    ...     structure=sa.Differences(4),
    ...     on_structure=sa.L1(0.05),
    ... )
    >>> result = sa.minimize(problem, "small")
    >>> result.coef.round(6), result.n_epochs
    (array([ 2.9,  2.9,  0. , -0.8]), 1)
    """

    name: ClassVar[str] = "small"
    has_kernel: ClassVar[bool] = True

    limits: SmallLimits = SmallLimits()  # noqa: RUF009 - frozen
    rounding: float = 1e-9

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why the problem is not small, or not made of parts that compiled loops know."""
        return self.limits.why_not(problem, workspace)

    def memory(self, problem: Problem) -> int:
        """Return the bytes of the rows, numbers per row and the matrices."""
        n, p, rows = problem.f2.n_terms, problem.shape2[0], problem.shape1[0] + problem.shape2[0]
        return 8 * (n * p + 16 * n + 8 * p * p + 16 * rows)

    def start(
        self, problem: Problem, x: Pair | None = None, dual: Array | None = None,
        workspace: Workspace | None = None, deadline: Deadline = NEVER,
    ) -> SmallState:  # fmt: skip
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        return SmallState(
            x=point, output=point, dual=multiplier, beta=1.0, own_bound=True, one_step=True,
            workspace=workspace or Workspace(),
        )  # fmt: skip

    def epoch(self, problem: Problem, state: SmallState, rng: np.random.Generator) -> None:
        """Solve from the point and the multiplier at hand."""
        form = state.workspace.once(small_form, problem, state.workspace)
        at, found = form.solve(state.x.x2, state.dual if problem.constrained else None)
        if found.bound == -np.inf and state.x.x2.any():
            # far out all rows may be flat, which nothing is seen from: zero is often nearer
            again = form.solve(np.zeros_like(state.x.x2), None)
            if again[1].value + again[1].penalty < found.value + found.penalty:
                at, found = again
        dtype, bound = problem.dtype, found.bound
        x2 = at.w.astype(dtype)
        x1 = state.x.x1
        if problem.constrained:
            x1 = problem.A2.matvec(x2)  # type: ignore[union-attr]
            if np.isfinite(at.dual).all():  # a model without curvature leaves no numbers
                state.dual = form.multiplier(at.dual).astype(dtype)
                state.beta = found.inner_penalty
        state.x = state.output = Pair(x1, x2)
        gradient, objective = at.gradient.astype(dtype), found.value + found.penalty
        if dtype == np.float64:
            state.cache = Evaluation(x2, found.value, gradient, at.z, at.u)
        state.bound = bound if state.bound is None else max(state.bound, bound)
        state.settled = objective - bound <= self.rounding * abs(objective)
        # split between two rows, a multiplier may lie on the edge where their sum does not
        state.exact = found.exact and not form.again.size
        state.n_epochs += 1
        state.n_passes += found.n_passes
        state.n_gradients += found.n_passes
