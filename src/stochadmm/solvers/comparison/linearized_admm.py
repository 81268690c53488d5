"""Linearized ADMM with full gradients (inexact Uzawa).

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

X. Zhang, M. Burger, S. Osher, "A Unified Primal-Dual Algorithm Framework Based on Bregman
Iteration", J. Sci. Comput. 46 (2011), doi:10.1007/s10915-010-9408-8.

Code and paper: dual = lambda, step_i = 1 / eta_i. One iteration, one pass over the data:

    x1+ = argmin h1(u) + <grad f1(x1) + A1'(lambda + beta (A1 x1 + A2 x2 - b)), u>
                 + |u - x1|^2 / (2 step1)
    x2+ = argmin h2(u) + <grad f2(x2) + A2'(lambda + beta (A1 x1+ + A2 x2 - b)), u>
                 + |u - x2|^2 / (2 step2)
    lambda+ = lambda + beta (A1 x1+ + A2 x2+ - b)

with step_i = 1 / (L_i + beta |A_i|^2), L_2 that of the mean loss: it is proximal ADMM. The mean of
the iterates has objective gap and infeasibility O(1/K); the last iterate, usually far better, has
O(1/sqrt(K)). Without a constraint it is proximal gradient descent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...base.protocols import Array
from ...problem import Pair, Problem
from .. import defaults
from .._base import State, register
from .._steps import (
    Average,
    adapted_beta,
    check_returns,
    lengths,
    step1,
    step2,
)
from ._batch import FullGradient


@dataclass
class LinearizedState(State):
    """State of linearized ADMM."""

    mean: Average = field(kw_only=True)
    before: Array = field(kw_only=True)
    """x2 before the last iteration."""


@register
@dataclass(frozen=True)
class LinearizedADMM(FullGradient[LinearizedState]):
    """Linearized ADMM (inexact Uzawa) with full gradients (Zhang, Burger and Osher, 2011).

    Parameters
    ----------
    beta : float, "auto" or Continuation
        Penalty parameter of the augmented Lagrangian; "auto" starts from an estimate and balances
        primal and dual residuals after each of the first 30 epochs.
    n_inner : int, default=5
        Iterations, each one pass over the data, per epoch.
    returns : {"last", "ergodic"}
        Which point is returned: the last iterate, or the mean of all, which has the better rate.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.LinearizedADMM(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "linearized-admm"

    returns: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_returns(self.returns)

    def _begun(
        self, point: Pair, multiplier: Array, penalty: float, **common: Any
    ) -> LinearizedState:
        return LinearizedState(mean=Average.empty(), before=point.x2, **common)

    def _iteration(self, p: Problem, s: LinearizedState) -> None:
        x, multiplier = s.x, s.dual
        length1, length2 = lengths(
            p, defaults.lipschitz_mean(p, s.workspace), s.beta, workspace=s.workspace
        )
        gradient = p.f2.gradient(x.x2)
        x1 = step1(p, x.x1, multiplier + s.beta * p.constraint(x), length1)
        augmented = multiplier + s.beta * p.constraint(Pair(x1, x.x2))
        s.x = Pair(x1, step2(p, x.x2, augmented, gradient, length2))
        s.dual = multiplier + s.beta * p.constraint(s.x)
        s.mean, s.before = s.mean.add(s.x), x.x2

    def _finish(self, p: Problem, s: LinearizedState) -> None:
        s.ergodic = s.mean.point
        s.output = s.x if self.returns == "last" else s.ergodic
        s.beta = adapted_beta(self.beta, p, s.n_epochs + 1, s.x, s.before, s.dual, s.beta)
