"""Stochastic ADMM without variance reduction: what STOC-, OPG-, RDA-ADMM and OPT-SADMM share.

With g the mean gradient of a fresh batch, a step is

    x2+ = the method's own step along g + A2'(lam + beta (A1 x1 + A2 x2 - b))
    x1+ = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 x2+ - b|^2
    lam+ = lam + beta (A1 x1+ + A2 x2+ - b)
    mean+ = mean + share (x+ - mean)

where x1 is one prox if A1'A1 = s I and f1 is absent, and linearized otherwise. The k-th x2 step
has the weight (inverse step) w_k + beta |A2|^2 with w_k growing like sqrt(k), which averages the
noise out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...forms.dense_step import LARGEST_DENSE, gram_of
from ...operators import squared_norm
from ...problem import Pair, Problem
from ...risk.gradients import Fresh
from ...risk.sampling import Runs
from .. import defaults
from .._base import Solver, State, start_point
from .._steps import Beta, check_returns, first_beta, lengths, next_beta, step2, update_x1

FreshT = TypeVar("FreshT", bound="FreshState")
PAST = ("origin", "mean_gradient", "mean_multiplier")  # what dual averaging adds to the state


@dataclass
class FreshState(State):
    """State of a stochastic method; ``mean`` is the average that its step maintains."""

    mean: Pair = field(kw_only=True)
    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    growth: float = field(kw_only=True)
    n_steps: int = 0


@dataclass(frozen=True)
class Plan:
    """Numbers of the coming steps: length of x2's, its weight from the loss, share of the mean."""

    steps: Array
    weights: Array
    shares: Array


@dataclass(frozen=True)
class FreshBatches(Solver[FreshT]):
    """What the stochastic methods have in common; a method says how x2 moves and how long."""

    has_kernel: ClassVar[bool] = True
    state_type: ClassVar[type[Any]] = FreshState
    accelerated: ClassVar[bool] = False
    """Whether gradients are taken between the average and x2."""
    needs: ClassVar[dict[str, tuple[str, ...]]] = {
        "h1": ("prox",),
        "h2": ("prox",),
        "f2": ("gradient", "gradient_rows", "lipschitz_max", "lipschitz_mean"),
    }

    beta: Beta = "auto"
    batch_size: int | str = "auto"
    n_inner: int | None = None
    growth: float | str = "auto"
    curvature: float | str = "auto"
    sampling: str = "blocks"
    returns: str = "ergodic"

    def __post_init__(self) -> None:
        check_returns(self.returns)

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        size = defaults.batch_size(problem, self.batch_size, workspace)
        return defaults.sampling(problem, self.sampling, size)

    # ---------------------------------------------------------------- what a method may change

    def capped(self) -> bool:
        """Say whether the weights of the steps are c sqrt(k) with a floor, not a sum."""
        return False

    def weights(self, s: FreshT, k: Array) -> Array:
        """Return the weights of the steps k = 1, 2, ... that are due to the loss and its noise."""
        rising = s.growth * np.sqrt(k)
        return np.maximum(s.curvature, rising) if self.capped() else s.curvature + rising

    def plan(self, problem: Problem, s: FreshT) -> Plan:
        """Return the numbers of the next epoch's steps."""
        k = s.n_steps + 1.0 + np.arange(s.n_inner)
        weights = self.weights(s, k)
        return Plan(1 / self._with_constraint(problem, s, weights), weights, 1 / k)

    @staticmethod
    def _with_constraint(problem: Problem, s: FreshT, weights: Array) -> Array:
        total = weights + s.beta * squared_norm(problem.A2, s.workspace)
        return np.where(total > 0, total, 1.0)

    def move(
        self, p: Problem, s: FreshT, multiplier: Array, gradient: Array, plan: Plan, k: int
    ) -> Array:
        """Return the next x2: by default one linearized prox step from the present x2."""
        return step2(p, s.x.x2, multiplier, gradient, float(plan.steps[k]))

    def extras(self, p: Problem, s: FreshT) -> dict[str, Array]:
        """Return what the compiled loop needs beyond the plan: see ``kernels.loops.Plain``."""
        return {}

    # ---------------------------------------------------------------- the method

    def first_state(
        self, problem: Problem, x: Any, dual: Any, workspace: Workspace | None
    ) -> dict[str, Any]:
        """Return the fields of the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        beta, runs = first_beta(problem, self.beta, workspace), self.runs(problem, workspace)
        n_inner = defaults.n_inner(problem.f2.n_terms, runs.batch_size, self.n_inner)
        if self.curvature == "auto":
            mean = defaults.lipschitz_mean(problem, workspace)
            curvature = mean + 4 * defaults.batch_curvature(problem, runs, workspace)
        else:
            curvature = defaults.positive("curvature", self.curvature)
        growth = defaults.growth(problem, runs, self.growth, self.capped(), workspace)
        notes = {
            "beta": beta,
            "batch_size": runs.batch_size,
            "n_inner": n_inner,
            "curvature": curvature,
            "growth": growth,
            "returns": self.returns,
        }
        return {
            "workspace": workspace,
            "x": point,
            "output": point,
            "ergodic": point,
            "mean": point,
            "dual": multiplier,
            "beta": beta,
            "n_inner": n_inner,
            "curvature": curvature,
            "growth": growth,
            "notes": notes,
        }

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> FreshT:
        """Return the state before the first epoch; nothing of the start is changed."""
        first: FreshT = self.state_type(**self.first_state(problem, x, dual, workspace))
        return first

    def epoch(self, problem: Problem, state: FreshT, rng: np.random.Generator) -> None:
        """Take ``n_inner`` steps, two passes over the data by default."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        if s.n_epochs > 0:
            s.beta = next_beta(self.beta, s.beta)
        steps = self._compiled if s.engine == "compiled" else self._reference
        steps(p, s, runs, runs.draw(rng, s.n_inner), self.plan(p, s))
        s.ergodic = s.mean
        s.output = s.mean if self.returns == "ergodic" else s.x
        passes = s.n_inner * runs.batch_size / p.f2.n_terms
        s.n_steps += s.n_inner
        s.n_epochs += 1
        s.n_passes += passes
        s.n_gradients += passes

    def _reference(
        self, p: Problem, s: FreshT, runs: Runs, batches: NDArray[np.int64], plan: Plan
    ) -> None:
        """Run the steps on any objects: the definition of the methods."""
        fresh, beta, residual = Fresh(p.f2, runs), s.beta, p.constraint
        for k, batch in enumerate(batches):
            share, mean = float(plan.shares[k]), s.mean
            point = share * s.x.x2 + (1 - share) * mean.x2 if self.accelerated else s.x.x2
            g = fresh.estimate(batch, point)
            x2 = self.move(p, s, s.dual + beta * residual(s.x), g, plan, k)
            s.x = Pair(update_x1(p, Pair(s.x.x1, x2), s.dual, beta, s.workspace), x2)
            s.dual = s.dual + beta * residual(s.x)
            s.mean = mean + share * (s.x - mean)

    def _compiled(
        self, p: Problem, s: FreshT, runs: Runs, batches: NDArray[np.int64], plan: Plan
    ) -> None:
        """Run the same steps on copies of the state's arrays, compiled."""
        from ...forms.compiled import compiled_view
        from ...kernels import loops

        x, mean, dual = s.x.copy(), s.mean.copy(), s.dual.copy()
        extras = self.extras(p, s)
        step1, _ = lengths(p, 0.0, s.beta, workspace=s.workspace)
        steps, weights, shares = (
            a.astype(p.dtype) for a in (plan.steps, plan.weights, plan.shares)
        )
        state = loops.Plain(
            s.beta,
            step1,
            self.accelerated,
            PAST[0] in extras,
            steps,
            weights,
            shares,
            extras.get("rotation"),
            extras.get("turned"),
            extras.get("spectrum"),
            x.x1,
            x.x2,
            dual,
            mean.x1,
            mean.x2,
            *(extras.get(name) for name in PAST),
        )
        loops.stoc_admm(
            compiled_view(p, s.workspace),
            loops.Sample(batches, runs.n_runs, runs.row_weight),
            state,
        )
        s.x, s.dual, s.mean = x, dual, mean


def check_eigen(problem: Problem) -> None:
    """Raise where the eigenvectors of A2'A2 would need too large a matrix."""
    d = problem.shape2[0]
    if d > LARGEST_DENSE:
        raise Unsuitable(
            f"this form needs the eigenvectors of a {d} x {d} matrix; use the linearized form "
            f"above {LARGEST_DENSE} columns"
        )


def structure_eigen(problem: Problem, workspace: Workspace) -> tuple[Array, Array]:
    """Return eigenvectors (columns) and eigenvalues of A2'A2, computed once for a structure."""
    return workspace.shared.once(_eigen, problem.A2, problem.shape2[0])


def _eigen(A2: Any, d: int) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(gram_of(A2, d))
    return np.ascontiguousarray(vectors), np.maximum(values, 0.0)
