"""Proximal Newton's method with an inner solver that never touches the data.

    min over x2   f2(x2) + h1(A x2 - b) + h2(x2),      that is  A1 = -I, A2 = A

J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-Type Methods for Minimizing Composite
Functions", SIAM J. Optim. 24 (2014), arXiv:1206.1623.

One epoch is one outer step, with three or more reads of the rows:

    H = X' D X / n, D the second derivatives of the loss at the predictions X x2
    w = argmin <grad f2(x2), w - x2> + 1/2 <w - x2, H (w - x2)> + h1(A w - b) + h2(w)
    x2+ = x2 + t (w - x2), t = 1, 1/2, 1/4 ... by the objective

The line search works on the predictions of x2 and w, so that it does not read the data. For
several outputs H holds all d C entries up to 1,500 of them and is an upper bound, the same for all
outputs, beyond. Convergence is global, and superlinear near the solution for losses with a
continuous second derivative. The last point is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import Solver, State, register, start_point
from .._steps import pass_size, sizes
from . import _newton


@dataclass
class NewtonState(State):
    """State of the proximal Newton method."""

    share: float = _newton.FIRST_SHARE
    """Share of the upper bound in the second derivative."""
    tol: float = 1e-4
    """Accuracy of the next small problem."""
    penalty: float | None = field(default=None)
    """Penalty of the inner solver, kept from step to step."""


@register
@dataclass(frozen=True)
class ProxNewton(Solver):
    """Proximal Newton's method; best for many rows and up to some thousand columns.

    Parameters
    ----------
    tol : float, default=1e-11
        Most accurate solution of the small problems; far from the optimum less is asked.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = np.sign(X[:, 0] + 0.1 * rng.standard_normal(200))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(5), on_structure=sa.L1(0.01)
    ... )
    >>> sa.minimize(problem, sa.ProxNewton(), stop=sa.Gap(1e-9)).status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "prox-newton"
    has_kernel: ClassVar[bool] = False
    needs: ClassVar[dict[str, tuple[str, ...]]] = {"f2": _newton.NEEDS}

    tol: float = 1e-11

    def check(self, problem: Problem) -> None:
        """Raise unless x1 can be eliminated and a d x d matrix is affordable."""
        super().check(problem)
        _newton.OneBlock.of(problem, self.name)
        _newton.check_dense(problem, self.name)

    def memory(self, problem: Problem) -> int:
        """Return the bytes of the small problem's matrices, two passes and the blocks."""
        block1, block2, dual = sizes(problem)
        numbers = 3 * block1 + 4 * block2 + 3 * dual + 2 * pass_size(problem)
        return problem.dtype.itemsize * numbers + 8 * 8 * _newton.square_size(problem)

    def start(
        self, problem: Problem, x: Pair | None = None, dual: Array | None = None,
        workspace: Workspace | None = None,
    ) -> NewtonState:  # fmt: skip
        """Return the state before the first epoch, at a feasible point."""
        point, multiplier = start_point(problem, x, dual)
        point = problem.feasible(point)
        return NewtonState(
            x=point, output=point, dual=multiplier, beta=1.0,
            workspace=workspace or Workspace(),
        )  # fmt: skip

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one outer step."""
        p, s, f2 = problem, cast(NewtonState, state), cast(Any, problem.f2)
        block = _newton.OneBlock.of(p, self.name)
        at = s.cache
        if at is None or not np.array_equal(at.x, s.x.x2):
            at = f2.evaluate(s.x.x2)
            s.n_passes += 1
        H, reads = _newton.hessian(f2, at.predictions, s.share)
        tol = self.tol if _newton.is_quadratic(p) else s.tol
        x, dual, s.penalty = block.minimize(p, H, at.gradient, s.x, s.dual, tol, s.penalty)
        z = f2.predict(x.x2)
        move, change = x - s.x, z - at.predictions

        now = at.value + p.penalty(p.feasible(s.x))
        promised = p.penalty(p.feasible(x)) - p.penalty(p.feasible(s.x))
        decrease = float(np.sum(at.gradient * move.x2)) + promised

        def value(t: float) -> float:
            x2 = s.x.x2 + t * move.x2 if t < 1 else x.x2
            there = p.penalty(p.feasible(Pair(s.x.x1, x2)))
            return float(f2.value_at(at.predictions + t * change if t < 1 else z)) + there

        t = _newton.line_search(value, now, decrease, _newton.rounding(p.dtype))
        s.share = _newton.next_share(s.share, t)
        s.tol = float(np.clip(0.01 * abs(decrease) / max(abs(now), 1e-300), self.tol, 1e-4))
        if t < 1:
            x, z = s.x + t * move, at.predictions + t * change
            dual = s.dual + t * (dual - s.dual)
        s.beta = s.penalty / block.scale**2
        s.x = s.output = x
        s.dual = dual
        s.cache = _newton.at_predictions(f2, x.x2, z)
        s.n_epochs += 1
        s.n_passes += reads + 2
        s.n_gradients += 1
        s.notes["step"] = t
