"""The skeleton of stochastic ADMM with variance reduction.

SVRG-, SAG- and ASVRG-ADMM repeat, with v an estimate whose error vanishes at a solution,

    x1+ = argmin h1 + <lambda, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    x2+ = prox of h2 after a step from a center along v + A2'(lambda + beta (A1 x1+ + A2 x2 - b))
    lambda+ = lambda + beta (A1 x1+ + A2 x2+ - b)

where x1 is one prox if A1'A1 = s I and f1 is absent, and linearized otherwise. The step of x2 is
1 / (curvature + beta |A2|^2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.memory import recomputes
from ...risk.sampling import Runs
from .. import defaults
from .._base import Solver, State, start_point
from .._memory import STEP, Counts
from .._steps import (
    Average,
    Beta,
    check_returns,
    first_beta,
    lengths,
    n_outputs,
    next_beta,
    prox2,
    set_force,
    sizes,
    update_x1,
)
from ._plain import structure_eigen
from .stoc_admm import StocADMM, warm_start

ReducedT = TypeVar("ReducedT", bound="ReducedState")
Estimate = Callable[[NDArray[np.int64], Array], Array]
"""From a batch and x2 to a gradient, which the caller may overwrite."""


@dataclass
class ReducedState(State):
    """State of a variance-reduced method; ``mean`` is over all iterates of all epochs."""

    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    mean: Average = field(default_factory=Average.empty)


@dataclass(frozen=True)
class Reduced(Solver[ReducedT]):
    """What the variance-reduced methods have in common; a method adds its estimate."""

    has_kernel: ClassVar[bool] = True
    light: ClassVar[bool] = True
    """Whether there is a form that keeps nothing per row; it averages only what it returns."""
    needs: ClassVar[dict[str, tuple[str, ...]]] = {
        "h1": ("prox",),
        "h2": ("prox",),
        "f2": ("gradient", "gradient_change", "lipschitz_max", "lipschitz_mean"),
    }

    beta: Beta = "auto"
    batch_size: int | str = "auto"
    n_inner: int | None = None
    curvature: float | str = "auto"
    sampling: str = "blocks"
    warm_start_passes: float = 0.0
    returns: str = "last"

    def __post_init__(self) -> None:
        check_returns(self.returns)
        if not self.warm_start_passes >= 0:
            raise ValueError(
                f"warm_start_passes is {self.warm_start_passes!r}, expected a number >= 0"
            )

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method or its warm start needs."""
        super().check(problem)
        if self.warm_start_passes > 0:
            StocADMM().check(problem)

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        size = defaults.batch_size(problem, self.batch_size, workspace)
        return defaults.sampling(problem, self.sampling, size)

    @property
    def n_points(self) -> int:
        """Points that are kept from epoch to epoch: x, the snapshot, the last output."""
        return 3

    def memory(self, problem: Problem) -> int:
        """Return the bytes of x, averages, multiplier, work arrays, drawn rows, row numbers."""
        first, second, dual = sizes(problem)
        runs = self.runs(problem)
        n_inner = defaults.n_inner(runs.n_rows, runs.batch_size, self.n_inner)
        drawn = 8 * (n_inner * runs.per_batch + round(runs.batch_size))
        if self.light and recomputes(problem.f2):
            kept = Counts(self.n_points, self.n_points, 1)  # and the multiplier
            # and the sum of the iterates, the full gradient
            steps = kept + Counts(1, 2)
            return max(steps.most(problem, STEP), kept.with_pass(problem)) + drawn
        numbers = 5 * first + 9 * second + 4 * dual + self.per_rows(problem)
        return problem.dtype.itemsize * numbers + drawn

    def per_rows(self, problem: Problem) -> int:
        """Return the numbers kept for the rows: by default a snapshot's predictions and slopes."""
        return 2 * problem.f2.n_terms * n_outputs(problem)

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        """Return the default weight of the x2 step that is due to the loss."""
        mean = defaults.lipschitz_mean(problem, workspace)
        return mean + 8 * defaults.batch_curvature(problem, runs, workspace)

    def first_state(
        self, problem: Problem, x: Any, dual: Any, workspace: Workspace | None
    ) -> dict[str, Any]:
        """Return the fields of the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        beta, runs = first_beta(problem, self.beta, workspace), self.runs(problem, workspace)
        n_inner = defaults.n_inner(problem.f2.n_terms, runs.batch_size, self.n_inner)
        if self.curvature == "auto":
            curvature = self.loss_curvature(problem, runs, workspace)
        else:
            curvature = defaults.positive("curvature", self.curvature)
        notes = {
            "beta": beta,
            "batch_size": runs.batch_size,
            "n_inner": n_inner,
            "curvature": curvature,
            "returns": self.returns,
        }
        return {
            "workspace": workspace,
            "x": point,
            "output": point,
            "dual": multiplier,
            "beta": beta,
            "n_inner": n_inner,
            "curvature": curvature,
            "notes": notes,
        }

    def prepare(self, p: Problem, s: ReducedState, rng: np.random.Generator) -> None:
        """Do what comes before an epoch: the warm start, or the next penalty."""
        if s.n_epochs > 0:
            s.beta = next_beta(self.beta, s.beta)
        elif self.warm_start_passes > 0:
            first = StocADMM(beta=s.beta, batch_size=self.batch_size, sampling=self.sampling)
            warm_start(p, s, rng, self.warm_start_passes, first)

    def conclude(
        self,
        p: Problem,
        s: ReducedState,
        runs: Runs,
        point: Pair,
        mean: Pair,
        full: float = 1.0,
        per_row: float = 2.0,
        reads: float | None = None,
    ) -> None:
        """Count an epoch: full gradients, gradients per row; ``mean`` is that of its iterates.

        ``reads`` are the passes that full gradients took, where they are not as many.
        """
        if self.returns == "ergodic" or not (self.light and recomputes(p.f2)):
            s.mean = s.mean.add(mean, s.n_inner)
        s.ergodic = s.mean.value
        s.output = point if s.ergodic is None or self.returns == "last" else s.ergodic
        s.cache = None
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        s.n_epochs += 1
        s.n_passes += (full if reads is None else reads) + rows
        s.n_gradients += full + per_row * rows


def reference_loop(
    p: Problem,
    s: ReducedState,
    batches: NDArray[np.int64],
    estimate: Estimate,
    curvature: float,
    stale: Array | None = None,
    total: Pair | None = None,
) -> Pair:
    """Run an epoch's steps on any objects and return the sum of the iterates: the definition.

    Where ``stale`` is given, the loss's part of the quadratic of the x2 step is centered there;
    ``total`` is the sum of earlier steps, which is added to in place.
    """
    total = p.zeros() if total is None else total
    _, step = lengths(p, curvature, s.beta, workspace=s.workspace)
    for batch in batches:
        x1 = update_x1(p, s.x, s.dual, s.beta, s.workspace)
        force = set_force(p, Pair(x1, s.x.x2), s.dual, s.beta)
        gradient = estimate(batch, s.x.x2)
        if p.A2 is not None:
            gradient += p.A2.rmatvec(force)
        del force
        center = s.x.x2
        if stale is not None:
            center = center + curvature * step * (stale - center)
        s.x = Pair(x1, prox2(p, center, gradient, step))
        del gradient, center
        s.dual = set_force(p, s.x, s.dual, s.beta)
        total.x1[...] += s.x.x1
        total.x2[...] += s.x.x2
    return total


def compiled_loop(
    p: Problem, s: ReducedState, curvature: float, loop: Callable[..., None]
) -> Pair:
    """Run the same steps by a compiled loop, which has its own arguments already."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    x, dual, total = s.x.copy(), s.dual.copy(), p.zeros()
    steps = lengths(p, curvature, s.beta, workspace=s.workspace)
    loop(
        compiled_view(p, s.workspace),
        state=loops.Blocks(s.beta, *steps, x.x1, x.x2, dual, total.x1, total.x2),
    )
    s.x, s.dual = x, dual
    return total


def multiplier_for(problem: Problem, gradient: Array, workspace: Workspace) -> Array:
    """Return the least-squares solution of A2' dual = -gradient."""
    if problem.A2 is None:
        return problem.zeros_dual()
    vectors, values = structure_eigen(problem, workspace)
    kept = values > 1e-10 * values.max(initial=0.0)
    V = vectors[:, kept]
    solved = V @ ((V.T @ gradient) / values[kept].reshape((-1,) + (1,) * (gradient.ndim - 1)))
    return -problem.A2.matvec(solved.astype(problem.dtype))
