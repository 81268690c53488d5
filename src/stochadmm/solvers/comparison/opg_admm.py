"""Online proximal gradient ADMM (OPG-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

T. Suzuki, "Dual Averaging and Proximal Gradient Descent for Online Alternating Direction
Multiplier Method", ICML 2013.

Code and paper: beta = rho, 1 / w_k = eta_k, growth = 1 / eta_0, dual = lam = -lambda.

One step, with g the gradient of a batch at x2 and the metric gamma I - beta eta A2'A2 that turns
the x2 step into a prox step, gamma = 1 + beta eta |A2|^2:

    x2+ = prox of h2 at x2 - (eta / gamma)(g + A2'(lam + beta (A1 x1 + A2 x2 - b)))

then x1 and the multiplier as in ADMM. This is the linearized STOC-ADMM; the two differ in the
steps, here eta_k = eta_0 / sqrt(k), never longer than 1 / L because squared losses would blow up
first. The expected objective gap and infeasibility of the uniform average are O(1 / sqrt(K)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .._base import register
from ._stochastic import FreshBatches, FreshState


@register
@dataclass(frozen=True)
class OPGADMM(FreshBatches[FreshState]):
    """OPG-ADMM: online proximal gradient ADMM (Suzuki, 2013).

    Parameters
    ----------
    growth : float or "auto"
        1 / eta_0 of the step sizes eta_k = eta_0 / sqrt(k); by default sqrt(2) M / R, with M the
        size of a batch's gradient at 0 and R an estimate of the distance to a solution.
    curvature : float or "auto"
        L, whose inverse no step exceeds; by default Lf + 4 delta(b) Lmax.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.25))
    >>> result = sa.minimize(problem, sa.solvers.OPGADMM(), max_passes=300)
    >>> abs(result.coef - [2.0, 0.0, 0.0, 0.0]).max() < 0.3
    np.True_
    """

    name: ClassVar[str] = "opg-admm"

    def capped(self) -> bool:
        """Say that the weights of the steps are c sqrt(k) with a floor."""
        return True
