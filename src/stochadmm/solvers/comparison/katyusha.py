"""Katyusha: accelerated variance-reduced proximal gradient, for problems without a constraint.

    min  h2(x2) + (1/n) sum_i f2_i(x2)

Z. Allen-Zhu, "Katyusha: The First Direct Acceleration of Stochastic Gradient Methods", STOC 2017,
JMLR 18 (2018), arXiv:1603.05953.

Code and paper: x_tilde = x~, the snapshot, and tau_2 = 1/2. One epoch s takes a full gradient
there and n_inner steps

    x  = tau_1 z + tau_2 x~ + (1 - tau_1 - tau_2) y,     v = variance-reduced gradient at x
    z+ = prox_{alpha h2}(z - alpha v),                   alpha = 1 / (tau_1 L)
    y+ = x + tau_1 (z+ - z)

and the next snapshot, which is what the method returns, is the mean of the y+. The paper's
L = 3 Lmax for single rows becomes Lf + delta(b) Lmax / tau_2 for batches, never more. With
tau_1 = 2 / (s + 4) the expected objective gap is O(1/S^2). With strong convexity sigma of h2,
tau_1 = min(sqrt(m sigma / L), 1/2), the y+ have weights (1 + alpha sigma)^k, and the rate is
linear: O((n + sqrt(n L / sigma)) log 1/eps) gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.gradients import Anchored
from ...risk.sampling import Runs
from .. import defaults
from .._base import Solver, State, register


@dataclass
class KatyushaState(State):
    """State of Katyusha; ``x`` is the paper's y."""

    z: Array = field(kw_only=True)
    x_tilde: Array = field(kw_only=True)
    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    """The constant L of the steps."""


@register
@dataclass(frozen=True)
class Katyusha(Solver[KatyushaState]):
    """Katyusha: accelerated SVRG for problems without a constraint (Allen-Zhu, 2017).

    Parameters
    ----------
    batch_size : int or "auto"
        Rows in a mini-batch; "auto" takes about 2 Lmax / Lf: more rows allow no longer steps.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    curvature : float or "auto"
        Smoothness constant L in the step sizes; by default as ``step`` says. Experiments often
        tune it.
    strong_convexity : float, default=0
        Modulus of strong convexity of h2, e.g. the weight of the squares of an elastic net; a
        positive value chooses the weights with the linear rate.
    step : {"expected", "paper"}
        Smoothness constant L in the step sizes: Lf + 2 delta(b) Lmax, or the paper's 3 Lmax.
        Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of the worst row;
        delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    sampling : {"blocks", "rows"}
        Batches of consecutive runs of rows, or of single rows as in the paper.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 0.0, 0.0, -2.0])
    >>> problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.25))
    >>> sa.minimize(problem, sa.solvers.Katyusha(), max_passes=1000).coef.round(3)
    array([ 2.,  0.,  0., -1.])
    """

    name: ClassVar[str] = "katyusha"
    tau2: ClassVar[float] = 0.5
    """The weight of the snapshot."""
    has_kernel: ClassVar[bool] = True
    needs: ClassVar[dict[str, tuple[str, ...]]] = {
        "h2": ("prox",),
        "f2": ("gradient", "gradient_change", "lipschitz_max", "lipschitz_mean"),
    }

    batch_size: int | str = "auto"
    n_inner: int | None = None
    curvature: float | str = "auto"
    strong_convexity: float = 0.0
    step: str = "expected"
    sampling: str = "blocks"

    def __post_init__(self) -> None:
        if self.step not in ("expected", "paper"):
            raise ValueError(f"step is {self.step!r}, expected 'expected' or 'paper'")
        if not (self.strong_convexity >= 0 and math.isfinite(self.strong_convexity)):
            raise ValueError(
                f"strong_convexity is {self.strong_convexity!r}, expected a number >= 0"
            )

    def check(self, problem: Problem) -> None:
        """Raise when the problem has a constraint or lacks something."""
        super().check(problem)
        if problem.constrained:
            raise Unsuitable(
                "katyusha needs a problem without a constraint, but A1 and A2 are given; move a "
                "penalty of the coefficients to h2 (on_coefficients), or use 'acc-sadmm'"
            )

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        b = defaults.batch_size(problem, self.batch_size, workspace)
        return defaults.sampling(problem, self.sampling, b)

    def tau1(self, s: KatyushaState) -> float:
        """Return tau_1 of the next epoch."""
        if self.strong_convexity > 0:
            return min(math.sqrt(s.n_inner * self.strong_convexity / s.curvature), 0.5)
        return 2 / (s.n_epochs + 4)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> KatyushaState:
        """Return the state before the first epoch."""
        runs, f2 = self.runs(p, workspace), p.f2
        n_inner = defaults.n_inner(f2.n_terms, runs.batch_size, self.n_inner)
        if self.curvature != "auto":
            curvature = defaults.positive("curvature", self.curvature)
        elif self.step == "paper":
            curvature = 3 * defaults.lipschitz_max(p, workspace)
        else:
            noise = defaults.batch_curvature(p, runs, workspace) / self.tau2
            curvature = defaults.lipschitz_mean(p, workspace) + noise
        return KatyushaState(
            x,
            x,
            lam,
            1.0,
            workspace=workspace,
            z=x.x2,
            x_tilde=x.x2,
            n_inner=n_inner,
            curvature=curvature or 1.0,
            notes={
                "batch_size": runs.batch_size,
                "n_inner": n_inner,
                "step": self.step,
                "sampling": self.sampling,
            },
        )

    def epoch(self, problem: Problem, state: KatyushaState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        gradient = Anchored.take(p.f2, runs, s.x_tilde, s.cache)
        tau1 = self.tau1(s)
        alpha = 1 / (tau1 * s.curvature)
        growth = 1 + alpha * self.strong_convexity
        weights = growth ** np.arange(1.0 - s.n_inner, 1.0)  # the largest is 1: none overflows
        weights /= weights.sum()
        loop = _compiled if s.engine == "compiled" else _reference
        batches = runs.draw(rng, s.n_inner)
        x2, s.z, s.x_tilde = loop(p, s, gradient, batches, tau1, alpha, weights)

        s.x, s.output, s.cache = Pair(s.x.x1, x2), Pair(s.x.x1, s.x_tilde), None
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        s.n_epochs += 1
        s.n_passes += 1 + rows
        s.n_gradients += 1 + 2 * rows


def _reference(
    p: Problem,
    s: KatyushaState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    tau1: float,
    alpha: float,
    weights: Array,
) -> tuple[Array, Array, Array]:
    """Return y, z and the weighted mean of the y+ after the inner loop, on any objects."""
    y, z, mean, tau2 = s.x.x2, s.z, np.zeros_like(s.x_tilde), Katyusha.tau2
    for batch, weight in zip(batches, weights, strict=True):
        x = tau1 * z + tau2 * s.x_tilde + (1 - tau1 - tau2) * y
        moved = z - alpha * gradient.estimate(batch, x)
        moved = moved if p.h2 is None else p.h2.prox(moved, alpha)
        y, z = x + tau1 * (moved - z), moved
        mean = mean + float(weight) * y
    return y, z, mean


def _compiled(
    p: Problem,
    s: KatyushaState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    tau1: float,
    alpha: float,
    weights: Array,
) -> tuple[Array, Array, Array]:
    """Run the same loop compiled."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    runs = gradient.runs
    y, z, mean = s.x.x2.copy(), s.z.copy(), np.zeros_like(s.x_tilde)
    state = loops.Katyusha(tau1, Katyusha.tau2, alpha, weights.astype(p.dtype), y, z, mean)
    loops.katyusha(
        compiled_view(p, s.workspace),
        loops.Sample(batches, runs.n_runs, runs.row_weight),
        gradient.compiled,
        state,
    )
    return y, z, mean
