"""Optimal stochastic ADMM (OPT-SADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

S. Azadi, S. Sra, "Towards an Optimal Stochastic Alternating Direction Method of Multipliers",
ICML 2014. The constants here are derived for this form; those of the article differ.

Code and paper: ergodic = the aggregate sequence x^ag, share = alpha_t = 2 / (t + 1).

Step t, with g the gradient of a batch at the point between average and iterate:

    g at (1 - alpha_t) x2^ag + alpha_t x2
    x2+ = prox of h2 after the step 1 / (2 L / t + beta |A2|^2 + c sqrt(t)) from x2 along
          g + A2'(lam + beta (A1 x1 + A2 x2 - b))
    x1 and the multiplier as in ADMM
    x^ag+ = (1 - alpha_t) x^ag + alpha_t x+      for both blocks

Returned is x^ag. Only the smooth part is accelerated: on bounded sets the expected objective gap
and infeasibility are O(L / K^2 + 1 / K + noise / sqrt(K)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...problem import Problem
from .._base import register
from ._stochastic import FreshBatches, FreshState, Plan


@register
@dataclass(frozen=True)
class OptSADMM(FreshBatches[FreshState]):
    """OPT-SADMM: stochastic ADMM with an accelerated smooth part (Azadi and Sra, 2014).

    Parameters
    ----------
    growth : float or "auto"
        c in the step size ``1 / (2 L / t + c sqrt(t) + beta |A2|^2)`` of step t; by default the
        noise of the gradients over the distance to a solution, both estimated from the data.
    returns : {"ergodic", "last"}
        Which point is the output: the aggregate sequence, or the last iterate.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.25))
    >>> result = sa.minimize(problem, sa.solvers.OptSADMM(), max_passes=300)
    >>> abs(result.coef - [2.0, 0.0, 0.0, 0.0]).max() < 0.3
    np.True_
    """

    name: ClassVar[str] = "opt-sadmm"
    accelerated: ClassVar[bool] = True

    def weights(self, s: FreshState, k: Array) -> Array:
        """Return 2 L / t + c sqrt(t)."""
        return 2 * s.curvature / k + s.growth * np.sqrt(k)

    def plan(self, problem: Problem, s: FreshState) -> Plan:
        """Return the numbers of the next epoch's steps, with the growing weights of x^ag."""
        plan = super().plan(problem, s)
        return replace(plan, shares=2 / (1 / plan.shares + 1))
