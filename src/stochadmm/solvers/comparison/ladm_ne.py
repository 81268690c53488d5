"""Linearized ADMM with a non-ergodic O(1/K) rate (LADM-NE).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

H. Li, Z. Lin, "Accelerated Alternating Direction Method of Multipliers: An Optimal O(1/K)
Nonergodic Analysis", J. Sci. Comput. 79 (2019), arXiv:1608.06366.

Code and paper: multiplier = lambda, 1/theta_k = 1 + k (1 - tau). One iteration, one pass over the
data:

    y   = x + theta_k (1/theta_(k-1) - 1)(x - x_before)
    x1+ = argmin h1(u) + <grad f1(y1) + A1'(lambda + beta/theta_k (A1 y1 + A2 y2 - b)), u>
                 + |u - y1|^2 / (2 step1)
    x2+ = argmin h2(u) + <grad f2(y2) + A2'(lambda + beta/theta_k (A1 x1+ + A2 y2 - b)), u>
                 + |u - y2|^2 / (2 step2)
    lambda+ = lambda + beta tau (A1 x1+ + A2 x2+ - b)

with step_i = 1 / (L_i + beta/theta_k |A_i|^2). The last iterate is returned; its objective gap and
infeasibility are O(1 / (1 + K (1 - tau))), the best possible for the class. Without a constraint
it is an accelerated proximal gradient method with slower weights than FISTA's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import State, register
from .._steps import step1, step2
from ._batch import FullGradient


@dataclass
class LADMState(State):
    """State of LADM-NE after ``k`` iterations."""

    before: Pair = field(kw_only=True)
    multiplier: Array = field(kw_only=True)
    k: int = 0


@register
@dataclass(frozen=True)
class LADMNE(FullGradient[LADMState]):
    """LADM-NE: accelerated linearized ADMM with a non-ergodic O(1/K) rate (Li and Lin, 2019).

    Parameters
    ----------
    beta : float or "auto"
        Penalty parameter of the augmented Lagrangian; in iteration k it is beta (1 + k (1 - tau)).
    tau : float, default=0.8
        In (1/2, 1). The closer to 1, the slower the penalty grows.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.LADMNE(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "ladm-ne"

    tau: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_constant()
        if not 0.5 < self.tau < 1:
            raise ValueError(f"tau is {self.tau!r}, expected a number in (1/2, 1)")

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> LADMState:
        """Return the state before the first epoch."""
        return LADMState(
            x, x, lam, before=x, multiplier=lam, **self.numbers(p, workspace, tau=self.tau)
        )

    def iterate(self, p: Problem, s: LADMState) -> None:
        theta, beta, lam, r = 1 / (1 + s.k * (1 - self.tau)), s.beta, s.multiplier, p.constraint
        before = theta / (1 - (1 - self.tau) * theta)  # theta_(k-1), of no use in the first step
        y = s.x + theta * (1 / before - 1) * (s.x - s.before) if s.k else s.x
        length1, length2 = self.lengths(p, s, beta / theta)
        x1 = step1(p, y.x1, lam + beta / theta * r(y), length1)
        augmented = lam + beta / theta * r(Pair(x1, y.x2))
        x2 = step2(p, y.x2, augmented, p.f2.gradient(y.x2), length2)
        s.x, s.before = Pair(x1, x2), s.x
        s.multiplier = lam + beta * self.tau * r(s.x)
        s.dual = lam + beta / theta * r(s.x)
        s.k += 1
