"""Accelerated ADMM with full gradients (AADMM).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

Y. Ouyang, Y. Chen, G. Lan, E. Pasiliao, "An Accelerated Linearized Alternating Direction Method of
Multipliers", SIAM J. Imaging Sci. 8 (2015), arXiv:1401.6607.

Code and paper: horizon = N, mean = the "ag" sequence, alpha = 2 / (t + 1), rho = rho_x = rho_y =
beta N / t, rho_lambda = beta t / N. Iteration t = 1 ... N, one pass over the data:

    md  = (1 - alpha) x2_ag + alpha x2
    x2+ = argmin h2(u) + <grad f2(md) + A2'(lambda + rho (A1 x1 + A2 x2 - b)), u>
                 + |u - x2|^2 / (2 step2)
    x1+ = argmin h1(x1) + f1(x1) + <lambda, A1 x1> + (rho / 2)|A1 x1 + A2 x2+ - b|^2
    ag  = (1 - alpha) ag + alpha x+
    lambda+ = lambda + rho_lambda (A1 x1+ + A2 x2+ - b)

with step2 = t / (2 Lf + beta N |A2|^2). Where the x1 step is not one prox it is linearized: f1 at
md1 = (1 - alpha) x1_ag + alpha x1 as f2 is, the penalty at x1, step1 = t / (2 L1 + beta N |A1|^2),
so that t times its weight is constant too, which is what the proof asks of x2's; or it is solved.
The weighted mean is returned; after N iterations its objective gap and infeasibility are
O(Lf / N^2 + beta |A2|^2 / N + 1 / (beta N)): only the smooth part is accelerated. The proof fixes
N. By default N doubles whenever it is reached and the last iterate starts the next stage: the
distance that the proof bounds at most doubles too, so that O(1/N) is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import State, register
from .._first_block import check_first_block, check_form, first_step, is_prox
from .._steps import check_count, step1, step2
from ._batch import FullGradient


@dataclass
class AADMMState(State):
    """State of AADMM after ``t`` iterations of the present stage."""

    mean: Pair = field(kw_only=True)
    multiplier: Array = field(kw_only=True)
    mean_multiplier: Array = field(kw_only=True)
    horizon: int = field(kw_only=True)
    t: int = 0


@register
@dataclass(frozen=True)
class AADMM(FullGradient[AADMMState]):
    """AADMM: accelerated linearized ADMM with full gradients (Ouyang et al., 2015).

    Parameters
    ----------
    beta : float or "auto"
        Penalty parameter of the augmented Lagrangian at t = N, the end of its schedule.
    horizon : int, optional
        Planned iterations N; by default stages of 20, 40, 80 ... iterations.
    first_block : {"linearized", "exact"}
        The x1 step where it is not one prox: products with A1 only, f1 accelerated as well; or the
        paper's, solved anew with a factor in every iteration because the penalty changes in each.
    most_inner : int, default=100
        Limit of inner steps in an exact x1 step along f1; the next iteration continues from there.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.AADMM(), stop=1e-3, max_passes=1000).coef.round(1)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "aadmm"
    horizon: int | None = None
    first_block: str = "linearized"
    most_inner: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_constant()
        check_form(self.first_block)
        check_count("most_inner", self.most_inner)
        if self.horizon is not None:
            check_count("horizon", self.horizon)

    def check(self, problem: Problem) -> None:
        """Raise where the exact x1 step would need too large a matrix."""
        super().check(problem)
        check_first_block(problem, self.first_block, self.name)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> AADMMState:
        """Return the state before the first epoch."""
        horizon = self.horizon or 20  # iterations of the first stage; each stage doubles them
        numbers = self.numbers(p, workspace, **{"first horizon": horizon})
        return AADMMState(
            x, x, lam, mean=x, multiplier=lam, mean_multiplier=lam, horizon=horizon, **numbers
        )

    def iterate(self, p: Problem, s: AADMMState) -> None:
        if s.t == s.horizon:
            s.t, s.horizon = 0, s.horizon if self.horizon else 2 * s.horizon
        s.t += 1
        alpha, t, N, r = 2 / (s.t + 1), s.t, s.horizon, p.constraint
        rho, x, lam = s.beta * N / t, s.x, s.multiplier
        length1, length2 = self.lengths(p, s, rho, 2 / t)
        md = (1 - alpha) * s.mean + alpha * x
        x2 = step2(p, x.x2, lam + rho * r(x), p.f2.gradient(md.x2), length2)
        augmented = lam + rho * r(Pair(x.x1, x2))
        if self.first_block == "linearized" or is_prox(p):
            x1 = step1(p, x.x1, augmented, length1, md.x1)
        else:
            assert p.A1 is not None
            solve = first_step(
                p,
                rho,
                self.first_block,
                self.most_inner,
                workspace=s.workspace,
                deadline=s.deadline,
            )
            x1 = solve(x.x1, augmented / rho - p.A1.matvec(x.x1))
        s.x = Pair(x1, x2)
        # at t = 1 alpha is 1, so that a stage forgets the mean of the one before
        s.mean = (1 - alpha) * s.mean + alpha * s.x
        s.multiplier = lam + s.beta * t / N * r(s.x)
        s.mean_multiplier = (1 - alpha) * s.mean_multiplier + alpha * s.multiplier

    def finish(self, p: Problem, s: AADMMState) -> None:
        s.output = s.ergodic = s.mean
        s.dual = s.mean_multiplier
