"""Stochastic ADMM on mini-batches: the options, first states and loops of all its variants.

One step moves x1, x2 and lam, with v an estimate of the gradient of the loss at x2:

    x1+  = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    x2+  = prox of h2 after a step from x2 along v + A2'(lam + beta (A1 x1 + A2 x2 - b))
    lam+ = lam + beta (A1 x1+ + A2 x2+ - b)

x1 is one prox if A1'A1 = s I and f1 is absent, and linearized otherwise.

* `VarianceReduced`: the error of v vanishes at a solution, x1 moves first, and the weight (inverse
  length) of the x2 step is curvature + beta |A2|^2. The methods differ in v and the curvature.
* `FreshBatches`: v is the gradient of a fresh batch, x2 moves first, and the weight of its k-th
  step is w_k + beta |A2|^2 with w_k growing like sqrt(k), which averages the noise out. The
  methods differ in w_k, in how x2 moves and in the average that they return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.capabilities import fact
from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...forms.dense_step import LARGEST_DENSE, gram_of
from ...operators import squared_norm
from ...problem import Pair, Problem
from ...risk.gradients import Fresh
from ...risk.sampling import Runs
from .. import defaults
from .._base import GRADIENT_CHANGES, PROXES, Solver, State, StateT
from .._steps import Average, Beta, check_returns, first_beta, lengths, next_beta, step2, update_x1

ReducedT = TypeVar("ReducedT", bound="ReducedState")
FreshT = TypeVar("FreshT", bound="FreshState")
Batches = NDArray[np.int64]
Estimate = Callable[[Batches, Array], Array]
"""From a batch and x2 to v."""


@dataclass(frozen=True)
class MiniBatchADMM(Solver[StateT]):
    """What all variants have in common.

    Parameters
    ----------
    beta : float, "auto" or Continuation
        Penalty parameter of the augmented Lagrangian; "auto" estimates it from the data.
    batch_size : int or "auto"
        Rows in a mini-batch; "auto" takes about 2 Lmax / Lf: more rows allow no longer steps.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    sampling : {"blocks", "rows"}
        Batches of consecutive runs of rows, or of single rows as in the papers.
    """

    has_kernel: ClassVar[bool] = True

    beta: Beta = "auto"
    batch_size: int | str = "auto"
    n_inner: int | None = None
    curvature: float | str = "auto"
    sampling: str = "blocks"
    returns: str = "last"

    def __post_init__(self) -> None:
        check_returns(self.returns)

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        size = defaults.batch_size(problem, self.batch_size, workspace)
        return defaults.sampling(problem, self.sampling, size)

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        """Return the default weight of the x2 step that is due to the loss."""
        raise TypeError(f"{type(self).__name__} does not define `loss_curvature`")

    def numbers(self, p: Problem, workspace: Workspace) -> dict[str, Any]:
        """Return what the first state holds besides the point and the multiplier."""
        beta, runs = first_beta(p, self.beta, workspace), self.runs(p, workspace)
        if self.curvature == "auto":
            curvature = self.loss_curvature(p, runs, workspace)
        else:
            curvature = defaults.positive("curvature", self.curvature)
        n_inner = defaults.n_inner(p.f2.n_terms, runs.batch_size, self.n_inner)
        chosen = {"beta": beta, "n_inner": n_inner, "curvature": curvature}
        notes = {**chosen, "batch_size": runs.batch_size, "returns": self.returns}
        return {"workspace": workspace, "notes": notes, **chosen}


# ---------------------------------------------------------------- variance reduction


@dataclass
class ReducedState(State):
    """State of a variance-reduced method; ``mean`` is over all iterates of all epochs."""

    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    mean: Average = field(default_factory=Average.empty)


@dataclass(frozen=True)
class VarianceReduced(MiniBatchADMM[ReducedT]):
    """What the variance-reduced methods have in common.

    Parameters
    ----------
    warm_start_passes : float, default=0
        Passes of STOC-ADMM before the first epoch; 3 in the experiments of the ACC-SADMM paper.
    returns : {"last", "ergodic"}
        Which point is the output: the last iterate, or the uniform average of all inner iterates.
    """

    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {"f2": GRADIENT_CHANGES}

    warm_start_passes: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.warm_start_passes >= 0:
            raise ValueError(
                f"warm_start_passes is {self.warm_start_passes!r}, expected a number >= 0"
            )

    def check(self, problem: Problem) -> None:
        """Raise when the problem lacks something this method or its warm start needs."""
        super().check(problem)
        if self.warm_start_passes > 0:
            self._stoc_admm("auto").check(problem)

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        mean = defaults.lipschitz_mean(problem, workspace)
        return mean + 8 * defaults.batch_curvature(problem, runs, workspace)

    def _stoc_admm(self, beta: float | str) -> Any:
        from .stoc_admm import StocADMM

        return StocADMM(beta=beta, batch_size=self.batch_size, sampling=self.sampling)

    def prepare(self, p: Problem, s: ReducedState, rng: np.random.Generator) -> None:
        """Do what comes before an epoch: the warm start, or the next penalty."""
        if s.n_epochs > 0:
            s.beta = next_beta(self.beta, s.beta)
        elif self.warm_start_passes > 0:
            method = self._stoc_admm(s.beta)
            first = method.start(p, s.x, s.dual, s.workspace)
            batch_size = method.runs(p, s.workspace).batch_size
            first.engine = s.engine
            first.n_inner = max(1, round(self.warm_start_passes * p.f2.n_terms / batch_size))
            method.epoch(p, first, rng)
            s.x, s.dual = first.x, first.dual
            s.n_passes += first.n_passes
            s.n_gradients += first.n_gradients

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
    batches: Batches,
    estimate: Estimate,
    curvature: float,
    total: Pair,
    mean_point: Array | None = None,
) -> None:
    """Take steps on any objects and add the iterates to ``total``: the definition.

    With a mean point the loss's part of the quadratic of the x2 step is centered there.
    """
    beta, r = s.beta, p.constraint
    _, step = lengths(p, curvature, beta, workspace=s.workspace)
    for batch in batches:
        x2, lam = s.x.x2, s.dual
        x1 = update_x1(p, s.x, lam, beta, s.workspace)
        v = estimate(batch, x2)
        center = x2 if mean_point is None else x2 + curvature * step * (mean_point - x2)
        s.x = Pair(x1, step2(p, center, lam + beta * r(Pair(x1, x2)), v, step))
        s.dual = lam + beta * r(s.x)
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


# ---------------------------------------------------------------- fresh batches

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
class FreshBatches(MiniBatchADMM[FreshT]):
    """What the methods without variance reduction have in common.

    Parameters
    ----------
    curvature : float or "auto"
        L in the weights w_k; by default Lf + 4 delta(b) Lmax, safe for any noise that the growth
        does not see. Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of
        the worst row; delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    growth : float or "auto"
        c in the weights w_k; by default the noise of the gradients over the distance to a
        solution, both estimated from the data.
    returns : {"ergodic", "last"}
        Which point is the output: the uniform average of all iterates, or the last one.
    """

    accelerated: ClassVar[bool] = False
    """Whether gradients are taken between the average and x2."""
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {
        "f2": ("gradient", "gradient_rows", "lipschitz_max", "lipschitz_mean")
    }

    growth: float | str = "auto"
    returns: str = "ergodic"

    # ---------------------------------------------------------------- what a method may change

    def capped(self) -> bool:
        """Say whether the weights of the steps are c sqrt(k) with a floor, not a sum."""
        return False

    def weights(self, s: FreshT, k: Array) -> Array:
        """Return w_k, the weights of the steps k = 1, 2, ... due to the loss and its noise."""
        rising = s.growth * np.sqrt(k)
        return np.maximum(s.curvature, rising) if self.capped() else s.curvature + rising

    def plan(self, problem: Problem, s: FreshT) -> Plan:
        """Return the numbers of the next epoch's steps."""
        k = s.n_steps + 1.0 + np.arange(s.n_inner)
        w = self.weights(s, k)
        total = w + s.beta * squared_norm(problem.A2, s.workspace)
        return Plan(1 / np.where(total > 0, total, 1.0), w, 1 / k)

    def move(
        self, p: Problem, s: FreshT, multiplier: Array, gradient: Array, plan: Plan, k: int
    ) -> Array:
        """Return the next x2: by default one linearized prox step from the present x2."""
        return step2(p, s.x.x2, multiplier, gradient, float(plan.steps[k]))

    def extras(self, p: Problem, s: FreshT) -> dict[str, Array]:
        """Return what the compiled loop needs beyond the plan: see ``kernels.loops.Plain``."""
        return {}

    # ---------------------------------------------------------------- the method

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        mean = defaults.lipschitz_mean(problem, workspace)
        return mean + 4 * defaults.batch_curvature(problem, runs, workspace)

    def numbers(self, p: Problem, workspace: Workspace) -> dict[str, Any]:
        """Return what the first state holds besides the point and the multiplier."""
        found, runs = super().numbers(p, workspace), self.runs(p, workspace)
        growth = defaults.growth(p, runs, self.growth, self.capped(), workspace)
        found["notes"]["growth"] = found["growth"] = growth
        return found

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> FreshT:
        """Return the state before the first epoch."""
        first: Any = FreshState(x, x, lam, ergodic=x, mean=x, **self.numbers(p, workspace))
        return first  # type: ignore[no-any-return]

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

    def _reference(self, p: Problem, s: FreshT, runs: Runs, batches: Batches, plan: Plan) -> None:
        """Run the steps on any objects: the definition of the methods."""
        fresh, beta, r = Fresh(p.f2, runs), s.beta, p.constraint
        for k, batch in enumerate(batches):
            share, mean = float(plan.shares[k]), s.mean
            at = share * s.x.x2 + (1 - share) * mean.x2 if self.accelerated else s.x.x2
            x2 = self.move(p, s, s.dual + beta * r(s.x), fresh.estimate(batch, at), plan, k)
            s.x = Pair(update_x1(p, Pair(s.x.x1, x2), s.dual, beta, s.workspace), x2)
            s.dual = s.dual + beta * r(s.x)
            s.mean = mean + share * (s.x - mean)

    def _compiled(self, p: Problem, s: FreshT, runs: Runs, batches: Batches, plan: Plan) -> None:
        """Run the same steps on copies of the state's arrays, compiled."""
        from ...forms.compiled import compiled_view
        from ...kernels import loops

        x, mean, dual = s.x.copy(), s.mean.copy(), s.dual.copy()
        extras = self.extras(p, s)
        steps, weights, shares = (
            a.astype(p.dtype) for a in (plan.steps, plan.weights, plan.shares)
        )
        state = loops.Plain(
            s.beta,
            lengths(p, 0.0, s.beta, workspace=s.workspace)[0],
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
        sample = loops.Sample(batches, runs.n_runs, runs.row_weight)
        loops.stoc_admm(compiled_view(p, s.workspace), sample, state)
        s.x, s.dual, s.mean = x, dual, mean


# ---------------------------------------------------------------- eigenvectors of A2'A2


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
