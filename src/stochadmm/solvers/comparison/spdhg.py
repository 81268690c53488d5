"""SPDHG: stochastic primal-dual hybrid gradient over blocks of rows and the structure.

    min  h1(x1) + h2(x2) + (1/n) sum_i q_i loss_i(a_i' x2)
    s.t. A1 x1 + A2 x2 = b,    A1' A1 = s I

A. Chambolle, M. J. Ehrhardt, P. Richtarik, C.-B. Schoenlieb, "Stochastic Primal-Dual Hybrid
Gradient Algorithm with Arbitrary Sampling and Imaging Applications", SIAM J. Optim. 28 (2018),
arXiv:1706.04957.

Code and paper: derivatives = the dual variables y_i of the rows, u_i with gradient (1/n) sum_i q_i
u_i a_i; dual = lambda, that of the structure; z = sum_i K_i' y_i = gradient of the derivatives +
A2' lambda; balance = gamma, chance = p_i. H is h1 seen through the constraint, H(v) = min h1(x1)
s.t. A1 x1 + v = b. One step:

    x2+ = prox_{tau h2}(x2 - tau z_bar)
    with p_0 = 1/2:        lambda+ = prox_{sigma_0 H*}(lambda + sigma_0 A2 x2+)
    else a random block:   u_I+    = prox_{t loss*}(u_I + t X_I x2+),     t = sigma_I n / q
    z+ = z + change,    z_bar = z+ + change / p_i

with sigma_i = gamma / |K_i| and tau = 0.99 min_i p_i / (sigma_i |K_i|^2), K_i the structure or a
block. The mean of the x2 has O(1/K), strong convexity and smoothness give a linear rate, and the
last iterate, which is returned, converges almost surely. Losses need no smoothness. gamma matters:
by default the ratio of dual to primal moves that the data let expect; ``balance="search"`` tries
five around it. Memory: one number per row and output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...operators import squared_norm
from ...problem import Pair, Problem
from ...risk.sampling import Runs
from .._base import State, register
from .._steps import Average, check_positive, check_returns, dual_step, pull_back, tightness
from ._dual_blocks import (
    DualBlocks,
    block_norms2,
    data_step,
    first_derivatives,
    partition,
    residual,
    rows_of,
    search,
    sums_anew,
)


@dataclass
class SPDHGState(State):
    """State of SPDHG; ``beta`` is sigma_0."""

    derivatives: Array = field(kw_only=True)
    z: Array = field(kw_only=True)
    z_bar: Array = field(kw_only=True)
    balance: float = field(kw_only=True)
    mean: Average = field(kw_only=True)


@register
@dataclass(frozen=True)
class SPDHG(DualBlocks[SPDHGState]):
    """SPDHG: stochastic primal-dual hybrid gradient (Chambolle et al., 2018).

    Parameters
    ----------
    n_inner : int, optional
        Steps per epoch, half of them on the structure; by default two passes over the data.
    balance : "auto", "search" or float
        Ratio gamma of dual to primal step sizes: estimated from the data, the best of five after a
        short run of each, or a number.
    returns : {"last", "ergodic"}
        Which point is returned: the last, or the mean of all.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.SPDHG(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "spdhg"

    balance: float | str = "auto"
    returns: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("balance", self.balance, "auto", "search")
        check_returns(self.returns)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SPDHGState:
        """Return the state before the first epoch; dual variables are derivatives at the start."""
        f2: Any = p.f2
        derivatives, balance = first_derivatives(f2, x.x2)
        if self.balance == "search":
            return search(self, "balance", balance, p, x, lam, workspace)
        if self.balance != "auto":
            balance = float(self.balance)
        z = residual(p, derivatives, lam)
        sigma, _, tau = _steps(p, partition(p, self.batch_size, workspace), balance, workspace)
        return SPDHGState(
            x,
            x,
            lam,
            sigma,
            workspace=workspace,
            derivatives=derivatives,
            z=z,
            z_bar=z,
            balance=balance,
            mean=Average.empty(),
            n_passes=1.0,
            n_gradients=1.0,
            notes={"balance": balance, "tau": tau},
        )

    def epoch(self, problem: Problem, state: SPDHGState, rng: np.random.Generator) -> None:
        """Step the structure and random blocks, two passes' worth of rows on average."""
        p, s = problem, state
        runs = partition(p, self.batch_size, s.workspace)
        n_inner = self.n_inner or round(2 * runs.n_runs / (1 - _share(p)))
        if sums_anew(s):
            exact = residual(p, s.derivatives, s.dual)
            s.z, s.z_bar = exact, s.z_bar + (exact - s.z)
            s.n_passes += 1
        picks = rng.integers(runs.n_runs, size=n_inner)
        picks[rng.random(n_inner) < _share(p)] = -1  # the block of the structure
        loop = _compiled if s.engine == "compiled" else _reference
        total = loop(p, s, runs, picks, *_steps(p, runs, s.balance, s.workspace)[1:])

        s.mean = s.mean.add_sum(total, n_inner)
        s.ergodic = s.mean.value
        s.output = s.x if self.returns == "last" else s.mean.point
        passes = np.count_nonzero(picks >= 0) / runs.n_runs
        s.n_epochs += 1
        s.n_passes += passes
        s.n_gradients += passes


def _share(p: Problem) -> float:
    """Return the chance p_0 of the structure."""
    return 0.5 if p.constrained else 0.0


def _steps(
    p: Problem, runs: Runs, balance: float, workspace: Workspace
) -> tuple[float, Array, float]:
    """Return sigma_0, the sigma of every block, and tau."""
    norms = np.sqrt(block_norms2(p.f2, runs, workspace))
    chance = (1 - _share(p)) / runs.n_runs
    tau = float((chance / (balance * norms)).min())
    if p.A2 is None:
        return 1.0, balance / norms, 0.99 * tau
    structure = max(squared_norm(p.A2, workspace), 1e-300) ** 0.5
    return balance / structure, balance / norms, 0.99 * min(tau, _share(p) / (balance * structure))


def _reference(
    p: Problem, s: SPDHGState, runs: Runs, picks: NDArray[np.int64], sigmas: Array, tau: float
) -> Pair:
    """Run the steps on any objects; return the sum of the iterates."""
    total, share = p.zeros(), _share(p)
    for pick in picks:
        x1, x2 = s.x.x1, s.x.x2 - tau * s.z_bar
        x2 = x2 if p.h2 is None else p.h2.prox(x2, tau)
        if pick < 0:
            x1, multiplier = dual_step(p, x2, s.dual, s.beta, s.workspace)
            change, chance = pull_back(p, multiplier - s.dual), share
            s.dual = multiplier
        else:
            rows, chance = rows_of(runs, int(pick)), (1 - share) / runs.n_runs
            change = data_step(p.f2, rows, x2, s.derivatives, float(sigmas[pick]))
        s.z = s.z + change
        s.z_bar = s.z + change / chance
        s.x = Pair(x1, x2)
        total = total + s.x
    return total


def _compiled(
    p: Problem, s: SPDHGState, runs: Runs, picks: NDArray[np.int64], sigmas: Array, tau: float
) -> Pair:
    """Run the same steps compiled."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    total = p.zeros()
    s.x, s.dual, s.z, s.z_bar = s.x.copy(), s.dual.copy(), s.z.copy(), s.z_bar.copy()
    state = loops.SPDHG(
        _share(p),
        tau,
        s.beta,
        tightness(p, s.workspace) or 1.0,
        sigmas.astype(p.dtype),
        s.x.x1,
        s.x.x2,
        s.dual,
        s.z,
        s.z_bar,
        s.derivatives,
        total.x1,
        total.x2,
    )
    loops.spdhg(compiled_view(p, s.workspace), loops.Sample(picks, runs.n_runs), state)
    return total
