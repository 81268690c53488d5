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
from typing import ClassVar

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import State, register
from .._steps import (
    Average,
    adapted_beta,
    check_returns,
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

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.LinearizedADMM(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "linearized-admm"

    returns: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_returns(self.returns)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> LinearizedState:
        """Return the state before the first epoch."""
        return LinearizedState(
            x, x, lam, mean=Average.empty(), before=x.x2, **self.numbers(p, workspace)
        )

    def iterate(self, p: Problem, s: LinearizedState) -> None:
        x, lam, beta, r = s.x, s.dual, s.beta, p.constraint
        length1, length2 = self.lengths(p, s, beta)
        x1 = step1(p, x.x1, lam + beta * r(x), length1)
        v = p.f2.gradient(x.x2)
        s.x = Pair(x1, step2(p, x.x2, lam + beta * r(Pair(x1, x.x2)), v, length2))
        s.dual = lam + beta * r(s.x)
        s.mean, s.before = s.mean.add(s.x), x.x2

    def finish(self, p: Problem, s: LinearizedState) -> None:
        s.ergodic = s.mean.point
        s.output = s.x if self.returns == "last" else s.ergodic
        s.beta = adapted_beta(self.beta, p, s.n_epochs, s.x, s.before, s.dual, s.beta)
