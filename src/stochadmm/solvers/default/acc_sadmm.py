"""Accelerated stochastic ADMM with variance reduction (ACC-SADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

C. Fang, F. Cheng, Z. Lin, "Faster and Non-ergodic O(1/K) Stochastic Alternating Direction Method
of Multipliers", NIPS 2017, arXiv 1704.06793. `stochadmm.paper` has the algorithm on one page;
``docs/explain/acc-sadmm.md`` lists what is corrected and what is added here.

Symbols and equation numbers are the paper's: y the extrapolated point, x_tilde the snapshot, lam
and lam_tilde the multipliers, theta1 and theta2 the weights, m steps in an epoch, output = x^.
The weight of the x2 step is eta2 = curvature + (beta / theta1) |A2|^2, its length 1 / eta2.

The expected objective gap and infeasibility of x^, an average over the last epoch only, are
O(1/K); without a constraint the other schedule gives O(1/S^2) in epochs S.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from ...base.capabilities import Has, has_members, offers
from ...base.protocols import Array
from ...base.validation import is_whole
from ...base.workspace import Workspace
from ...forms.dense_step import check_exact_step, exact_step
from ...problem import Pair, Problem
from ...risk.gradients import Anchored
from ...risk.sampling import Runs
from .. import _adaptive as adaptive
from .. import defaults
from .._adaptive import THETA2, Adaptive
from .._base import GRADIENT_CHANGES, PROXES, Solver, State, register
from .._mini_batches import MiniBatches, has_metric, mini_batches, snapshot, step_metric
from .._steps import lengths, slowed_down, step1, step2

STEPS = ("expected", "paper", "adaptive")
METRICS = ("auto", "none", "identity", "data", "hessian")


@dataclass(frozen=True)
class Schedule:
    """The weights of ACC-SADMM: theta_1(s) of epoch s, and theta_2.

    The paper's are the default; ``Schedule.unconstrained()`` is for problems without a constraint,
    where dividing by theta_1^2 instead of theta_1 gives the faster rate.

    Parameters
    ----------
    tau, c, scale : float
        theta_1(s) = scale / (c + tau s).
    theta2 : float, optional
        The weight of the snapshot; by default (m - tau) / (tau (m - 1)) with m steps per epoch.

    Examples
    --------
    >>> import stochadmm as sa
    >>> sa.Schedule().theta(0, m=19)[0], sa.Schedule().theta(1, m=19)[0]
    (0.5, 0.25)
    >>> [sa.Schedule.unconstrained().theta(s, m=19) for s in (0, 1, 4)]
    [(0.5, 0.5), (0.4, 0.5), (0.25, 0.5)]
    """

    tau: float = 2.0
    c: float = 2.0
    theta2: float | None = None
    scale: float = 1.0

    @classmethod
    def unconstrained(cls) -> Schedule:
        """theta_1(s) = 2 / (s + 4), theta_2 = 1/2; with tau = 1 the snapshot is the average."""
        return cls(tau=1.0, c=4.0, theta2=0.5, scale=2.0)

    def theta(self, s: int, m: int) -> tuple[float, float]:
        """Return theta_1 and theta_2 of epoch s, which has m steps."""
        theta2 = self.theta2
        if theta2 is None:
            theta2 = (m - self.tau) / (self.tau * (m - 1))
        return self.scale / (self.c + self.tau * s), theta2


@dataclass
class AccState(State):
    """State of ACC-SADMM between two epochs."""

    y: Pair = field(kw_only=True)
    x_tilde: Pair = field(kw_only=True)
    lam_tilde: Array = field(kw_only=True)
    s: int = 0
    """Epochs since the last restart."""
    n_inner: int = field(kw_only=True)
    curvature: float = field(kw_only=True)
    """Weight of the x2 step that is due to the loss."""
    matrix: Array | None = field(default=None, repr=False)
    """Data metric of the x2 step."""
    first_x2: Array | None = None
    first_dual: Array | None = None
    """Where the last restart began, for an automatic penalty."""
    values: list[float] = field(default_factory=list)
    """Objective at the snapshots since the last restart."""
    local: Adaptive | None = None
    """What ``step="adaptive"`` knows."""


@dataclass(frozen=True)
class Constants:
    """What is the same in all steps of an epoch."""

    beta: float
    theta1: float
    theta2: float
    b_tilde: Array
    """A x_tilde."""
    step1: float
    step2: float
    inverse: Array | None
    """(curvature M + (beta / theta1) A2'A2)^-1 where the x2 step keeps the constraint exact."""


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
        Steps per epoch, the paper's m; by default two passes over the data.
    curvature : float, optional
        The x2 step size is ``1 / (curvature + (beta / theta_1) |A2|^2)``; by default as ``step``
        says. Experiments often tune it. Not with the metrics "data" and "hessian".
    step : {"expected", "paper", "adaptive"}
        The curvature: Lf + delta(b) Lmax / theta_2, or the paper's (1 + 1/(b theta_2)) L2, which
        is never smaller. Lf and Lmax are Lipschitz constants of the gradients of the mean and of
        the worst row, delta(b) is 1 / b for rows. "adaptive" measures it at the snapshots, and
        chooses batches of single rows, epochs, restarts and beta with it, from the given one on;
        docs/explain/acc-sadmm.md has the rules. Where it cannot, it is "expected";
        ``result.info`` says so.
    L2 : float, optional
        The constant of ``step="paper"``; Lmax by default.
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
    has_kernel: ClassVar[bool] = True
    draws_from_files: ClassVar[bool] = True
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {"f2": GRADIENT_CHANGES}

    beta: float | str = "auto"
    batch_size: int | str = "auto"
    n_inner: int | None = None
    curvature: float | None = None
    step: str = "expected"
    L2: float | None = None
    sampling: str = "blocks"
    metric: str = "auto"
    kappa: float = 4.0
    restart: str | int = "auto"
    theta: Schedule | None = None

    def __post_init__(self) -> None:
        adaptive.check_step(
            self,
            STEPS,
            ("curvature", "batch_size", "n_inner", "sampling", "metric", "restart", "theta"),
        )
        if self.L2 is not None and self.step != "paper":
            raise ValueError("L2 is the constant of step='paper'; give step='paper', or curvature")
        if self.curvature is not None and (self.metric in ("data", "hessian") or self.L2):
            raise ValueError(
                "curvature is the whole weight of the loss; leave out L2, and use kappa for the "
                "metrics 'data' and 'hessian'"
            )
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
    def paper(
        cls,
        beta: float | str = "auto",
        batch_size: int | str = 100,
        m: int | None = None,
        L2: float | None = None,
        tau: float = 2.0,
        c: float = 2.0,
    ) -> AccSADMM:
        """Return the paper's algorithm, corrected: rows, its step, no metric, no restart.

        Parameters
        ----------
        beta : float or "auto"
            Penalty parameter.
        batch_size : int, default=100
            Rows in a mini-batch.
        m : int, optional
            Steps per epoch; by default the integer nearest to 2 n / batch_size, at least 3.
        L2 : float, optional
            Lipschitz constant of the gradients of single rows, by default that of the data. The
            experiments of the paper tune it.
        tau, c : float, default=2
            theta_1(s) = 1 / (c + tau s) in epoch s.

        Returns
        -------
        AccSADMM
            The method; ``sa.paper.acc_sadmm`` gives the same outputs.
        """
        return cls(
            beta=beta,
            batch_size=batch_size,
            n_inner=m,
            step="paper",
            L2=L2,
            sampling="rows",
            metric="none",
            restart="never",
            theta=None if (tau, c) == (2, 2) else Schedule(tau, c),
        )

    # ---------------------------------------------------------------- constants

    def kind(self, problem: Problem) -> str:
        """Return the metric in use."""
        if self.metric != "auto":
            return self.metric
        if self.curvature is not None or self.adapts(problem):
            return "none"
        dense = problem.h2 is None and problem.constrained and offers(problem.A2, Has.SPARSE)
        small = problem.shape2[0] <= 1000  # a dense metric costs little
        return "data" if dense and small and has_metric(problem) else "none"

    def adapts(self, problem: Problem) -> bool:
        """Say whether steps follow the snapshots."""
        return self.step == "adaptive" and adaptive.why_not(problem) is None

    def runs(self, problem: Problem, workspace: Workspace | None = None) -> Runs:
        """Return how batches are drawn."""
        size = defaults.batch_size(problem, self.batch_size, workspace)
        if self.batch_size == "auto" and self.kind(problem) in ("data", "hessian"):
            # the work of the metric stays below that of the rows, and a batch spans all columns
            size = int(max(size, min(2 * problem.shape2[0], problem.f2.n_terms // 4)))
        return defaults.sampling(problem, self.sampling, size)

    def schedule(self, problem: Problem) -> Schedule:
        """Return the weights for this problem."""
        if self.theta is not None:
            return self.theta
        return Schedule() if problem.constrained else Schedule.unconstrained()

    def weight(
        self, problem: Problem, runs: Runs, theta2: float, workspace: Workspace | None = None
    ) -> float:
        """Return the curvature: the weight of the x2 step that is due to the loss."""
        if self.curvature is not None:
            return defaults.positive("curvature", self.curvature)
        if self.step == "paper" and theta2 != 0:
            if self.L2 is None:
                L2 = defaults.lipschitz_max(problem, workspace)  # 0 where f2 is constant
            else:
                L2 = defaults.positive("L2", self.L2)
            return (1 + 1 / (runs.batch_size * theta2)) * L2
        mean = defaults.lipschitz_mean(problem, workspace)
        if theta2 == 0:
            return mean
        return mean + defaults.batch_curvature(problem, runs, workspace) / theta2

    # ---------------------------------------------------------------- the method

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> AccState:
        """Return the state before the first epoch."""
        local: Adaptive | None = None
        notes: dict[str, Any] = {"metric": "none", "step": "adaptive"}
        m, weight = 0, 0.0
        if self.adapts(p):
            local, beta = adaptive.first(p, self.beta)
        else:
            beta, runs = defaults.beta(p, self.beta, workspace), self.runs(p, workspace)
            m = defaults.n_inner(p.f2.n_terms, runs.batch_size, self.n_inner)
            schedule, kind = self.schedule(p), self.kind(p)
            if schedule.theta2 is None and m <= max(2.0, schedule.tau):
                raise ValueError(
                    f"n_inner is {m}, expected at least 3 and more than tau; use a smaller "
                    "batch_size"
                )
            if kind != "none":
                check_exact_step(p, kind)
            weight = self.kappa
            if kind not in ("data", "hessian"):
                weight = self.weight(p, runs, schedule.theta(0, m)[1], workspace)
            notes = {
                "metric": kind,
                "beta": beta,
                "batch_size": runs.batch_size,
                "n_inner": m,
                "curvature": weight,
                "step": "expected" if self.step == "adaptive" else self.step,
                "sampling": self.sampling,
            }
            if self.step == "adaptive":
                notes["not_adaptive"] = adaptive.why_not(p)
        return AccState(
            x,
            x,
            lam,
            beta,
            workspace=workspace,
            y=x,
            x_tilde=x,
            lam_tilde=lam,
            n_inner=m,
            curvature=weight,
            local=local,
            notes=notes,
        )

    def epoch(self, problem: Problem, state: AccState, rng: np.random.Generator) -> None:
        """Take one snapshot and run its inner loop."""
        with adaptive.may_diverge(state.local):
            self._epoch(problem, state, rng)

    def _epoch(self, problem: Problem, state: AccState, rng: np.random.Generator) -> None:
        schedule, tau, n = self.schedule(problem), self.schedule(problem).tau, problem.f2.n_terms
        if state.local is None:
            p, runs, workspace = problem, self.runs(problem, state.workspace), state.workspace
            if self.restart == "auto":
                due = slowed_down(state.values)
            else:
                due = self.restart != "never" and state.s >= int(self.restart)
            if state.s > 0 and due:
                self.begin_again(p, state)
            # full gradient at the snapshot
            gradient = snapshot(p, state, runs, state.x_tilde.x2)
            state.values.append(self._value(p, state, gradient))
            kind, local = self.kind(p), state.matrix is not None
            if state.s == 0 and (kind == "hessian" or (kind == "data" and not local)):
                # the bound at first, the Hessian at the snapshot after restarts
                state.matrix = step_metric(p, gradient, rng, local, state.workspace)
            state.n_passes += gradient.reads
            state.n_gradients += 1
        else:
            p, runs, gradient, workspace = self._adapted(problem, state, state.local)
        s, m, beta = state.s, state.n_inner, state.beta
        theta1, theta2 = schedule.theta(s, m)
        theta1_next, _ = schedule.theta(s + 1, m)

        # m steps
        batches = mini_batches(p, state, gradient, runs.draw(rng, m), workspace)
        x_old, total, lam = self._inner_loop(p, state, batches, theta1, theta2)
        x, x_tilde_old = state.x, state.x_tilde

        # output: x^ and lambda^ of (16)
        w = theta1 + theta2
        state.output = (x + w * total) / (1 + (m - 1) * w)
        state.dual = lam + beta / theta1 * p.constraint(x)

        # the next epoch: snapshot (12), multiplier (11), extrapolated point
        q = (tau - 1) * theta1_next / theta2 if theta2 else 0.0  # theta2 = 0 is LADM-NE
        state.x_tilde = ((1 - q) * x + (1 + q / max(m - 1, 1)) * total) / m
        state.lam_tilde = lam + beta * (1 - tau) * p.constraint(x)
        drift = (1 - theta1) * x - (1 - theta1 - theta2) * x_old - theta2 * x_tilde_old
        state.y = (1 - theta2) * x + theta2 * state.x_tilde + theta1_next / theta1 * drift
        state.s, state.cache = s + 1, None

        rows = m * runs.batch_size / n
        state.n_epochs += 1
        state.n_passes += rows
        state.n_gradients += 2 * rows

    def _adapted(
        self, problem: Problem, state: AccState, local: Adaptive
    ) -> tuple[Problem, Runs, Anchored, Workspace]:
        """Return what ``step="adaptive"`` makes the next epoch from, and begin a cycle if due."""
        rules = adaptive.Rules(
            longest_cycle=8,
            penalty=1 / self.schedule(problem).theta(0, 3)[0],
            proven=lambda runs: self.weight(problem, runs, THETA2, state.workspace),
        )
        epoch = adaptive.next_epoch(problem, state, local, state.x_tilde, rules)
        state.curvature = state.notes["curvature"]
        if epoch.begins:
            state.n_inner = epoch.n_inner
            self._begin(problem, state)
        return epoch.problem, epoch.runs, epoch.gradient, epoch.workspace

    def _inner_loop(
        self,
        p: Problem,
        state: AccState,
        batches: Iterator[MiniBatches],
        theta1: float,
        theta2: float,
    ) -> tuple[Pair, Pair, Array]:
        """Move x, y and lam_tilde of the state; return x^(m-1), x^1 + ... + x^(m-1) and lam."""
        pull, workspace = state.beta / theta1, state.workspace
        length1, length2 = lengths(p, state.curvature, pull, workspace=workspace)
        inverse = None
        if self.kind(p) != "none":
            inverse = exact_step(p, state.curvature, pull, state.matrix, workspace)
        b_tilde = p.product(state.x_tilde)
        fixed = Constants(state.beta, theta1, theta2, b_tilde, length1, length2, inverse)
        total = p.zeros()
        for k, some in enumerate(batches):
            if k > 0:  # after a window of files, whose last x was not that of the epoch
                total.add(state.x)
            take = _compiled if some.engine == "compiled" else _reference
            x_old, lam = take(p, some, fixed, state, total)
        return x_old, total, lam

    # ---------------------------------------------------------------- restarts

    def begin_again(self, p: Problem, state: AccState) -> None:
        """Restart the schedule from the output, with the multiplier continued.

        The reset of lambda~ makes the new multiplier estimate equal to the old one. An automatic
        beta moves towards the ratio in which multiplier and A x changed since the last restart.
        """
        x, dual = state.output, state.dual
        if self.beta == "auto" and p.A2 is not None and state.first_x2 is not None:
            moved = float(np.linalg.norm(p.A2.matvec(x.x2 - state.first_x2)))
            turned = float(np.linalg.norm(dual - cast(Array, state.first_dual)))
            if moved > 0 and turned > 0:
                state.beta *= float(np.sqrt(np.clip(turned / (state.beta * moved), 0.2, 5.0)))
        if self.beta == "auto":
            state.first_x2, state.first_dual = x.x2, dual
        self._begin(p, state)

    def _begin(self, p: Problem, state: AccState) -> None:
        """Begin the schedule at the output and its multiplier."""
        theta1, _ = self.schedule(p).theta(0, state.n_inner)
        x = state.x = state.y = state.x_tilde = state.output
        state.lam_tilde = state.dual - state.beta * (1 - theta1) / theta1 * p.constraint(x)
        state.s, state.values = 0, []

    @staticmethod
    def _value(p: Problem, state: AccState, gradient: Anchored) -> float:
        """Return F at the snapshot: at the feasible point of a model, else as an exact penalty."""
        at: Any = gradient.at
        if not has_members(at, "value"):
            return float("nan")
        if p.is_model:
            return float(at.value) + p.penalty(p.feasible(state.x_tilde))
        weight = 2.0 * float(np.linalg.norm(state.dual))
        missed = weight * float(np.linalg.norm(p.constraint(state.x_tilde)))
        return float(at.value) + p.penalty(p.inside(state.x_tilde)) + missed


def _reference(
    p: Problem, some: MiniBatches, fixed: Constants, state: AccState, total: Pair
) -> tuple[Pair, Array]:
    """Take the steps on any objects and add to ``total``: the definition of the method."""
    beta, theta1, theta2, residual = fixed.beta, fixed.theta1, fixed.theta2, p.constraint
    for k, batch in enumerate(some.batches):
        x, y = state.x, state.y
        lam = state.lam_tilde + beta * theta2 / theta1 * (p.product(x) - fixed.b_tilde)  # (9)

        multiplier = lam + beta / theta1 * residual(y)
        x1 = step1(p, y.x1, multiplier, fixed.step1)  # (6)

        # x2 sees the new x1: this is what makes it ADMM and not a joint prox step
        multiplier = lam + beta / theta1 * residual(Pair(x1, y.x2))
        v = some.gradient.estimate(batch, y.x2)  # (5)
        if fixed.inverse is None:
            x2 = step2(p, y.x2, multiplier, v, fixed.step2)  # (7)
        else:
            x2 = y.x2 - fixed.inverse @ (v if p.A2 is None else v + p.A2.rmatvec(multiplier))

        x_old, state.x = x, Pair(x1, x2)
        state.lam_tilde = lam + beta * residual(state.x)  # (10)
        state.y = state.x + (1 - theta1 - theta2) * (state.x - x_old)  # (8)
        if k < len(some.batches) - 1:
            total.add(state.x)
    return x_old, lam


def _compiled(
    p: Problem, some: MiniBatches, fixed: Constants, state: AccState, total: Pair
) -> tuple[Pair, Array]:
    """Take the same steps compiled, on copies of the arrays."""
    from ...forms.compiled import compiled_view
    from ...kernels import loops

    runs = some.gradient.runs
    x, y, x_old = state.x.copy(), state.y.copy(), state.x.copy()
    lam, lam_tilde = state.lam_tilde.copy(), p.zeros_dual()
    arrays = loops.AccSADMM(
        fixed.beta,
        fixed.theta1,
        fixed.theta2,
        fixed.step1,
        fixed.step2,
        fixed.inverse,
        fixed.b_tilde,
        x.x1,
        x.x2,
        y.x1,
        y.x2,
        x_old.x1,
        x_old.x2,
        total.x1,
        total.x2,
        lam,
        lam_tilde,
    )
    loops.acc_sadmm(
        compiled_view(some.problem, some.workspace),
        loops.Sample(some.batches, runs.n_runs, runs.row_weight),
        some.gradient.compiled,
        arrays,
    )
    state.x, state.y, state.lam_tilde = x, y, lam_tilde
    return x_old, lam
