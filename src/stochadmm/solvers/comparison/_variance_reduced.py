"""Stochastic ADMM with variance reduction: what SVRG-, SAG- and ASVRG-ADMM share.

With v an estimate of the gradient whose error vanishes at a solution, a step is

    x1+ = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    x2+ = prox of h2 after a step from a center along v + A2'(lam + beta (A1 x1+ + A2 x2 - b))
    lam+ = lam + beta (A1 x1+ + A2 x2+ - b)

where x1 is one prox if A1'A1 = s I and f1 is absent, and linearized otherwise. The step of x2 is
1 / (curvature + beta |A2|^2). The methods differ in v, the curvature and the center.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.capabilities import fact
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.sampling import Runs
from .. import defaults
from .._base import Solver, State, start_point
from .._steps import Average, Beta, check_returns, first_beta, lengths, next_beta, step2, update_x1
from .stoc_admm import StocADMM, warm_start

ReducedT = TypeVar("ReducedT", bound="ReducedState")
Estimate = Callable[[NDArray[np.int64], Array], Array]
"""From a batch and x2 to v."""


@dataclass
class ReducedState(State):
    """State of a variance-reduced method; ``mean`` is over all iterates of all epochs."""

    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    mean: Average = field(default_factory=Average.empty)


@dataclass(frozen=True)
class VarianceReduced(Solver[ReducedT]):
    """Parameters, first state and bookkeeping of the variance-reduced methods."""

    has_kernel: ClassVar[bool] = True
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
        numbers = {
            "beta": beta,
            "n_inner": defaults.n_inner(problem.f2.n_terms, runs.batch_size, self.n_inner),
            "curvature": (
                self.loss_curvature(problem, runs, workspace)
                if self.curvature == "auto"
                else defaults.positive("curvature", self.curvature)
            ),
        }
        notes = {**numbers, "batch_size": runs.batch_size, "returns": self.returns}
        points = {"x": point, "output": point, "dual": multiplier}
        return {"workspace": workspace, **points, **numbers, "notes": notes}

    def prepare(self, p: Problem, s: ReducedState, rng: np.random.Generator) -> None:
        """Do what comes before an epoch: the warm start, or the next penalty."""
        if s.n_epochs > 0:
            s.beta = next_beta(self.beta, s.beta)
        elif self.warm_start_passes > 0:
            first = StocADMM(beta=s.beta, batch_size=self.batch_size, sampling=self.sampling)
            warm_start(p, s, rng, self.warm_start_passes, first)

    def conclude(
        self, p: Problem, s: ReducedState, point: Pair, mean: Pair, reads: float, gradients: float
    ) -> None:
        """End an epoch at a point; ``mean`` is that of its iterates."""
        if self.returns == "ergodic" or fact(p.f2, "keeps_rows"):  # else one array less
            s.mean = s.mean.add(mean, s.n_inner)
        s.ergodic = s.mean.value
        s.output = point if s.ergodic is None or self.returns == "last" else s.ergodic
        s.cache = None
        s.n_epochs += 1
        s.n_passes += reads
        s.n_gradients += gradients


def reference_steps(
    p: Problem,
    s: ReducedState,
    batches: NDArray[np.int64],
    estimate: Estimate,
    curvature: float,
    total: Pair,
    mean_point: Array | None = None,
) -> None:
    """Take steps on any objects and add the iterates to ``total``: the definition.

    With a mean point the loss's part of the quadratic of the x2 step is centered there.
    """
    beta, residual = s.beta, p.constraint
    _, step = lengths(p, curvature, beta, workspace=s.workspace)
    for batch in batches:
        x2, lam = s.x.x2, s.dual
        x1 = update_x1(p, s.x, lam, beta, s.workspace)
        multiplier = lam + beta * residual(Pair(x1, x2))
        v = estimate(batch, x2)
        center = x2 if mean_point is None else x2 + curvature * step * (mean_point - x2)
        s.x = Pair(x1, step2(p, center, multiplier, v, step))
        s.dual = lam + beta * residual(s.x)
        total.add(s.x)


def compiled_steps(
    p: Problem,
    s: ReducedState,
    loop: Callable[..., None],
    curvature: float,
    total: Pair,
    workspace: Workspace,
) -> None:
    """Take the same steps by a compiled loop, which has its own arguments already."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    x, dual = s.x.copy(), s.dual.copy()
    steps = lengths(p, curvature, s.beta, workspace=s.workspace)
    loop(
        compiled_view(p, workspace),
        state=loops.Blocks(s.beta, *steps, x.x1, x.x2, dual, total.x1, total.x2),
    )
    s.x, s.dual = x, dual
