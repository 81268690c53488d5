"""Stochastic variance-reduced gradient ADMM (SVRG-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

S. Zheng, J. T. Kwok, "Fast-and-Light Stochastic ADMM", IJCAI 2016; arXiv 1604.07070.

Code and paper: snapshot = x~, beta = rho, 1 / curvature = eta, dual = rho u, ergodic = x-bar.

One epoch: a full gradient at the snapshot, then n_inner steps of

    x1+ = argmin h1 + <lambda, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    x2+ = prox of h2 after the step 1 / (curvature + beta |A2|^2) from x2 along
          v + A2'(lambda + beta (A1 x1+ + A2 x2 - b))
    lambda+ = lambda + beta (A1 x1+ + A2 x2+ - b)

with v the variance-reduced gradient at x2. The next snapshot is the mean of the epoch's x2; the
next epoch goes on from the last x. With ``strongly_convex`` it starts from the means instead, and
from the multiplier with A2' lambda = -grad f2(snapshot) in least squares.

The sums of an epoch telescope when the curvature exceeds Lf + 4 delta(b) Lmax; the default is
Lf + 8 delta(b) Lmax. Then the expected objective gap and infeasibility of the average of all
iterates are O(1 / K), those of the last iterate O(1 / sqrt(K)) in theory and far better than the
average's in practice; the strongly convex variant converges linearly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.gradients import Anchored
from .._base import register
from .._from_files import pieces, snapshot
from .._parts import Part
from ._plain import check_eigen
from ._reduced import Reduced, ReducedState, compiled_loop, multiplier_for, reference_loop


@dataclass
class SVRGState(ReducedState):
    """State of a method with snapshots."""

    snapshot: Pair = field(kw_only=True)


@register
@dataclass(frozen=True)
class SVRGADMM(Reduced[SVRGState]):
    """SVRG-ADMM: stochastic variance-reduced gradient ADMM (Zheng and Kwok, 2016).

    Parameters
    ----------
    beta : float, "auto" or Continuation
        Penalty parameter of the augmented Lagrangian; "auto" estimates it from the data.
    batch_size : int or "auto"
        Rows in a mini-batch; "auto" takes about 2 Lmax / Lf: more rows allow no longer steps.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    curvature : float or "auto"
        The x2 step size is ``1 / (curvature + beta |A2|^2)``; by default Lf + 8 delta(b) Lmax.
        Experiments often tune it.
        Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of the worst row;
        delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    sampling : {"blocks", "rows"}
        Batches of consecutive runs of rows, or of single rows as in the paper.
    warm_start_passes : float, default=0
        Passes of STOC-ADMM before the first epoch; 3 in the experiments of the ACC-SADMM paper.
    returns : {"last", "ergodic"}
        Which point is the output: the last iterate, or the uniform average of all inner iterates.
    strongly_convex : bool, default=False
        Restart every epoch from the means; needs h2 absent.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = X[:, :2].sum(axis=1) + 0.1 * rng.standard_normal(200)
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(5), on_structure=sa.L1(0.1)
    ... )
    >>> sa.minimize(problem, sa.SVRGADMM(batch_size=10), stop=sa.Gap(1e-4)).coef.round(2)
    array([0.94, 0.94, 0.04, 0.04, 0.04])
    """

    name: ClassVar[str] = "svrg-admm"
    draws_from_files: ClassVar[bool] = True

    strongly_convex: bool = False

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method needs."""
        super().check(problem)
        if self.strongly_convex:
            check_strongly_convex(problem, self.name)

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> SVRGState:
        """Return the state before the first epoch; nothing of the start is changed."""
        first = self.first_state(problem, x, dual, workspace)
        return SVRGState(**first, snapshot=first["x"])

    def epoch(self, problem: Problem, state: SVRGState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        part, s.part = s.part, None
        if part is None:
            self.prepare(p, s, rng)
            if s.n_epochs == 0:
                s.snapshot = s.x
            gradient = snapshot(p, s, runs, s.snapshot.x2)
            if self.strongly_convex and s.n_epochs > 0:
                s.x, s.dual = s.snapshot, multiplier_for(p, gradient.full_gradient, s.workspace)
            part = Part(runs.draw(rng, s.n_inner), gradient)
            del gradient
        now = part.following(s.few, s.engine)
        total = anchored_loop(p, s, part.gradient, part.chosen(now), s.curvature, 1.0, part.total)
        if not part.is_last(now):
            s.part = part.after(now, total)
            return
        s.snapshot = total / s.n_inner
        last = s.snapshot if self.strongly_convex else s.x
        self.conclude(p, s, runs, last, s.snapshot, reads=part.gradient.reads)


def check_strongly_convex(problem: Problem, name: str) -> None:
    """Raise when the reset of the multiplier is not defined."""
    if problem.h2 is not None:
        raise Unsuitable(
            f"strongly_convex=True of {name} needs h2 absent, because the multiplier is reset "
            "from the gradient of the loss alone; use strongly_convex=False"
        )
    check_eigen(problem)


def anchored_loop(
    p: Problem,
    s: SVRGState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    curvature: float,
    mix: float = 1.0,
    total: Pair | None = None,
) -> Pair:
    """Run steps with gradients at mix x2 + (1 - mix) snapshot; return the sum of the iterates.

    ``total`` is the sum of earlier steps of an epoch that was left in the middle; it is added to.
    """
    if total is not None:
        return _anchored_piece(p, s, gradient, batches, curvature, mix, total)
    for inside, own, few in pieces(p, s, gradient, batches):
        part = _anchored_piece(inside, s, own, few, curvature, mix)
        total = part if total is None else total + part
        del part
    return p.zeros() if total is None else total


def _anchored_piece(
    p: Problem,
    s: SVRGState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    curvature: float,
    mix: float,
    total: Pair | None = None,
) -> Pair:
    if s.engine == "compiled":
        from ...kernels import loops

        runs = gradient.runs
        sample = loops.Sample(batches, runs.n_runs, runs.row_weight)
        at = gradient.compiled
        return compiled_loop(
            p, s, curvature, partial(loops.svrg_admm, sample=sample, anchor=at, mix=mix)
        )
    anchor = s.snapshot.x2

    def estimate(batch: NDArray[np.int64], x2: Array) -> Array:
        return gradient.estimate(batch, x2 if mix == 1 else mix * x2 + (1 - mix) * anchor)

    return reference_loop(p, s, batches, estimate, curvature, total=total)
