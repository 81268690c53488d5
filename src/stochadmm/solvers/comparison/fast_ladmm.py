"""Fast proximal linearized ADMM with parallel splitting (Fast PL-ADMM-PS).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

C. Lu, H. Li, Z. Lin, S. Yan, "Fast Proximal Linearized Alternating Direction Method of Multiplier
with Parallel Splitting", AAAI 2016, arXiv:1511.05133.

Code and paper: output = x, slack = eta_i / |A_i|^2. One iteration, one pass over the data, both
blocks from the same point:

    y   = (1 - theta) x + theta z
    zi+ = argmin hi(u) + <grad fi(yi) + Ai'(lambda + beta (A1 z1 + A2 z2 - b)), u>
                 + (theta Li + slack beta |Ai|^2) |u - zi|^2 / 2                    i = 1, 2
    x+  = (1 - theta) x + theta z+
    lambda+ = lambda + beta (A1 z1+ + A2 z2+ - b)
    theta+  = (sqrt(theta^4 + 4 theta^2) - theta^2) / 2

with theta = 1 at first and slack > 2, the number of blocks. On bounded sets the objective gap and
infeasibility of x, an average of the z with weights that grow, are O(L / K^2 + |A|^2 / K + 1 / K):
only the smooth part is accelerated. The reported multiplier is averaged as x is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import State, register
from .._steps import check_slack, step1, step2
from ._batch import FullGradient


@dataclass
class FastState(State):
    """State of the method; ``x`` is the average, ``z`` what the steps start from."""

    z: Pair = field(kw_only=True)
    multiplier: Array = field(kw_only=True)
    theta: float = 1.0


@register
@dataclass(frozen=True)
class FastLADMM(FullGradient[FastState]):
    """Fast PL-ADMM-PS: accelerated linearized ADMM, blocks in parallel (Lu et al., 2016).

    Parameters
    ----------
    beta : float or "auto"
        Penalty parameter of the augmented Lagrangian; "auto" estimates it from the data.
    slack : float, default=2.02
        Weight of a step over ``beta |A_i|^2``. Two blocks that do not see each other's step
        need more than 2; the rest is a margin for rounding.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.FastLADMM(), stop=1e-3, max_passes=3000).coef.round(1)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "fast-ladmm"

    slack: float = 2.02

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_constant()
        check_slack(self.slack)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> FastState:
        """Return the state before the first epoch."""
        return FastState(x, x, lam, z=x, multiplier=lam, **self.numbers(p, workspace))

    def iterate(self, p: Problem, s: FastState) -> None:
        theta, x, z, beta, lam, r = s.theta, s.x, s.z, s.beta, s.multiplier, p.constraint
        y = (1 - theta) * x + theta * z
        augmented = lam + beta * r(z)
        length1, length2 = self.lengths(p, s, self.slack * beta, theta)
        s.z = Pair(
            step1(p, z.x1, augmented, length1, y.x1),
            step2(p, z.x2, augmented, p.f2.gradient(y.x2), length2),
        )
        s.x = (1 - theta) * x + theta * s.z
        s.multiplier = lam + beta * r(s.z)
        s.dual = (1 - theta) * s.dual + theta * s.multiplier
        s.theta = ((theta**4 + 4 * theta**2) ** 0.5 - theta**2) / 2

    def finish(self, p: Problem, s: FastState) -> None:
        s.output = s.ergodic = s.x
