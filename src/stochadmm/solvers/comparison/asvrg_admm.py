"""Accelerated variance-reduced stochastic ADMM (ASVRG-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

Y. Liu, F. Shang, J. Cheng, "Accelerated Variance Reduced Stochastic ADMM", AAAI 2017; Y. Liu
et al., IEEE TPAMI 2021.

Code and paper: x_tilde = x~, theta = theta (``momentum`` chooses the first), x.x2 = z (the
sequence that moves), 1 / curvature = eta, lam = dual = beta lambda.

One epoch: a full gradient at x~, then n_inner steps of

    x1+ = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 z - b|^2
    z+ = prox of h2 after the step 1 / (theta curvature + beta |A2|^2) from z along
         v + A2'(lam + beta (A1 x1+ + A2 z - b))
    lam+ = lam + beta (A1 x1+ + A2 z+ - b)

with v the variance-reduced gradient at theta z + (1 - theta) x~2. At its end

    x~ = (1 - theta) x~ + theta mean of (x1, z)
    theta+ = (sqrt(theta^4 + 4 theta^2) - theta^2) / 2

Returned is x~. The curvature Lf + delta(b) Lmax / (1 - theta) pays for the batch's
noise; the article has alpha Lmax with 1 - theta_0 = delta(b) / (alpha - 1), the same with Lmax for
Lf. Its O(1 / S^2) in epochs S is for bounded sets, with the constraint weighed by that bound. With
``strongly_convex`` theta stays and z and the multiplier are reset as in SVRG-ADMM, which gives
linear convergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.sampling import Runs
from .. import defaults
from .._base import register
from .._mini_batches import snapshot
from ._stochastic import VarianceReduced
from .svrg_admm import SVRGState, check_strongly_convex, multiplier_for, svrg_steps


@dataclass
class ASVRGState(SVRGState):
    """State of ASVRG-ADMM."""

    theta: float = field(kw_only=True)
    noise: float = field(kw_only=True)
    """delta(b) Lmax, what the batches' noise adds to the curvature at theta = 0."""


@register
@dataclass(frozen=True)
class ASVRGADMM(VarianceReduced[ASVRGState]):
    """ASVRG-ADMM: SVRG-ADMM with momentum (Liu, Shang and Cheng, 2017).

    Parameters
    ----------
    curvature : float or "auto"
        The x2 step size is ``1 / (theta curvature + beta |A2|^2)``; by default
        Lf + delta(b) Lmax / (1 - theta).
        Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of the worst row;
        delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    returns : {"last", "ergodic"}
        Which point is the output: the last snapshot, or the mean of all snapshots.
    momentum : float or "auto"
        theta of the first epoch, between 0 and 1; by default between 1/2 and 9/10, so that the
        noise adds no more to the curvature than Lf where that is possible.
    strongly_convex : bool, default=False
        Restart every epoch from the snapshot, with theta as it is; needs h2 absent.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.25))
    >>> sa.minimize(problem, sa.solvers.ASVRGADMM(), stop=sa.Gap(1e-4)).coef.round(1)
    array([2., 0., 0., 0.])
    """

    name: ClassVar[str] = "asvrg-admm"
    draws_from_files: ClassVar[bool] = True

    momentum: float | str = "auto"
    strongly_convex: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.momentum != "auto" and not 0 < float(self.momentum) < 1:
            raise ValueError(
                f"momentum is {self.momentum!r}, expected 'auto' or a number in (0, 1)"
            )

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method needs."""
        super().check(problem)
        if self.strongly_convex:
            check_strongly_convex(problem, self.name)

    def first_theta(self, problem: Problem, noise: float, workspace: Workspace) -> float:
        """Return theta of the first epoch."""
        if self.momentum != "auto":
            return float(self.momentum)
        mean = max(defaults.lipschitz_mean(problem, workspace), 1e-300)
        return 1 - min(max(noise / mean, 0.1), 0.5)

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        """Return the weight of the x2 step in the first epoch that is due to the loss."""
        noise = defaults.batch_curvature(problem, runs, workspace)
        mean = defaults.lipschitz_mean(problem, workspace)
        return mean + noise / (1 - self.first_theta(problem, noise, workspace))

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> ASVRGState:
        """Return the state before the first epoch."""
        noise = defaults.batch_curvature(p, self.runs(p, workspace), workspace)
        theta, numbers = self.first_theta(p, noise, workspace), self.numbers(p, workspace)
        numbers["notes"]["momentum"] = theta
        return ASVRGState(x, x, lam, x_tilde=x, theta=theta, noise=noise, **numbers)

    def epoch(self, problem: Problem, state: ASVRGState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        self.prepare(p, s, rng)
        if s.n_epochs == 0:
            s.x_tilde = s.x  # after a warm start
        gradient = snapshot(p, s, runs, s.x_tilde.x2)
        if self.strongly_convex and s.n_epochs > 0:
            s.x, s.dual = s.x_tilde, multiplier_for(p, gradient.full_gradient, s.workspace)
        theta, batches = s.theta, runs.draw(rng, s.n_inner)
        if self.curvature == "auto":
            s.curvature = defaults.lipschitz_mean(p, s.workspace) + s.noise / (1 - theta)
        total = svrg_steps(p, s, gradient, batches, theta * s.curvature, theta)
        s.x_tilde = (1 - theta) * s.x_tilde + theta / s.n_inner * total
        if not self.strongly_convex:
            s.theta = (math.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        self.conclude(p, s, s.x_tilde, s.x_tilde, gradient.reads + rows, 1 + 2 * rows)
