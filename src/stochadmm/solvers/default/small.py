"""Small problems in one compiled call, certificate included.

Damped proximal Newton steps with dense matrices, exact zeros and ties, and a lower bound whose
rounding is charged for: `docs/design/small.md` says how. An epoch is the whole solve: there is one
measurement, and nothing is computed before it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...forms.small import SmallForm, SmallLimits, small_forms
from ...kernels.small import SmallFound, SmallProblem
from ...problem import Pair, Problem
from ...risk.evaluation import Evaluation
from .._base import Solver, register
from .handover import Relay


@dataclass
class SmallState(Relay):
    """State of a route in one compiled call."""

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

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SmallState:
        """Return the state before the first epoch."""
        return SmallState(
            x,
            x,
            lam,
            1.0,
            own_bound=True,
            one_step=True,
            workspace=workspace,
        )

    def epoch(self, problem: Problem, state: SmallState, rng: np.random.Generator) -> None:
        """Solve from the point and the multiplier at hand, each form by itself."""
        forms = state.workspace.once(small_forms, problem, state.workspace)
        dtype, count = problem.dtype, len(forms)
        start, dual = (x.reshape(-1, count) for x in (state.x.x2, state.dual))
        solved = [
            _solve(form, start[:, k], dual[:, k] if problem.constrained else None)
            for k, form in enumerate(forms)
        ]
        at, found = (list(part) for part in zip(*solved, strict=True))
        x2 = _joined([one.w for one in at], problem.shape2).astype(dtype)
        x1 = state.x.x1
        if problem.constrained:
            x1 = problem.A2.matvec(x2)  # type: ignore[union-attr]
            if all(
                np.isfinite(one.dual).all() for one in at
            ):  # a model without curvature has none
                own = [form.multiplier(one.dual) for form, one in zip(forms, at, strict=True)]
                state.dual = _joined(own, state.dual.shape).astype(dtype)
                state.beta = max(one.inner_penalty for one in found)
        state.x = state.output = Pair(x1, x2)
        value, bound = sum(one.value for one in found), sum(one.bound for one in found)
        objective = value + sum(one.penalty for one in found)
        if dtype == np.float64:
            shape = (problem.f2.n_terms, *problem.shape2[1:])
            gradient = _joined([one.gradient for one in at], problem.shape2)
            z, u = (_joined(rows, shape) for rows in ([o.z for o in at], [o.u for o in at]))
            state.cache = Evaluation(x2, value, gradient, z, u)
        state.bound = bound if state.bound is None else max(state.bound, bound)
        state.settled = objective - bound <= self.rounding * abs(objective)
        # split between two rows, a multiplier may lie on the edge where their sum does not
        state.exact = all(one.exact for one in found) and not forms[0].again.size
        state.n_epochs += 1
        passes = sum(one.n_passes for one in found) / count  # one of all rows is for all outputs
        state.n_passes += passes
        state.n_gradients += passes


def _solve(form: SmallForm, x2: Array, dual: Array | None) -> tuple[SmallProblem, SmallFound]:
    """Return arrays and numbers of the answer of one output."""
    at, found = form.solve(x2, dual)
    if found.bound > -np.inf or not x2.any():
        return at, found
    # far out all rows may be flat, which nothing is seen from: zero is often nearer
    other, again = form.solve(np.zeros_like(x2), None)
    better = again.value + again.penalty < found.value + found.penalty
    return (other, again) if better else (at, found)


def _joined(columns: list[Array], shape: tuple[int, ...]) -> Array:
    """Return columns of the outputs as a block."""
    return np.column_stack(columns).reshape(shape)
