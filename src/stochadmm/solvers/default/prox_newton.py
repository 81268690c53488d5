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
from typing import ClassVar

import numpy as np

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates import model_of
from ...forms.one_block import one_block
from ...problem import Pair, Problem
from ...risk.parts import as_finite_sum, at_predictions
from ...second_order import (
    NEEDS,
    Damping,
    backtrack,
    check_dense,
    check_one_block,
    full_hessian,
    is_quadratic,
    rounding,
    square_size,
)
from .._base import Solver, State, own_state, register, start_point
from .._steps import pass_size, sizes


@dataclass
class ProxNewtonState(State):
    """State of the proximal Newton method."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    share: float = field(kw_only=True)
    """Share of the upper bound in the second derivative."""
    tol: float = 1e-4
    """Accuracy of the next small problem."""
    penalty: float | None = field(default=None)
    """Penalty of the inner solver, kept from step to step."""


@register
@dataclass(frozen=True)
class ProxNewton(Solver[ProxNewtonState]):
    """Proximal Newton's method; best for many rows and up to some thousand columns.

    Parameters
    ----------
    tol : float, default=1e-11
        Most accurate solution of the small problems; far from the optimum less is asked.
    damping : Damping
        How the share of the curvature bound in the model follows the steps.
    sufficient : float, default=1e-3
        Share of the decrease along the step that it must bring (Armijo's rule).

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
    needs: ClassVar[dict[str, tuple[str, ...]]] = {"f2": NEEDS}

    tol: float = 1e-11
    damping: Damping = field(default_factory=Damping)
    sufficient: float = 1e-3

    def check(self, problem: Problem) -> None:
        """Raise unless x1 can be eliminated and a d x d matrix is affordable."""
        super().check(problem)
        check_one_block(problem, self.name)
        check_dense(problem, self.name)

    def memory(self, problem: Problem) -> int:
        """Return the bytes of the small problem's matrices, two passes and the blocks."""
        block1, block2, dual = sizes(problem)
        numbers = 3 * block1 + 4 * block2 + 3 * dual + 2 * pass_size(problem)
        return problem.dtype.itemsize * numbers + 8 * 8 * square_size(problem)

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> ProxNewtonState:
        """Return the state before the first epoch, at a feasible point."""
        point, multiplier = start_point(problem, x, dual)
        point, workspace = problem.feasible(point), workspace or Workspace()
        form = one_block(problem, workspace)
        return ProxNewtonState(
            x=point,
            output=point,
            dual=multiplier,
            beta=1.0,
            workspace=workspace,
            share=self.damping.first,
            mu=form.from_multiplier(None if dual is None else multiplier, deadline=deadline),
        )

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one outer step."""
        p, s, f2 = problem, own_state(state, ProxNewtonState), as_finite_sum(problem.f2)
        form = one_block(p, s.workspace)
        at = s.cache
        if at is None or not np.array_equal(at.x, s.x.x2):
            at = f2.evaluate(s.x.x2)
            s.n_passes += 1
        H, reads = full_hessian(f2, at.predictions, s.share)
        found = model_of(form, s.workspace).minimize(
            H,
            at.gradient.astype(np.float64),
            s.x.x2.astype(np.float64),
            dual=s.mu,
            tol=self.tol if is_quadratic(p) else s.tol,
            penalty=s.penalty,
            deadline=s.deadline,
        )
        x = p.feasible(Pair(s.x.x1, found.w.astype(p.dtype)))
        z = f2.predict(x.x2)
        move, change = x - s.x, z - at.predictions
        penalty = p.penalty(s.x)
        now, decrease = at.value + penalty, p.penalty(x) - penalty
        decrease += float(np.sum(at.gradient * move.x2))

        def value(t: float) -> float:
            there = x if t == 1 else p.feasible(Pair(s.x.x1, s.x.x2 + t * move.x2))
            return f2.value_at(z if t == 1 else at.predictions + t * change) + p.penalty(there)

        slack = rounding(p.dtype) * abs(now)
        t = backtrack(value, now, self.sufficient * min(decrease, 0.0), slack)
        s.share = self.damping.after(s.share, t)
        s.tol = float(np.clip(0.01 * abs(decrease) / max(abs(now), 1e-300), self.tol, 1e-4))
        if t == 0:  # also where the model's minimizer is beyond the numbers of the data's type
            x, z = s.x, at.predictions
        elif t < 1:
            x, z = p.feasible(s.x + t * move), at.predictions + t * change
            s.mu = s.mu + t * (found.dual - s.mu)
        else:
            s.mu = found.dual
        s.penalty, s.beta = found.penalty, found.penalty / (form.scale1 or 1.0) ** 2
        s.x = s.output = x
        s.dual = form.to_multiplier(s.mu).astype(p.dtype)
        s.cache = at_predictions(f2, x.x2, z)
        s.n_epochs += 1
        s.n_passes += reads + 2
        s.n_gradients += 1
        s.notes["step"] = t
