"""Linearized ADMM with a non-ergodic O(1/K) rate (LADM-NE).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

H. Li, Z. Lin, "Accelerated Alternating Direction Method of Multipliers: An Optimal O(1/K)
Nonergodic Analysis", J. Sci. Comput. 79 (2019), arXiv:1608.06366.

Code and paper: momentum = theta_k with 1/theta_k = 1 + k (1 - tau), lead = y, multiplier = lambda,
pull = beta / theta_k. One iteration, one pass over the data:

    y   = x + theta_k (1/theta_(k-1) - 1)(x - x_before)
    x1+ = argmin h1(u) + <grad f1(y1) + A1'(lambda + pull (A1 y1 + A2 y2 - b)), u>
                 + |u - y1|^2 / (2 step1)
    x2+ = argmin h2(u) + <grad f2(y2) + A2'(lambda + pull (A1 x1+ + A2 y2 - b)), u>
                 + |u - y2|^2 / (2 step2)
    lambda+ = lambda + beta tau (A1 x1+ + A2 x2+ - b)

with step_i = 1 / (L_i + pull |A_i|^2). The last iterate is returned; its objective gap and
infeasibility are O(1 / (1 + K (1 - tau))), the best possible for the class. Without a constraint
it is an accelerated proximal gradient method with slower weights than FISTA's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...base.protocols import Array
from ...problem import Pair, Problem
from .. import defaults
from .._base import State, register
from .._steps import lengths, step1, step2
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
    n_inner : int, default=5
        Iterations, each one pass over the data, per epoch.
    tau : float, default=0.8
        In (1/2, 1). The closer to 1, the slower the penalty grows.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.LADMNE(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "ladm-ne"

    tau: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_constant()
        if not 0.5 < self.tau < 1:
            raise ValueError(f"tau is {self.tau!r}, expected a number in (1/2, 1)")

    def _begun(self, point: Pair, multiplier: Array, penalty: float, **common: Any) -> LADMState:
        return LADMState(before=point, multiplier=multiplier, **common)

    def _settings(self) -> dict[str, Any]:
        return {"tau": self.tau}

    def _iteration(self, p: Problem, s: LADMState) -> None:
        growth = 1 + s.k * (1 - self.tau)  # 1 / theta_k
        pull, x, multiplier = s.beta * growth, s.x, s.multiplier
        length1, length2 = lengths(
            p, defaults.lipschitz_mean(p, s.workspace), pull, workspace=s.workspace
        )
        y = x + (growth - 1 - (1 - self.tau)) / growth * (x - s.before) if s.k else x
        gradient = p.f2.gradient(y.x2)
        x1 = step1(p, y.x1, multiplier + pull * p.constraint(y), length1)
        augmented = multiplier + pull * p.constraint(Pair(x1, y.x2))
        s.x, s.before = Pair(x1, step2(p, y.x2, augmented, gradient, length2)), x
        residual = p.constraint(s.x)
        s.multiplier = multiplier + s.beta * self.tau * residual
        s.dual = multiplier + pull * residual
        s.k += 1
