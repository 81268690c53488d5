"""Accelerated stochastic ADMM with variance reduction (ACC-SADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

C. Fang, F. Cheng, Z. Lin, "Faster and Non-ergodic O(1/K) Stochastic Alternating Direction Method
of Multipliers", NIPS 2017, with the corrections listed in ``docs/explain/acc-sadmm.md``.

Code and paper: momentum = theta_1, anchor = theta_2, lead = y (the extrapolated point), snapshot =
x~, ahead = lambda~, multiplier = lambda, output = x^, pull = beta / theta_1, n_inner = m.

One epoch: a full gradient at the snapshot, then n_inner steps of

    lambda = lambda~ + (beta theta_2 / theta_1)(A1 x1 + A2 x2 - A x~)
    x1+ = argmin h1 + <grad f1(y1) + A1'(lambda + pull (A1 y1 + A2 y2 - b)), x1>
                 + |x1 - y1|^2 / (2 step1)
    x2+ = argmin h2 + <v + A2'(lambda + pull (A1 x1+ + A2 y2 - b)), x2>
                 + |x2 - y2|^2 / (2 step2)
    lambda~ = lambda + beta (A1 x1+ + A2 x2+ - b)
    y = x+ + (1 - theta_1 - theta_2)(x+ - x)

with v the variance-reduced gradient at y2, step1 = 1 / (L1 + pull |A1|^2) and step2 = 1 /
(curvature + pull |A2|^2). At its end, with sum = x^1 + ... + x^(m-1), and ' for the next epoch:

    x^  = (x + (theta_1 + theta_2) sum) / (1 + (m - 1)(theta_1 + theta_2))
    x~' = ((1 - shift) x + (1 + shift / (m - 1)) sum) / m,   shift = (tau - 1) theta_1' / theta_2
    lambda~ = lambda + beta (1 - tau)(A1 x1 + A2 x2 - b)
    y = (1 - theta_2) x + theta_2 x~' + (theta_1' / theta_1)((1 - theta_1) x
        - (1 - theta_1 - theta_2) x_before - theta_2 x~)

The expected objective gap and infeasibility of x^, an average over the last epoch only, are
O(1/K); without a constraint the other schedule gives O(1/S^2) in epochs S.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ...base.capabilities import Has, has_members, offers
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.validation import is_whole
from ...base.workspace import Workspace
from ...forms.dense_step import check_exact_step, exact_step
from ...problem import Pair, Problem
from ...risk.gradients import Anchored
from ...risk.memory import recomputes
from ...risk.sampling import Runs
from .. import _steps as steps
from .. import defaults
from .._base import Solver, State, register, start_point
from .._from_files import accelerated, has_metric, snapshot, step_metric
from .._memory import STEP, Counts
from .._parts import Part
from .._steps import combined, extrapolated, set_force, slowed_down
from ._schedule import Schedule

METRICS = ("auto", "none", "identity", "data", "hessian")


@dataclass
class AccState(State):
    """State of ACC-SADMM; ``cycle`` counts the epochs since the last restart."""

    lead: Pair = field(kw_only=True)
    snapshot: Pair = field(kw_only=True)
    ahead: Array = field(kw_only=True)
    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    """Weight of the x2 step that is due to the loss."""
    matrix: Array | None = field(default=None, repr=False)
    """Data metric of the x2 step."""
    anchor_x2: Array | None = None
    anchor_dual: Array | None = None
    """Where the present cycle began, for an automatic penalty."""
    cycle: int = 0
    values: list[float] = field(default_factory=list)
    """Objective at the snapshots of this cycle."""


@register
@dataclass(frozen=True)
class AccSADMM(Solver[AccState]):
    """ACC-SADMM: accelerated variance-reduced stochastic ADMM (Fang, Cheng and Lin, 2017).

    Parameters
    ----------
    beta : float or "auto"
        Penalty parameter of the augmented Lagrangian; "auto" estimates it from the data.
    batch_size : int or "auto"
        Rows in a mini-batch; "auto" takes about 2 Lmax / Lf: more rows allow no longer steps.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    step : {"expected", "paper"}
        Inverse of the x2 step size, as far as the loss goes: Lf + delta(b) Lmax / theta_2, or the
        paper's (1 + 1/(b theta_2)) Lmax, which is never smaller. Lf and Lmax are Lipschitz
        constants of the gradients of the mean and of the worst row, delta(b) is 1 / b for rows.
    sampling : {"blocks", "rows"}
        Batches of consecutive runs of rows, or of single rows as in the paper.
    metric : {"auto", "none", "identity", "data", "hessian"}
        The matrix of the x2 step. "none" linearizes the constraint too. The others keep it exact
        through a factorization (h2 absent): a multiple of the identity, the bound on the loss's
        Hessian from a sample of rows, or that Hessian itself, refreshed at restarts. "auto" is
        "data" where that is affordable, else "none".
    kappa : float, default=4
        Weight of a data metric. Proved are about 1.3 + 2 l, with l the largest curvature of a
        batch in that metric, 20 to 35 on data with rare columns; 4 works in practice with the lift
        of ``risk.metrics.lifted``, and restarts keep the best point when it does not.
    restart : {"auto", "never"} or int
        Begin anew from the output and its multiplier when progress slows, never, or every so many
        epochs.
    theta : Schedule, optional
        Other weights than the paper's.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = np.sign(X[:, 0] + 0.1 * rng.standard_normal(200))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(5), on_structure=sa.L1(0.01)
    ... )
    >>> sa.minimize(problem, sa.AccSADMM(), stop=sa.Gap(1e-4)).status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "acc-sadmm"
    automatic_metric: ClassVar[int] = 1000  # columns up to which a dense metric costs little
    has_kernel: ClassVar[bool] = True
    draws_from_files: ClassVar[bool] = True
    needs: ClassVar[dict[str, tuple[str, ...]]] = {
        "h1": ("prox",),
        "h2": ("prox",),
        "f2": ("gradient", "gradient_change", "lipschitz_max", "lipschitz_mean"),
    }

    beta: float | str = "auto"
    batch_size: int | str = "auto"
    n_inner: int | None = None
    step: str = "expected"
    sampling: str = "blocks"
    metric: str = "auto"
    kappa: float = 4.0
    restart: str | int = "auto"
    theta: Schedule | None = None

    def __post_init__(self) -> None:
        if self.step not in ("expected", "paper"):
            raise ValueError(f"step is {self.step!r}, expected 'expected' or 'paper'")
        if self.metric not in METRICS:
            raise ValueError(f"metric is {self.metric!r}, expected one of {', '.join(METRICS)}")
        if not self.kappa > 0:
            raise ValueError(f"kappa is {self.kappa!r}, expected a number > 0")
        whole = is_whole(self.restart) and self.restart >= 1
        if not whole and self.restart not in ("auto", "never"):
            raise ValueError(
                f"restart is {self.restart!r}, expected 'auto', 'never' or an integer >= 1"
            )

    @classmethod
    def paper(cls, beta: float | str = "auto", batch_size: int | str = 100) -> AccSADMM:
        """Return the paper's algorithm to the letter (corrected): rows, its step, no restart."""
        return cls(
            beta=beta,
            batch_size=batch_size,
            step="paper",
            sampling="rows",
            metric="none",
            restart="never",
        )

    # ---------------------------------------------------------------- constants

    def kind(self, problem: Problem) -> str:
        """Return the metric in use."""
        if self.metric != "auto":
            return self.metric
        dense = problem.h2 is None and problem.constrained and offers(problem.A2, Has.SPARSE)
        small = problem.shape2[0] <= self.automatic_metric
        return "data" if dense and small and has_metric(problem) else "none"

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        size = defaults.batch_size(problem, self.batch_size, workspace)
        if self.batch_size == "auto" and self.kind(problem) in ("data", "hessian"):
            # the work of the metric stays below that of the rows, and a batch spans all columns
            size = int(max(size, min(2 * problem.shape2[0], problem.f2.n_terms // 4)))
        return defaults.sampling(problem, self.sampling, size)

    def schedule(self, problem: Problem, n_inner: int) -> Schedule:
        """Return the weights for this problem."""
        if self.theta is not None:
            return self.theta
        return Schedule.constrained(n_inner) if problem.constrained else Schedule.unconstrained()

    def curvature(
        self, problem: Problem, runs: Runs, anchor: float, workspace: Workspace | None = None
    ) -> float:
        """Return the weight of the x2 step that is due to the loss."""
        if self.step == "paper" and anchor != 0:
            largest = defaults.lipschitz_max(problem, workspace)
            return (1 + 1 / (runs.batch_size * anchor)) * largest
        mean = defaults.lipschitz_mean(problem, workspace)
        if anchor == 0:
            return mean
        return mean + defaults.batch_curvature(problem, runs, workspace) / anchor

    def memory(self, problem: Problem) -> int:
        """Return the bytes of x, y, x~, the sum of x, G, the multipliers and the slopes."""
        block1, block2, dual = (
            int(np.prod(s)) for s in (problem.shape1, problem.shape2, problem.shape_dual)
        )
        if recomputes(problem.f2):
            return self._light_memory(problem)
        slopes = 2 * problem.f2.n_terms * int(np.prod(problem.shape2[1:]))
        return problem.dtype.itemsize * (6 * block1 + 8 * block2 + 8 * dual + slopes)

    def _light_memory(self, problem: Problem) -> int:
        """Return the bytes where nothing is kept per row."""
        # x, y, x~, the output and where the cycle began; lambda, lambda~, and that of the output
        kept = Counts(4, 5, 3)
        # y, lambda~ and x are renewed; with the sum, the full gradient and A x~
        steps = kept + Counts(1, 2, 1)
        runs = self.runs(problem)
        n_inner = defaults.n_inner(runs.n_rows, runs.batch_size, self.n_inner)
        drawn = 8 * (n_inner * runs.per_batch + round(runs.batch_size))
        return max(steps.most(problem, STEP), kept.with_pass(problem)) + drawn

    # ---------------------------------------------------------------- the method

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> AccState:
        """Return the state before the first epoch; nothing of the start is changed."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        beta = defaults.beta(problem, self.beta, workspace)
        runs = self.runs(problem, workspace)
        n_inner = defaults.n_inner(problem.f2.n_terms, runs.batch_size, self.n_inner)
        if n_inner < 3 and problem.constrained and self.theta is None:
            raise ValueError(
                f"n_inner is {n_inner}, expected at least 3; use a smaller batch_size"
            )
        kind = self.kind(problem)
        if kind != "none":
            check_exact_step(problem, kind)
        anchor = self.schedule(problem, n_inner).anchor
        weight = (
            self.kappa
            if kind in ("data", "hessian")
            else self.curvature(problem, runs, anchor, workspace)
        )
        notes = {
            "metric": kind,
            "beta": beta,
            "batch_size": runs.batch_size,
            "n_inner": n_inner,
            "step": self.step,
            "sampling": self.sampling,
        }
        return AccState(
            workspace=workspace,
            x=point,
            output=point,
            dual=multiplier,
            beta=beta,
            lead=point,
            snapshot=point,
            ahead=multiplier,
            n_inner=n_inner,
            curvature=weight,
            notes=notes,
        )

    def epoch(self, problem: Problem, state: AccState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        part, s.part = s.part or self._opened(p, s, runs, rng), None
        schedule = self.schedule(p, s.n_inner)
        momentum, anchor = schedule.momentum(s.cycle), schedule.anchor
        now = part.following(s.few, s.engine)
        x, before, total, multiplier = self._inner(p, s, part, now, momentum, anchor)
        if not part.is_last(now):
            s.part = part.after(now, total)
            return

        full = part.gradient.reads
        del part  # with its gradient: what follows needs room
        weight = momentum + anchor
        s.output = combined((1.0, x), (weight, total), over=1 + (s.n_inner - 1) * weight)
        s.dual = set_force(p, x, multiplier, s.beta / momentum)
        self._next_snapshot(p, s, schedule, x, before, total, multiplier)
        s.cache = None
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        s.n_passes += full + rows
        s.n_gradients += 1 + 2 * rows

    def _opened(self, p: Problem, s: AccState, runs: Runs, rng: np.random.Generator) -> Part:
        """Restart where that is due, make the pass at the snapshot and draw the batches."""
        if self._restart_due(s):
            self.begin_again(p, s)
        gradient = snapshot(p, s, runs, s.snapshot.x2)
        s.values.append(self._value(p, s, gradient))
        self._refresh(p, s, gradient, rng)
        return Part(runs.draw(rng, s.n_inner), gradient)

    def _inner(
        self, p: Problem, s: AccState, part: Part, now: slice, momentum: float, anchor: float
    ) -> tuple[Pair, Pair, Pair, Array]:
        """Return the last x, the one before, the sum of all but the last, and the last lambda.

        In an epoch that is left in the middle the sum is of all.
        """
        pull = s.beta / momentum
        step1, step2 = steps.lengths(p, s.curvature, pull, workspace=s.workspace)
        exact = self.kind(p) != "none"
        inverse = exact_step(p, s.curvature, pull, s.matrix, s.workspace) if exact else None
        lengths = (step1, step2, inverse)
        if now == slice(0, len(part.batches)):
            return accelerated(
                _loop, p, s, part.gradient, part.batches, momentum, anchor, *lengths
            )
        return _reference(
            p,
            s,
            part.gradient,
            part.chosen(now),
            momentum,
            anchor,
            *lengths,
            part.total,
            part.is_last(now),
        )

    def _next_snapshot(
        self,
        p: Problem,
        s: AccState,
        schedule: Schedule,
        x: Pair,
        before: Pair,
        total: Pair,
        multiplier: Array,
    ) -> None:
        momentum, following = schedule.momentum(s.cycle), schedule.momentum(s.cycle + 1)
        anchor, shift, m = schedule.anchor, schedule.shift(s.cycle), s.n_inner
        old = s.snapshot
        if m > 1:
            s.snapshot = combined((1 - shift, x), (1 + shift / (m - 1), total), over=m)
        else:
            s.snapshot = x
        del total
        s.ahead = set_force(p, x, multiplier, s.beta * (1 - schedule.tau))
        drift = combined((1 - momentum, x), (-(1 - momentum - anchor), before), (-anchor, old))
        del before, old
        s.lead = combined((1 - anchor, x), (anchor, s.snapshot), (following / momentum, drift))
        s.x = x
        s.cycle += 1
        s.n_epochs += 1

    # ---------------------------------------------------------------- restarts

    def _refresh(
        self, p: Problem, s: AccState, gradient: Anchored, rng: np.random.Generator
    ) -> None:
        """Make the data metric: the bound at first, the local Hessian when a cycle begins."""
        kind = self.kind(p)
        if kind in ("none", "identity") or s.cycle > 0:
            return
        if s.matrix is None or kind == "hessian":
            s.matrix = step_metric(p, gradient, rng, s.matrix is not None, s.workspace)

    def begin_again(self, p: Problem, s: AccState) -> None:
        """Restart the schedule from the output, with the multiplier continued.

        The reset of lambda~ makes the new multiplier estimate equal to the old one. An automatic
        beta moves towards the ratio in which multiplier and A x changed over the cycle.
        """
        if self.beta == "auto" and p.A2 is not None and s.anchor_x2 is not None:
            moved = float(np.linalg.norm(p.A2.matvec(s.output.x2 - s.anchor_x2)))
            pulled = float(np.linalg.norm(s.dual - cast(Array, s.anchor_dual)))
            if moved > 0 and pulled > 0:
                s.beta *= float(np.sqrt(np.clip(pulled / (s.beta * moved), 0.2, 5.0)))
        if self.beta == "auto":
            s.anchor_x2, s.anchor_dual = s.output.x2, s.dual
        first = self.schedule(p, s.n_inner).momentum(0)
        s.x = s.lead = s.snapshot = s.output
        s.ahead = set_force(p, s.output, s.dual, -s.beta * (1 - first) / first)
        s.cycle = 0
        s.values = []

    def _restart_due(self, s: AccState) -> bool:
        if s.cycle == 0 or self.restart == "never":
            return False
        return slowed_down(s.values) if self.restart == "auto" else s.cycle >= int(self.restart)

    @staticmethod
    def _value(p: Problem, s: AccState, gradient: Anchored) -> float:
        """Return F at the snapshot: at the feasible point of a model, else as an exact penalty."""
        at: Any = gradient.at
        if not has_members(at, "value"):
            return float("nan")
        if p.is_model:
            return float(at.value) + p.penalty(p.feasible(s.snapshot))
        weight = 2.0 * float(np.linalg.norm(s.dual))
        charge = weight * float(np.linalg.norm(p.constraint(s.snapshot)))
        return float(at.value) + p.penalty(p.inside(s.snapshot)) + charge


def _loop(p: Problem, s: AccState, *more: Any) -> tuple[Pair, Pair, Pair, Array]:
    return (_compiled if s.engine == "compiled" else _reference)(p, s, *more)


def _reference(
    p: Problem,
    s: AccState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    momentum: float,
    anchor: float,
    step1: float,
    step2: float,
    inverse: Array | None,
    earlier: Pair | None = None,
    ends: bool = True,
) -> tuple[Pair, Pair, Pair, Array]:
    """Run the inner loop on any objects: the definition of the method.

    The state goes along, and arrays are let go as soon as they are not needed any more.
    ``earlier`` is the sum of earlier steps, which is added to; unless the epoch ends here, so is
    the last point.
    """
    before, total, multiplier = s.x, p.zeros() if earlier is None else earlier, s.ahead
    pull, at_snapshot = s.beta / momentum, p.product(s.snapshot)

    for k, batch in enumerate(batches):
        y, before = s.lead, s.x
        multiplier = p.product(s.x)
        multiplier -= at_snapshot
        multiplier *= s.beta * anchor / momentum
        multiplier += s.ahead
        s.ahead = multiplier
        x1 = steps.step1(p, y.x1, set_force(p, y, multiplier, pull), step1)

        # x2 sees the new x1: this is what makes it ADMM and not a joint prox step
        force = set_force(p, Pair(x1, y.x2), multiplier, pull)
        g2 = gradient.estimate(batch, y.x2)
        if p.A2 is not None:
            g2 += p.A2.rmatvec(force)
        del force
        x2 = steps.prox2(p, y.x2, g2, step2) if inverse is None else y.x2 - inverse @ g2
        del g2

        s.x = Pair(x1, x2)
        s.ahead = set_force(p, s.x, multiplier, s.beta)
        del y, x1, x2
        s.lead = extrapolated(s.x, before, 1 - momentum - anchor)
        if k < len(batches) - 1 or not ends:
            total.x1[...] += s.x.x1
            total.x2[...] += s.x.x2
    return s.x, before, total, multiplier


def _compiled(
    p: Problem,
    s: AccState,
    gradient: Anchored,
    batches: NDArray[np.int64],
    momentum: float,
    anchor: float,
    step1: float,
    step2: float,
    inverse: Array | None,
) -> tuple[Pair, Pair, Pair, Array]:
    """Run the same loop on copies of the state's arrays, compiled."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    x, y, before, total = s.x.copy(), s.lead.copy(), s.x.copy(), p.zeros()
    multiplier, ahead, runs = s.ahead.copy(), p.zeros_dual(), gradient.runs
    state = loops.AccSADMM(
        s.beta,
        momentum,
        anchor,
        step1,
        step2,
        inverse,
        p.product(s.snapshot),
        x.x1,
        x.x2,
        y.x1,
        y.x2,
        before.x1,
        before.x2,
        total.x1,
        total.x2,
        multiplier,
        ahead,
    )
    loops.acc_sadmm(
        compiled_view(p, s.workspace),
        loops.Sample(batches, runs.n_runs, runs.row_weight),
        gradient.compiled,
        state,
    )
    return x, before, total, multiplier
