"""SDCA-ADMM: ADMM on the dual problem, one block of rows at a time.

    min  h1(x1) + h2(x2) + (1/n) sum_i q_i loss_i(a_i' x2)
    s.t. A1 x1 + A2 x2 = b,    A1' A1 = s I

T. Suzuki, "Stochastic Dual Coordinate Ascent with Alternating Direction Multiplier Method", ICML
2014, arXiv:1311.0622.

Code and paper: x2 = w (the primal point is the *multiplier* of the dual problem), derivatives =
the dual variables x of the rows, u_i with gradient (1/n) sum_i q_i u_i a_i, dual = lambda = y / n,
dual2 that of h2, residual = R = (Z x + B y) / n = gradient of the derivatives + A2' lambda +
dual2, scale = n rho. H is h1 seen through the constraint, H(v) = min h1(x1) s.t. A1 x1 + v = b.
The rows are cut into K blocks I; one step with a random block:

    lambda+ = prox_{s0 H*}(lambda + s0 A2 (w - scale R)),       s0 = 1 / (scale eta_B), R follows
    u_I+    = prox_{t loss*}(u_I + t X_I (w - scale R)),        t = n / (scale eta_I q), R+ follows
    w+      = w - scale (R+ - (1 - 1/K) R)                      with R from before the step

and eta_B >= |A2|^2 (plus 1 with h2, which joins the first line), eta_I >= |X_I|^2. Smooth losses
with local strong convexity give a linear rate; for general convex problems none is known. Returned
is the last w. No constant of the loss enters the steps, but rho matters: by default it comes from
the ratio of dual to primal moves that the data let expect; ``rho="search"`` tries five around it.
Memory: one number per row and output.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.clock import NEVER
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...operators import squared_norm
from ...problem import Pair, Problem
from ...risk.sampling import Runs
from .._base import State, register
from .._steps import check_positive, dual_step, pull_back, tightness
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
class SDCAState(State):
    """State of SDCA-ADMM; ``beta`` is the dual step s0 of h1."""

    derivatives: Array = field(kw_only=True)
    dual2: Array = field(kw_only=True)
    residual: Array = field(kw_only=True)
    scale: float = field(kw_only=True)
    """n rho."""


@register
@dataclass(frozen=True)
class SDCAADMM(DualBlocks[SDCAState]):
    """SDCA-ADMM: stochastic dual coordinate ascent with ADMM (Suzuki, 2014).

    Parameters
    ----------
    rho : "auto", "search" or float
        Penalty parameter of the dual problem, in the paper's units: estimated from the data, the
        best of five after a short run of each, or a number.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.SDCAADMM(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "sdca-admm"
    slack: ClassVar[float] = 1.01
    """Factor above the norms, which the proof needs to be strict upper bounds."""

    rho: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("rho", self.rho, "auto", "search")

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SDCAState:
        """Return the state before the first epoch; dual variables are derivatives at the start."""
        f2: Any = p.f2
        runs = partition(p, self.batch_size, workspace)
        derivatives, balance = first_derivatives(f2, x.x2)
        # the primal and the dual part of the distance to a solution, |w|^2 / scale and
        # scale sum_I eta_I |u_I|^2, are equal
        scale = 1 / (balance * float(block_norms2(f2, runs, workspace).mean()) ** 0.5)
        if self.rho == "search":
            return search(self, "rho", scale / f2.n_terms, p, x, lam, workspace)
        if self.rho != "auto":
            scale = float(self.rho) * f2.n_terms
        gradient = residual(p, derivatives, lam)
        dual2 = np.zeros_like(x.x2)
        if p.h2 is not None:  # a subgradient of h2, that of the solution at the solution
            aim = x.x2 - gradient
            dual2 = aim - p.h2.prox(aim, 1.0)
        sigma = 1 / (scale * self._spread(p, workspace))
        return SDCAState(
            x,
            x,
            lam,
            sigma,
            workspace=workspace,
            derivatives=derivatives,
            dual2=dual2,
            residual=gradient + dual2,
            scale=scale,
            n_passes=1.0,
            n_gradients=1.0,
            notes={"rho": scale / f2.n_terms, "n_blocks": runs.n_runs},
        )

    def _spread(self, problem: Problem, workspace: Workspace) -> float:
        """Return eta_B."""
        a2 = squared_norm(problem.A2, workspace)
        return self.slack * (a2 + (problem.h2 is not None)) or 1.0

    def epoch(self, problem: Problem, state: SDCAState, rng: np.random.Generator) -> None:
        """Step two passes' worth of random blocks."""
        p, s = problem, state
        runs = partition(p, self.batch_size, s.workspace)
        n_inner = 2 * runs.n_runs if self.n_inner is None else self.n_inner
        if sums_anew(s):
            s.residual = residual(p, s.derivatives, s.dual) + s.dual2
            s.n_passes += 1
        lengths = 1 / (s.scale * self.slack * block_norms2(p.f2, runs, s.workspace))
        loop = _compiled if s.engine == "compiled" else _reference
        blocks, done = rng.integers(runs.n_runs, size=n_inner), 0
        # the clock is looked at a hundred times in an epoch; the steps are the same without it
        stride = n_inner if s.deadline == NEVER else max(1, n_inner // 100)
        while done < n_inner and not (done and s.deadline.passed()):
            loop(p, s, runs, blocks[done : done + stride], lengths)
            done = min(done + stride, n_inner)
        s.output = s.x
        s.n_epochs += 1
        s.n_passes += done / runs.n_runs
        s.n_gradients += done / runs.n_runs


def _reference(
    p: Problem, s: SDCAState, runs: Runs, blocks: NDArray[np.int64], lengths: Array
) -> None:
    """Run the steps on any objects."""
    derivatives, share = s.derivatives, 1 - 1 / runs.n_runs
    for block in blocks:
        before, w, x1 = s.residual, s.x.x2, s.x.x1
        at = w - s.scale * before
        if p.constrained:
            x1, multiplier = dual_step(p, at, s.dual, s.beta, s.workspace)
            s.residual = s.residual + pull_back(p, multiplier - s.dual)
            s.dual = multiplier
        if p.h2 is not None:
            moved = s.dual2 + s.beta * at
            moved = moved - s.beta * p.h2.prox(moved / s.beta, 1 / s.beta)
            s.residual = s.residual + (moved - s.dual2)
            s.dual2 = moved
        at = w - s.scale * s.residual
        rows = rows_of(runs, int(block))
        s.residual = s.residual + data_step(p.f2, rows, at, derivatives, float(lengths[block]))
        s.x = Pair(x1, w - s.scale * (s.residual - share * before))


def _compiled(
    p: Problem, s: SDCAState, runs: Runs, blocks: NDArray[np.int64], lengths: Array
) -> None:
    """Run the same steps compiled."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    s.x, s.dual, s.dual2, s.residual = s.x.copy(), s.dual.copy(), s.dual2.copy(), s.residual.copy()
    state = loops.SDCA(
        s.scale,
        s.beta,
        tightness(p, s.workspace) or 1.0,
        p.h2 is not None,
        lengths.astype(p.dtype),
        s.x.x1,
        s.x.x2,
        s.dual,
        s.dual2,
        s.residual,
        s.derivatives,
    )
    loops.sdca_admm(compiled_view(p, s.workspace), loops.Sample(blocks, runs.n_runs), state)
