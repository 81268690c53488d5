"""Regularized dual averaging ADMM (RDA-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

T. Suzuki, "Dual Averaging and Proximal Gradient Descent for Online Alternating Direction
Multiplier Method", ICML 2013.

Code and paper: beta = rho, dual = lam = -lambda, mean_gradient = g-bar, mean_multiplier = the
mean of lam + beta (A1 x1 + A2 x2 - b) over all past steps, origin = x2 at the start (0 there).

The k-th step, with g-bar and p-bar the means of all batch gradients and multipliers up to now:

    x2+ = prox of h2 at origin - step (g-bar + A2' p-bar)
    step = k / (L + c sqrt(k) + beta |A2|^2)

then x1 and the multiplier as in ADMM. The paper's step has L = 0 and c = 1 / eta_0; L keeps the
first steps of squared losses from blowing up. The expected objective gap and infeasibility of the
uniform average are O(1 / sqrt(K)). h2 acts with a step that grows, so its sparsity shows early.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import register
from .._steps import step2
from ._stochastic import FreshBatches, FreshState, Plan


@dataclass
class RDAState(FreshState):
    """State of RDA-ADMM: the means of the past beside the present."""

    origin: Array = field(kw_only=True)
    mean_gradient: Array = field(kw_only=True)
    mean_multiplier: Array = field(kw_only=True)


@register
@dataclass(frozen=True)
class RDAADMM(FreshBatches[RDAState]):
    """RDA-ADMM: regularized dual averaging ADMM (Suzuki, 2013).

    Parameters
    ----------
    growth : float or "auto"
        c in the step size ``k / (L + c sqrt(k) + beta |A2|^2)`` of step k; by default the noise of
        the gradients over the distance to a solution, both estimated from the data.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.25))
    >>> result = sa.minimize(problem, sa.solvers.RDAADMM(), max_passes=300)
    >>> abs(result.coef - [2.0, 0.0, 0.0, 0.0]).max() < 0.3
    np.True_
    """

    name: ClassVar[str] = "rda-admm"

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> RDAState:
        """Return the state before the first epoch."""
        return RDAState(
            x,
            x,
            lam,
            ergodic=x,
            mean=x,
            origin=x.x2,
            mean_gradient=p.zeros().x2,
            mean_multiplier=p.zeros_dual(),
            **self.numbers(p, workspace),
        )

    def plan(self, problem: Problem, s: RDAState) -> Plan:
        """Return the numbers of the next epoch's steps: k times those of a gradient method."""
        plan = super().plan(problem, s)
        return replace(plan, steps=plan.steps * (s.n_steps + 1.0 + np.arange(s.n_inner)))

    def move(
        self, p: Problem, s: RDAState, multiplier: Array, gradient: Array, plan: Plan, k: int
    ) -> Array:
        """Return the next x2: from the origin, along the means of the past."""
        share = float(plan.shares[k])
        s.mean_gradient = s.mean_gradient + share * (gradient - s.mean_gradient)
        s.mean_multiplier = s.mean_multiplier + share * (multiplier - s.mean_multiplier)
        return step2(p, s.origin, s.mean_multiplier, s.mean_gradient, float(plan.steps[k]))

    def extras(self, p: Problem, s: RDAState) -> dict[str, Array]:
        """Return fresh copies of the means for the compiled loop to go on with."""
        s.mean_gradient, s.mean_multiplier = s.mean_gradient.copy(), s.mean_multiplier.copy()
        return {
            "origin": s.origin,
            "mean_gradient": s.mean_gradient,
            "mean_multiplier": s.mean_multiplier,
        }
