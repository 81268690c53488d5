"""Stochastic variance-reduced gradient ADMM (SVRG-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

S. Zheng, J. T. Kwok, "Fast-and-Light Stochastic ADMM", IJCAI 2016; arXiv 1604.07070.

Code and paper: x_tilde = x~, beta = rho, 1 / curvature = eta, lam = dual = rho u, ergodic = x-bar.

One epoch: a full gradient at x~, then n_inner steps of

    x1+ = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    x2+ = prox of h2 after the step 1 / (curvature + beta |A2|^2) from x2 along
          v + A2'(lam + beta (A1 x1+ + A2 x2 - b))
    lam+ = lam + beta (A1 x1+ + A2 x2+ - b)
    v = mean over the batch of (grad f2_i(x2) - grad f2_i(x~2)) + grad f2(x~2)

The next x~ is the mean of the epoch's iterates; the next epoch goes on from the last x. With
``strongly_convex`` it starts from the means instead, and from the multiplier with A2' lam =
-grad f2(x~2) in least squares.

The sums of an epoch telescope when the curvature exceeds Lf + 4 delta(b) Lmax; the default is
Lf + 8 delta(b) Lmax. Then the expected objective gap and infeasibility of the average of all
iterates are O(1 / K), those of the last iterate O(1 / sqrt(K)) in theory and far better than the
average's in practice; the strongly convex variant converges linearly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.gradients import Anchored
from .. import _adaptive as adaptive
from .._adaptive import Adaptive
from .._base import register
from .._mini_batches import mini_batches, snapshot
from .._steps import Continuation
from ._stochastic import (
    ReducedState,
    VarianceReduced,
    check_eigen,
    compiled_steps,
    reference_steps,
    structure_eigen,
)


@dataclass
class SVRGState(ReducedState):
    """State of a method with snapshots."""

    x_tilde: Pair = field(kw_only=True)
    local: Adaptive | None = None
    """What ``step="adaptive"`` knows."""


@register
@dataclass(frozen=True)
class SVRGADMM(VarianceReduced[SVRGState]):
    """SVRG-ADMM: stochastic variance-reduced gradient ADMM (Zheng and Kwok, 2016).

    Parameters
    ----------
    curvature : float or "auto"
        The x2 step size is ``1 / (curvature + beta |A2|^2)``; by default Lf + 8 delta(b) Lmax.
        Experiments often tune it.
        Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of the worst row;
        delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    strongly_convex : bool, default=False
        Restart every epoch from the means; needs h2 absent.
    step : {"expected", "adaptive"}
        The curvature: as given above, or measured at the snapshots, which also choose batches of
        single rows, epochs and beta, from the given one on; every epoch then starts from the
        snapshot, and that is the output: docs/explain/acc-sadmm.md has the rules. Where it
        cannot, it is "expected"; ``result.info`` says so.

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
    step: str = "expected"

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = ("curvature", "batch_size", "n_inner", "sampling", "returns")
        others = ("warm_start_passes", "strongly_convex")
        adaptive.check_step(self, ("expected", "adaptive"), chosen + others)
        if self.step == "adaptive" and isinstance(self.beta, Continuation):
            raise ValueError("step='adaptive' moves beta itself; give its first value, or 'auto'")

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method needs."""
        super().check(problem)
        if self.strongly_convex:
            check_strongly_convex(problem, self.name)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SVRGState:
        """Return the state before the first epoch."""
        why_not = adaptive.why_not(p) if self.step == "adaptive" else None
        if self.step == "adaptive" and why_not is None:
            local, beta = adaptive.first(p, cast(float | str, self.beta))
            notes = {"step": "adaptive", "returns": self.returns}
            return SVRGState(
                x,
                x,
                lam,
                beta,
                workspace=workspace,
                n_inner=0,
                curvature=0.0,
                x_tilde=x,
                local=local,
                notes=notes,
            )
        s = SVRGState(x, x, lam, x_tilde=x, **self.numbers(p, workspace))
        if why_not is not None:
            s.notes["not_adaptive"] = why_not
        return s

    def epoch(self, problem: Problem, state: SVRGState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        p, s = problem, state
        if s.local is not None:
            with adaptive.may_diverge(s.local):
                self._adaptive_epoch(p, s, s.local, rng)
            return
        runs = self.runs(problem, state.workspace)
        self.prepare(p, s, rng)
        if s.n_epochs == 0:
            s.x_tilde = s.x  # after a warm start
        gradient = snapshot(p, s, runs, s.x_tilde.x2)
        if self.strongly_convex and s.n_epochs > 0:
            s.x, s.dual = s.x_tilde, multiplier_for(p, gradient.full_gradient, s.workspace)
        total = svrg_steps(p, s, gradient, runs.draw(rng, s.n_inner), s.curvature)
        s.x_tilde = total / s.n_inner
        last = s.x_tilde if self.strongly_convex else s.x
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        self.conclude(p, s, last, s.x_tilde, gradient.reads + rows, 1 + 2 * rows)

    def _adaptive_epoch(
        self, p: Problem, s: SVRGState, local: Adaptive, rng: np.random.Generator
    ) -> None:
        """Take one snapshot and run the inner loop that it asks for, from the snapshot."""
        rules = adaptive.Rules(
            longest_cycle=1,  # the snapshot is the mean of all iterates since the last one
            penalty=1.0,
            proven=lambda runs: self.loss_curvature(p, runs, s.workspace),
        )
        epoch = adaptive.next_epoch(p, s, local, s.x_tilde, rules)
        s.curvature, s.x, s.x_tilde = s.notes["curvature"], s.output, s.output
        s.n_inner = epoch.n_inner
        batches = epoch.runs.draw(rng, s.n_inner)
        total = svrg_steps(
            epoch.problem, s, epoch.gradient, batches, s.curvature, workspace=epoch.workspace
        )
        s.x_tilde = total / s.n_inner
        rows = s.n_inner * epoch.runs.batch_size / p.f2.n_terms
        self.conclude(p, s, s.x_tilde, s.x_tilde, rows, 2 * rows)


def svrg_steps(
    p: Problem,
    s: SVRGState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    curvature: float,
    theta: float = 1.0,
    workspace: Workspace | None = None,
) -> Pair:
    """Take steps with v at theta x2 + (1 - theta) x~2; return the sum of the iterates."""
    total, x_tilde = p.zeros(), s.x_tilde.x2
    for some in mini_batches(p, s, gradient, batches, workspace):
        if some.engine == "compiled":
            from ...kernels import loops

            own, runs = some.gradient, some.gradient.runs
            sample = loops.Sample(some.batches, runs.n_runs, runs.row_weight)
            loop = partial(loops.svrg_admm, sample=sample, anchor=own.compiled, mix=theta)
            compiled_steps(some.problem, s, loop, curvature, total, some.workspace)
            continue

        def v(batch: NDArray[np.int64], x2: Array, own: Anchored = some.gradient) -> Array:
            return own.estimate(batch, x2 if theta == 1 else theta * x2 + (1 - theta) * x_tilde)

        reference_steps(p, s, some.batches, v, curvature, total)
    return total


def multiplier_for(problem: Problem, gradient: Array, workspace: Workspace) -> Array:
    """Return the least-squares solution of A2' lam = -gradient."""
    if problem.A2 is None:
        return problem.zeros_dual()
    vectors, values = structure_eigen(problem, workspace)
    positive = values > 1e-10 * values.max(initial=0.0)
    V = vectors[:, positive]
    shape = (-1,) + (1,) * (gradient.ndim - 1)
    solved = V @ ((V.T @ gradient) / values[positive].reshape(shape))
    return -problem.A2.matvec(solved.astype(problem.dtype))


def check_strongly_convex(problem: Problem, name: str) -> None:
    """Raise when the reset of the multiplier is not defined."""
    if problem.h2 is not None:
        raise Unsuitable(
            f"strongly_convex=True of {name} needs h2 absent, because the multiplier is reset "
            "from the gradient of the loss alone; use strongly_convex=False"
        )
    check_eigen(problem)
