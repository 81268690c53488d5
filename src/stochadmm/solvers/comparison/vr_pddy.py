"""Variance-reduced PDDY: primal-dual splitting with loopless SVRG gradients.

    min  h1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b,    A1' A1 = s I

A. Salim, L. Condat, K. Mishchenko, P. Richtarik, "Dualize, Split, Randomize: Toward Fast Nonsmooth
Optimization Algorithms", J. Optim. Theory Appl. 195 (2022), arXiv:2004.02635.

Code and paper: step = gamma, sigma = sigma, dual = lambda, z = the point before the prox of h2,
refresh = p. H is h1 seen through the constraint, H(v) = min h1(x1) s.t. A1 x1 + v = b. One step:

    x       = prox_{gamma h2}(z),                     v = variance-reduced gradient at x
    lambda+ = prox_{sigma H*}(lambda + sigma A2 (2 x - z - gamma (v + A2' lambda)))
    z+   = x - gamma (v + A2' lambda+)

and with probability p the anchor of v moves to x. Without h2 this is PDDY = PAPC; with h2 it is
the order of PD3O, which takes gradients in the domain of h2 only. There is no penalty parameter.

With gamma sigma |A2|^2 <= 1 and gamma < 2 / (Lf + 8 delta(b) Lmax) the distance of (z, lambda)
to a solution, plus a multiple of the anchor's Bregman distance, falls in expectation with constant
steps: monotonicity of the two prox steps gives

    |z+ - z*|^2 <= |z - z*|^2 - 2 gamma <v - v*, x - x*> + gamma^2 |v - v*|^2

with or without h2. The mean of the x has O(1/K), strong convexity gives a linear rate; returned is
the last x, usually far better than the mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...operators import squared_norm
from ...problem import Pair, Problem
from ...risk.gradients import Loopless
from ...risk.sampling import Runs
from .. import defaults
from .._base import GRADIENT_CHANGES, PROXES, Solver, State, register
from .._steps import (
    Average,
    check_exact_x1,
    check_positive,
    check_returns,
    dual_step,
    pull_back,
    tightness,
)

STEPS = ("proved", "practical")
"""Names of step lengths."""


@dataclass
class PDDYState(State):
    """State of VR-PDDY; ``beta`` is sigma."""

    z: Array = field(kw_only=True)
    step: float = field(kw_only=True)
    n_inner: int = field(kw_only=True)
    mean: Average = field(kw_only=True)
    gradient: Loopless | None = field(default=None, repr=False)


@register
@dataclass(frozen=True)
class VRPDDY(Solver[PDDYState]):
    """VR-PDDY: variance-reduced primal-dual splitting, no penalty parameter (Salim et al., 2022).

    Parameters
    ----------
    batch_size : int or "auto"
        Rows in a mini-batch; "auto" takes about 2 Lmax / Lf: more rows allow no longer steps.
    step : {"proved", "practical"} or float
        Primal step size: 1 / (Lf + 6 delta(b) Lmax), inside the proved range; 1 / (Lf + 2 delta(b)
        Lmax), beyond it but usually stable and faster; or a number.
    sigma : "auto" or float
        Dual step size; by default ``1 / (step |A2|^2)``, the largest allowed.
    refresh : float, optional
        Probability that the anchor moves after a step; by default b / n, one pass per pass.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    sampling : {"blocks", "rows"}
        Batches of consecutive runs of rows, or of single rows.
    returns : {"last", "ergodic"}
        Which point is returned: the last, or the mean of all.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> sa.minimize(problem, sa.solvers.VRPDDY(), max_passes=1000).coef.round(3)
    array([ 2.9,  2.9,  0. , -0.8])
    """

    name: ClassVar[str] = "vr-pddy"
    has_kernel: ClassVar[bool] = True
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {"f2": GRADIENT_CHANGES}

    batch_size: int | str = "auto"
    step: float | str = "proved"
    sigma: float | str = "auto"
    refresh: float | None = None
    n_inner: int | None = None
    sampling: str = "blocks"
    returns: str = "last"

    def __post_init__(self) -> None:
        check_returns(self.returns)
        check_positive("step", self.step, *STEPS)
        check_positive("sigma", self.sigma, "auto")
        if self.refresh is not None and not 0 < self.refresh <= 1:
            raise ValueError(f"refresh is {self.refresh!r}, expected None or a number in (0, 1]")

    def check(self, problem: Problem) -> None:
        """Raise when the multiplier's step is not a prox or a part lacks something."""
        super().check(problem)
        check_exact_x1(problem, self.name)

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        b = defaults.batch_size(problem, self.batch_size, workspace)
        return defaults.sampling(problem, self.sampling, b)

    def length(self, problem: Problem, runs: Runs, workspace: Workspace | None = None) -> float:
        """Return the primal step gamma."""
        if self.step not in STEPS:
            return float(self.step)
        noise = defaults.batch_curvature(problem, runs, workspace)
        mean = defaults.lipschitz_mean(problem, workspace)
        curvature = mean + (6 if self.step == "proved" else 2) * noise
        return 1 / (curvature or 1.0)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> PDDYState:
        """Return the state before the first epoch."""
        runs = self.runs(p, workspace)
        step = self.length(p, runs, workspace)
        if self.sigma == "auto":
            a2 = squared_norm(p.A2, workspace)
            sigma = 1 / (step * a2) if a2 > 0 else 1.0
        else:
            sigma = float(self.sigma)
        n_inner = defaults.n_inner(p.f2.n_terms, runs.batch_size, self.n_inner)
        return PDDYState(
            x,
            x,
            lam,
            sigma,
            workspace=workspace,
            z=x.x2,
            step=step,
            n_inner=n_inner,
            mean=Average.empty(),
            notes={
                "step": step,
                "sigma": sigma,
                "batch_size": runs.batch_size,
                "n_inner": n_inner,
                "sampling": self.sampling,
            },
        )

    def epoch(self, problem: Problem, state: PDDYState, rng: np.random.Generator) -> None:
        """Run ``n_inner`` steps; the anchor moves where the coins say so."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        n = p.f2.n_terms
        passes = s.n_inner * runs.batch_size / n
        gradients = 2 * passes
        if s.gradient is None:
            chance = runs.batch_size / n if self.refresh is None else self.refresh
            s.gradient = Loopless.take(p.f2, runs, s.x.x2, min(chance, 1.0))
            if p.h2 is not None:  # the z that belongs to x if x is a solution
                back = s.gradient.anchored.full_gradient + pull_back(p, s.dual)
                s.z = s.x.x2 - s.step * back
            passes, gradients = passes + 1, gradients + 1

        loop = _compiled if s.engine == "compiled" else _reference
        total = p.zeros()
        batches, spans = runs.draw(rng, s.n_inner), s.gradient.spans(rng, s.n_inner)
        for k, span in enumerate(spans):
            if k > 0:
                s.gradient = s.gradient.moved(s.x.x2)
                passes, gradients = passes + 1, gradients + 1
            if span.stop > span.start:
                s.x, s.z, s.dual, total = loop(p, s, s.gradient, batches[span], total)

        last = Pair(s.x.x1, _prox2(p, s.z, s.step))
        s.mean = s.mean.add_sum(total, s.n_inner)
        s.ergodic = s.mean.value
        s.output = last if self.returns == "last" else s.mean.point
        s.n_epochs += 1
        s.n_passes += passes
        s.n_gradients += gradients


def _prox2(p: Problem, z: Array, step: float) -> Array:
    return z if p.h2 is None else p.h2.prox(z, step)


def _reference(
    p: Problem, s: PDDYState, gradient: Loopless, batches: NDArray[np.int64], total: Pair
) -> tuple[Pair, Array, Array, Pair]:
    """Return the last x, z, lambda, and the sum with all x added, on any objects."""
    x, z, multiplier = s.x, s.z, s.dual
    back = pull_back(p, multiplier)
    for batch in batches:
        x2 = _prox2(p, z, s.step)
        derivative = gradient.estimate(batch, x2)
        target = 2 * x2 - z - s.step * (derivative + back)
        x1, multiplier = dual_step(p, target, multiplier, s.beta, s.workspace)
        back = pull_back(p, multiplier)
        z = x2 - s.step * (derivative + back)
        x = Pair(x1, x2)
        total = total + x
    return x, z, multiplier, total


def _compiled(
    p: Problem, s: PDDYState, gradient: Loopless, batches: NDArray[np.int64], total: Pair
) -> tuple[Pair, Array, Array, Pair]:
    """Run the same loop compiled."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    at, runs = gradient.anchored, gradient.anchored.runs
    x, z, multiplier, total = s.x.copy(), s.z.copy(), s.dual.copy(), total.copy()
    state = loops.PDDY(
        s.step,
        s.beta,
        tightness(p, s.workspace) or 1.0,
        x.x1,
        x.x2,
        z,
        multiplier,
        total.x1,
        total.x2,
    )
    loops.vr_pddy(
        compiled_view(p, s.workspace),
        loops.Sample(batches, runs.n_runs, runs.row_weight),
        at.compiled,
        state,
    )
    return x, z, multiplier, total
