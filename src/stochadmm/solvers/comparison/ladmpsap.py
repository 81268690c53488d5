"""Linearized ADM with parallel splitting and adaptive penalty (LADMPSAP).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

R. Liu, Z. Lin, Z. Su, "Linearized Alternating Direction Method with Parallel Splitting and
Adaptive Penalty for Separable Convex Programs in Machine Learning", ACML 2013, Mach. Learn. 99
(2015).

Code and paper: slack = eta_i / |A_i|^2, growth = rho_0, still = epsilon_2, cap = beta_max /
beta_0. One iteration, one pass over the data, both blocks from the same point:

    xi+ = argmin hi(u) + <grad fi(xi) + Ai'(lambda + beta (A1 x1 + A2 x2 - b)), u>
                 + (Li + slack beta |Ai|^2) |u - xi|^2 / 2                          i = 1, 2
    lambda+ = lambda + beta (A1 x1+ + A2 x2+ - b)
    beta+   = min(beta_max, growth beta) if the blocks hardly moved, else beta

with slack > 2, the number of blocks. "Hardly" is beta max_i sqrt(slack) |Ai| |xi+ - xi| <= still
beta_0 max(|A1 x1+|, |A2 x2+|, |b|); the article has no beta_0 there, and a rule that depends on
units. The mean of the iterates, with weights 1 / beta, has objective gap and infeasibility O(1/K);
the last iterate, usually far better, is the default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...operators import squared_norm
from ...problem import Pair, Problem
from .._base import State, register
from .._steps import (
    Average,
    check_returns,
    check_slack,
    images,
    step1,
    step2,
)
from ._batch import FullGradient


@dataclass
class LADMPSAPState(State):
    """State of LADMPSAP; ``first_beta`` is the penalty that it began with."""

    mean: Average = field(kw_only=True)
    first_beta: float = field(kw_only=True)


@register
@dataclass(frozen=True)
class LADMPSAP(FullGradient[LADMPSAPState]):
    """LADMPSAP: linearized ADM, parallel splitting, adaptive penalty (Liu, Lin and Su, 2013).

    Parameters
    ----------
    beta : float or "auto"
        Penalty parameter of the augmented Lagrangian at the start.
    slack : float, default=2.02
        Weight of a step over ``beta |A_i|^2``. Two blocks that do not see each other's step
        need more than 2; the rest is a margin for rounding.
    growth : float, default=1.5
        Factor of the penalty parameter when the blocks hardly move; 1 keeps it constant.
    still : float, default=1e-4
        Relative move below which a block hardly moves.
    cap : float, default=100
        Largest penalty parameter relative to the first: without a bound late steps would vanish.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.LADMPSAP(), stop=1e-4, max_passes=3000).coef.round(2)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "ladmpsap"

    slack: float = 2.02
    growth: float = 1.5
    still: float = 1e-4
    cap: float = 100.0
    returns: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_constant()
        check_returns(self.returns)
        check_slack(self.slack)
        named = {"growth": (self.growth, 1), "still": (self.still, 0), "cap": (self.cap, 1)}
        for name, (value, least) in named.items():
            if not value >= least:
                raise ValueError(f"{name} is {value!r}, expected a number >= {least}")

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> LADMPSAPState:
        """Return the state before the first epoch."""
        numbers = self.numbers(p, workspace)
        return LADMPSAPState(
            x, x, lam, mean=Average.empty(), first_beta=numbers["beta"], **numbers
        )

    def iterate(self, p: Problem, s: LADMPSAPState) -> None:
        x, lam, beta, r = s.x, s.dual, s.beta, p.constraint
        augmented = lam + beta * r(x)
        length1, length2 = self.lengths(p, s, self.slack * beta)
        s.x = Pair(
            step1(p, x.x1, augmented, length1),
            step2(p, x.x2, augmented, p.f2.gradient(x.x2), length2),
        )
        s.dual = lam + beta * r(s.x)
        s.mean = s.mean.add(s.x, 1 / beta)
        if p.A1 is None or p.A2 is None:
            return
        moves = (p.A1, s.x.x1 - x.x1), (p.A2, s.x.x2 - x.x2)
        most = max(
            (self.slack * squared_norm(A, s.workspace)) ** 0.5 * float(np.linalg.norm(move))
            for A, move in moves
        )
        size = max(float(np.linalg.norm(image)) for image in images(p, s.x))
        if beta * most <= self.still * s.first_beta * size:
            s.beta = min(self.cap * s.first_beta, self.growth * beta)

    def finish(self, p: Problem, s: LADMPSAPState) -> None:
        s.ergodic = s.mean.point
        s.output = s.x if self.returns == "last" else s.ergodic
