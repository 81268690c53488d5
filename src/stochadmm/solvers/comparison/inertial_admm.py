"""Inertial linearized ADMM.

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

C. Chen, R. H. Chan, S. Ma, J. Yang, "Inertial Proximal ADMM for Linearly Constrained Separable
Convex Optimization", SIAM J. Imaging Sci. 8 (2015), doi:10.1137/15100463X.

Code and paper: inertia = alpha, dual = lambda. One
iteration, one pass over the data, in the order x1, lambda, x2:

    (x1, x2, lambda)^ = (x1, x2, lambda) + alpha ((x1, x2, lambda) - those before)
    x1+ = argmin h1(u) + <grad f1(x1^) + A1'(lambda^ + beta (A1 x1^ + A2 x2^ - b)), u>
                 + |u - x1^|^2 / (2 step1)
    lambda+ = lambda^ + beta (A1 x1+ + A2 x2^ - b)
    x2+ = argmin h2(u) + <grad f2(x2^) + A2'(lambda+ + beta (A1 x1+ + A2 x2^ - b)), u>
                 + |u - x2^|^2 / (2 step2)

with step_i = 1 / (smooth L_i + beta |A_i|^2); alpha = 0 is a proximal ADMM. The article, where f1
and f2 are absent, proves alpha < 1/3. With gradients it is an averaged operator with the constant
2 / (4 - 1 / smooth), and the inertial theorem of Krasnoselskii and Mann (Bot, Csetnek, Hendrich
2015) allows alpha = 0.2 up to the constant 0.647; smooth = 1.5 has 0.6. The squared residual of
the best iterate is o(1/K), the objective gap and infeasibility O(1/sqrt(K)); the last is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import State, register
from .._steps import adapted_beta, step1, step2
from ._batch import FullGradient


@dataclass
class InertialState(State):
    """State of inertial ADMM."""

    before: Pair = field(kw_only=True)
    dual_before: Array = field(kw_only=True)


@register
@dataclass(frozen=True)
class InertialADMM(FullGradient[InertialState]):
    """Inertial linearized ADMM (Chen, Chan, Ma and Yang, 2015).

    Parameters
    ----------
    inertia : float, default=0.2
        In [0, 1/3): share of the last move that is added before a step.
    smooth : float, default=1.5
        Weight of the Lipschitz constants in the step sizes ``1 / (smooth L_i + beta |A_i|^2)``, at
        least 1; 1.5 is enough for the convergence proof with ``inertia=0.2``.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.InertialADMM(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "inertial-admm"

    inertia: float = 0.2
    smooth: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.inertia < 1 / 3:
            raise ValueError(f"inertia is {self.inertia!r}, expected a number in [0, 1/3)")
        if not self.smooth >= 1:
            raise ValueError(f"smooth is {self.smooth!r}, expected a number >= 1")

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> InertialState:
        """Return the state before the first epoch."""
        return InertialState(
            x,
            x,
            lam,
            before=x,
            dual_before=lam,
            **self.numbers(p, workspace, inertia=self.inertia),
        )

    def iterate(self, p: Problem, s: InertialState) -> None:
        alpha, beta, r = self.inertia, s.beta, p.constraint
        x = s.x + alpha * (s.x - s.before)  # x^ and lambda^
        lam = s.dual + alpha * (s.dual - s.dual_before)
        length1, length2 = self.lengths(p, s, beta, self.smooth)
        x1 = step1(p, x.x1, lam + beta * r(x), length1)
        residual = r(Pair(x1, x.x2))
        s.before, s.dual_before = s.x, s.dual
        s.dual = lam + beta * residual
        x2 = step2(p, x.x2, s.dual + beta * residual, p.f2.gradient(x.x2), length2)
        s.x = Pair(x1, x2)

    def finish(self, p: Problem, s: InertialState) -> None:
        s.output = s.x
        beta = adapted_beta(self.beta, p, s.n_epochs, s.x, s.before.x2, s.dual, s.beta)
        if beta != s.beta:  # inertia belongs to one metric
            s.beta, s.before, s.dual_before = beta, s.x, s.dual
