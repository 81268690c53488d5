"""ADMM with exact steps, over-relaxation and a dual step.

    min  h1(x1) + f1(x1) + h2(x2) + f2(x2)    s.t.  A1 x1 + A2 x2 = b

R. Glowinski, A. Marroco (1975); J. Eckstein, D. P. Bertsekas, Math. Program. 55 (1992); S. Boyd et
al., "Distributed Optimization and Statistical Learning via ADMM", Found. Trends Mach. Learn. 3
(2011), doi:10.1561/2200000016.

Code and papers: relaxation = alpha, dual_step = gamma, dual = lambda. One iteration:

    x1+ = argmin h1(x1) + f1(x1) + <lambda, A1 x1> + (beta / 2)|A1 x1 + A2 x2 - b|^2
    mix = alpha A1 x1+ - (1 - alpha)(A2 x2 - b)
    x2+ = argmin h2(x2) + f2(x2) + <lambda, A2 x2> + (beta / 2)|mix + A2 x2 - b|^2
    lambda+ = lambda + gamma beta (mix + A2 x2+ - b)

The x1 step is a prox where A1'A1 = s I and f1 is absent. Otherwise it is solved to rounding, or
linearized at x1 with the weight L1 + beta |A1|^2: the relaxed ADMM with a proximal term of E. X.
Fang et al., Math. Program. Comput. 7 (2015), which has the same rates. For quadratic losses the x2
step is a small problem with the matrix Q + beta A2'A2, Q from one pass, for other losses Newton's
method, a few passes and n d^2 operations each. Any beta > 0, alpha in (0, 2) with gamma = 1, or
gamma in (0, 1.618) with alpha = 1. The mean of the iterates has an objective gap and infeasibility
O(1/K), the last iterate O(1/sqrt(K)) and no better in general.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.curvature import LIMITS
from .._base import PROXES, Solver, State, register
from .._first_block import check_first_block, check_form, chosen_form, first_step
from .._second_block import exact_step2
from .._steps import (
    Average,
    Beta,
    adapted_beta,
    check_count,
    check_returns,
    first_beta,
)


@dataclass
class ADMMState(State):
    """State of ADMM; ``gram`` is Q of a quadratic loss, ``factor`` that of Q + beta A2'A2."""

    mean: Average = field(kw_only=True)
    gram: Array | None = field(default=None, repr=False)
    factor: Array | None = field(default=None, repr=False)
    factor_beta: float = 0.0


@register
@dataclass(frozen=True)
class ADMM(Solver[ADMMState]):
    """ADMM with exact steps, over-relaxation and a dual step size (Boyd et al., 2011).

    Parameters
    ----------
    beta : float, "auto" or Continuation
        Penalty parameter of the augmented Lagrangian; "auto" starts from an estimate and balances
        primal and dual residuals after each of the first 30 epochs.
    relaxation : float, default=1.6
        Over-relaxation parameter in (0, 2); 1 is plain ADMM.
    dual_step : float, default=1
        Step size of the dual variable over beta, in (0, 1.618); values other than 1 only with
        ``relaxation=1``.
    n_inner : int, default=10
        Iterations per epoch.
    returns : {"last", "ergodic"}
        Which point is returned: the last iterate, or the mean of all, which has the better rate.
    first_block : {"auto", "exact", "linearized"}
        The x1 step where it is not one prox. "exact" needs the fewest iterations, each with the
        factor of a matrix of A1's columns; "linearized" needs products with A1 only. "auto" is
        exact up to 500 columns of A1.
    most_inner : int, default=100
        Limit of inner steps in an exact x1 step along f1; the next iteration continues from there.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.ADMM()).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "admm"
    has_kernel: ClassVar[bool] = False
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {
        "f2": (
            "gram",
            "predict",
            "derivatives",
            "pull_back",
            "value_at",
            "curvature",
            "curvature_apply",
        )
    }

    beta: Beta = "auto"
    relaxation: float = 1.6
    dual_step: float = 1.0
    n_inner: int = 10
    returns: str = "last"
    first_block: str = "auto"
    most_inner: int = 100

    def __post_init__(self) -> None:
        check_returns(self.returns)
        check_form(self.first_block)
        check_count("n_inner", self.n_inner)
        check_count("most_inner", self.most_inner)
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation is {self.relaxation!r}, expected a number in (0, 2)")
        if not 0 < self.dual_step < (1 + 5**0.5) / 2:  # the golden ratio
            raise ValueError(f"dual_step is {self.dual_step!r}, expected a number in (0, 1.618)")
        if self.dual_step != 1 and self.relaxation != 1:
            raise ValueError("dual_step and relaxation both differ from 1; set one of them to 1")

    def check(self, problem: Problem) -> None:
        """Raise unless both steps can be made."""
        super().check(problem)
        check_first_block(problem, self.first_block, self.name)
        d = problem.shape2[0]
        if d > LIMITS.columns:
            raise Unsuitable(
                f"{self.name} works with {d} x {d} matrices; use 'acc-sadmm' above "
                f"{LIMITS.columns} columns"
            )

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> ADMMState:
        """Return the state before the first epoch."""
        beta = first_beta(p, self.beta, workspace)
        return ADMMState(
            x,
            x,
            lam,
            beta,
            workspace=workspace,
            mean=Average.empty(),
            notes={
                "beta": beta,
                "relaxation": self.relaxation,
                "n_inner": self.n_inner,
                "first_block": chosen_form(p, self.first_block),
            },
        )

    def epoch(self, problem: Problem, state: ADMMState, rng: np.random.Generator) -> None:
        """Run ``n_inner`` iterations."""
        p, s = problem, state
        alpha, x = self.relaxation, s.x
        step1 = first_step(
            p,
            s.beta,
            self.first_block,
            self.most_inner,
            alpha,
            workspace=s.workspace,
            deadline=s.deadline,
        )
        step2 = exact_step2(p, s)
        for _ in range(self.n_inner):
            x1 = step1(x.x1, _image(p, x.x2) + s.dual / s.beta - (0 if p.b is None else p.b))
            rest = alpha * p.constraint(Pair(x1, x.x2)) - _image(p, x.x2)  # mix - b
            before, x = x.x2, Pair(x1, step2(x.x2, rest + s.dual / s.beta))
            s.dual = s.dual + self.dual_step * s.beta * (rest + _image(p, x.x2))
            s.mean = s.mean.add(x)
        s.x, s.ergodic = x, s.mean.value
        s.output = x if self.returns == "last" else s.mean.point
        s.n_epochs += 1
        s.beta = adapted_beta(self.beta, p, s.n_epochs, x, before, s.dual, s.beta)


def _image(p: Problem, x2: Array) -> Array:
    return p.zeros_dual() if p.A2 is None else p.A2.matvec(x2)
