"""``step="adaptive"`` of ACC- and SVRG-ADMM: steps, batches, penalty and restarts from snapshots.

Before every epoch, with F(x) = f2(x) + h2(x) + h1(A x) and x_tilde the new snapshot:

1. The snapshot: values z = X x_tilde, F, derivatives and gradient over the N rows in use, in one
   read. N = max(n / 8, 20 d) at first and 2^1.5 N after every two epochs, until it is n.
2. A search that reads nothing. Where F has risen, the new snapshot is the first point of
   x_old + t (x_tilde - x_old), t = 1/2, 1/4, ..., 0, with F no higher than at x_old, found from
   the values at both ends, and gamma is doubled (64 at most). Otherwise gamma is
   max(1/2, 0.85 gamma).
3. Curvature, from w_i = l''(z_i) on a sample of rows, along u, which one step of the power method
   turns to the steepest direction of X' diag(w) X at each snapshot:

       Lf_loc = mean w_i (a_i'u)^2,    Lm = sum w_i^2 |a_i|^2 (a_i'u)^2 / sum w_i (a_i'u)^2
       curvature = min(gamma (1.1 Lf_loc + 0.3 Lm / (b theta2)), the proven weight)

4. A restart from (A x_tilde, x_tilde) with the multiplier kept if F has risen, if its decrease is
   less than 0.4 of the one before, after so many epochs, or if beta is 10 times off. It is
   balanced there: multiplied by the square root of |lam - lam_0| / (|A x_tilde - A x_0| beta),
   (.)_0 of the last restart.

The weight is below the proven one in general, so an epoch may raise F; the search undoes that at
the snapshot. After three rises in a row the proven weight is used for good, on all rows, and
epochs become twice as long, up to 16 times, where F rises still. The bound of the theorem holds
for each cycle between two restarts where the weight is the proven one: after one epoch of m steps
F - F* is expected to be at most about half of what it was, plus O(1 / m). For the rest there is
no rate, only F at snapshots of all rows that does not rise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from .._newton import backtrack, rounding
from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..data import Rows
from ..operators import squared_norm
from ..problem import Pair, Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.evaluation import Evaluation
from ..risk.finite_sum import as_finite_sum, some_rows
from ..risk.gradients import Anchored
from ..risk.sampling import Runs, evenly
from . import defaults
from ._base import State

THETA2 = 0.5
"""The weight of the snapshot: (m - 2) / (2 (m - 1)) in ACC-SADMM."""


@dataclass
class Adaptive:
    """What is known from one snapshot to the next; arrays are replaced, never changed."""

    n_rows: int
    """N, the rows in use."""
    choose_beta: bool
    """Whether the first snapshot chooses the first beta."""
    age: int = 0
    """Snapshots since N has changed."""
    cycle: int = 0
    """Epochs since the last restart."""
    gamma: float = 1.0
    rises: int = 0
    """Of F, in a row."""
    proven: bool = False
    """Whether the proven weight is used for good."""
    batch_size: int = 4
    longer: int = 1
    """How many times longer than N / (2 b) steps an epoch is."""
    value: float = np.inf
    """F at the last snapshot."""
    ceiling: float = np.inf
    """F at the first snapshot of the run: an epoch that ends above it has diverged."""
    decrease: float = 0.0
    """Of F in the epoch before."""
    last: tuple[Pair, Array] | None = None
    """The last snapshot over these rows, and its predictions."""
    u: Array | None = None
    first_x: Pair | None = None
    first_dual: Array | None = None
    """Where the last restart began."""

    def copy(self) -> Adaptive:
        """Return another one, with the same arrays."""
        return copy(self)


@dataclass(frozen=True)
class Rules:
    """What differs between the methods."""

    longest_cycle: int
    """Epochs until a restart."""
    penalty: float
    """The penalty of the first epoch of a cycle over beta."""
    proven: Callable[[Runs], float]
    """Weight of the x2 step for which there is a proof."""


@dataclass(frozen=True)
class Epoch:
    """What an epoch is made from."""

    problem: Problem
    """Over the rows in use."""
    runs: Runs
    gradient: Anchored
    n_inner: int
    """m."""
    begins: bool
    """Whether a cycle begins: from the snapshot in ``state.output`` and its multiplier."""
    workspace: Workspace


def check_step(solver: Any, steps: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    """Raise where a step has no such name, or where what it chooses was given beside it."""
    if solver.step not in steps:
        raise ValueError(f"step is {solver.step!r}, expected one of {', '.join(steps)}")
    if solver.step == "adaptive":
        given = [name for name in chosen if getattr(solver, name) != getattr(type(solver), name)]
        if given:
            raise ValueError(f"step='adaptive' chooses {given[0]} itself; leave it out")


def why_not(problem: Problem) -> str | None:
    """Say why steps cannot adapt to a problem, None where they can."""
    f2 = loss_of_rows(problem.f2, Has.CURVATURE)
    if f2 is None or f2.n_outputs is not None:
        return "it needs rows in memory and a loss of one output with a second derivative"
    if not f2.keeps_rows:
        return "there is no memory for numbers of every row"
    if not problem.is_model:
        return "x1 does not follow from x2"
    bounded = np.isfinite(f2.loss.curvature_bound)
    return None if bounded else "the gradients are not Lipschitz"


def may_diverge(local: Adaptive | None) -> AbstractContextManager[None]:
    """Return a context in which an epoch may overflow: the search at its end undoes it."""
    how: Literal["ignore"] | None = None if local is None else "ignore"
    return np.errstate(over=how, invalid=how)


def first(problem: Problem, beta: float | str) -> tuple[Adaptive, float]:
    """Return what is known before the first snapshot, and the first beta as asked."""
    n, d, auto = problem.f2.n_terms, problem.shape2[0], beta == "auto"
    known = Adaptive(_rows_in_use(max(n // 8, 20 * d), n), choose_beta=auto)
    return known, 1.0 if auto else defaults.positive("beta", beta)


def next_epoch(p: Problem, s: State, local: Adaptive, x_tilde: Pair, rules: Rules) -> Epoch:
    """Take the snapshot at x_tilde and choose rows, weight, batch and penalty of the next epoch.

    Sets ``s.beta``, ``s.output`` and ``s.dual`` at restarts, the notes and the reads of the state.
    """
    n = p.f2.n_terms
    begins = local.first_x is None  # the start of the run
    if local.n_rows < n and (local.age == 2 or local.proven):
        local.n_rows = n if local.proven else _rows_in_use(int(2.83 * local.n_rows), n)
        local.age, begins = 0, True
    part, workspace, share = p, s.workspace, local.n_rows / n
    if local.n_rows < n:
        part, workspace = s.workspace.latest(_with_some_rows, p, local.n_rows)
        s.n_passes += share if local.age == 0 else 0.0  # they are copied
    f2 = as_finite_sum(part.f2)

    # 1 the snapshot
    at: Evaluation = f2.anchor(x_tilde.x2)
    s.n_passes += share
    s.n_gradients += share
    value = at.value + part.penalty(part.feasible(x_tilde))
    infinite = bool(np.isfinite(at.value)) and value == np.inf  # outside of the domain of h1
    local.proven |= infinite  # F says nothing then

    # 2 the search between the last snapshot and this one
    slack = rounding(p.dtype) * abs(local.value)
    same_rows = local.age > 0  # F over other rows is another function
    highest = local.value + slack if same_rows else local.ceiling
    rose = local.last is not None and not infinite and not value <= highest
    local.rises = local.rises + 1 if rose else 0
    if rose:
        local.gamma = min(2 * local.gamma, 64.0)
    elif local.last is not None:
        local.gamma = max(0.5, 0.85 * local.gamma)
    if rose and local.last is not None:
        if local.proven:
            local.longer = min(2 * local.longer, 16)
        if not value <= local.ceiling and local.first_dual is not None:
            s.dual = local.first_dual
        if same_rows:
            x_tilde, at, value = _search(part, f2, *local.last, local.value, x_tilde, at, slack)
        else:
            x_tilde = local.last[0]
            at = f2.anchor(x_tilde.x2)
            value = at.value + part.penalty(part.feasible(x_tilde))
        s.n_passes += share
        s.n_gradients += share
    local.proven |= local.rises == 3

    # 4 a restart?
    if local.last is None:
        local.ceiling = value
    decrease = local.value - value if same_rows else 0.0
    slow = same_rows and decrease < 0.4 * local.decrease
    off = _imbalance(p, s, local, x_tilde, rules.penalty)
    begins |= rose or slow or local.cycle >= rules.longest_cycle or not 0.1 <= off <= 10
    local.value, local.decrease, local.last = value, decrease, (x_tilde, at.predictions)
    local.age, local.cycle = local.age + 1, 1 if begins else local.cycle + 1

    # 3 curvature along the steepest direction
    Lf, Lm, local.u, looked = _local_curvature(f2, at.predictions, local.u, workspace)
    s.n_passes += looked / n
    if begins:
        local.batch_size = _batch_size(p, f2, Lf, s.workspace)
    runs = Runs.single(local.n_rows, local.batch_size)
    weight = _weight(p, s, local, Lf, Lm, runs, rules)

    # 4 the penalty
    if begins:
        s.output = part.feasible(x_tilde)
        if local.first_x is not None:
            s.beta *= float(np.clip(np.sqrt(off), 0.1, 10.0))
        elif local.choose_beta and weight > 0 and p.A2 is not None:
            # both parts of the x2 step weigh the same
            s.beta = weight / (rules.penalty * (squared_norm(p.A2, s.workspace) or 1.0))
        local.first_x, local.first_dual = s.output, s.dual
    s.notes |= {
        "curvature": weight,
        "beta": s.beta,
        "gamma": local.gamma,
        "batch_size": local.batch_size,
        "rows": local.n_rows,
        "rises": s.notes.get("rises", 0) + int(rose),
        "restarts": s.notes.get("restarts", -1) + int(begins),
        "proven": local.proven,
    }
    # with its snapshot an epoch reads the rows in use 1.5 times
    n_inner = max(3, round(local.longer * local.n_rows / (2 * local.batch_size)))
    gradient = Anchored(f2, runs, at, at.gradient)
    return Epoch(part, runs, gradient, n_inner, begins, workspace)


# ---------------------------------------------------------------- the parts


def _rows_in_use(wanted: int, n: int) -> int:
    return n if wanted > 0.7 * n else wanted


def _with_some_rows(p: Problem, n_rows: int) -> tuple[Problem, Workspace]:
    """Return the problem over some rows, evenly spread, and a workspace that goes with it."""
    f2 = as_finite_sum(p.f2)
    return replace(p, f2=some_rows(f2, evenly(f2.n_terms, n_rows))), Workspace()


def _search(
    p: Problem,
    f2: FiniteSum,
    x_old: Pair,
    z_old: Array,
    value: float,
    x_tilde: Pair,
    at: Evaluation,
    slack: float,
) -> tuple[Pair, Evaluation, float]:
    """Return a point between x_old and x_tilde at which F is no higher than at x_old."""
    move, change = x_tilde - x_old, at.predictions - z_old

    def F(t: float) -> float:
        return f2.value_at(z_old + t * change) + p.penalty(p.feasible(x_old + t * move))

    t = backtrack(F, value, slack=slack, least=1e-3)
    x, z = (x_old, z_old) if t == 0 else (x_old + t * move, z_old + t * change)
    found = f2.at_predictions(x.x2, z)
    return x, found, found.value + p.penalty(p.feasible(x))


def _sample(f2: FiniteSum) -> tuple[Array, Rows, Array]:
    """Return rows for the curvature, their numbers and squared norms."""
    n, d = f2.n_terms, f2.n_columns
    rows = evenly(n, min(n, 4000, max(n // 8, 5 * d)))
    block = f2.rows.take(rows)
    return rows, block, block.row_norms2() + f2.intercept


def _local_curvature(
    f2: FiniteSum, z: Array, u: Array | None, workspace: Workspace
) -> tuple[float, float, Array, int]:
    """Return Lf_loc, Lm, the direction u and the rows that were read."""
    rows, block, norms2 = workspace.latest(_sample, f2)
    w = f2.weighted(f2.loss.curvature(z[rows], f2.y[rows]), rows)

    def products(u: Array) -> Array:
        Xu = block.matvec(u[: f2.n_features])
        return Xu + u[-1] if f2.intercept else Xu

    turns = 1
    if u is None:  # the mean row is often close to the steepest direction
        u, turns = f2.pull_back_block(block, w), 3
    for _ in range(turns):
        u = f2.pull_back_block(block, w * products(u))
        u /= float(np.linalg.norm(u)) or 1.0
    bent = w * products(u) ** 2
    total = float(bent.sum())
    worst = float(np.sum(bent * w * norms2)) / total if total > 0 else 0.0
    return total / len(rows), worst, u, (turns if turns == 1 else turns + 1) * len(rows)


def _weight(
    p: Problem, s: State, local: Adaptive, Lf: float, Lm: float, runs: Runs, rules: Rules
) -> float:
    """Return the weight of the x2 step that is due to the loss, at most the proven one."""
    if local.proven or Lf == 0:  # flat where the sample is
        return rules.proven(runs)
    weight = local.gamma * (1.1 * Lf + 0.3 * Lm / (runs.batch_size * THETA2))
    # the proven weight exceeds its part for the noise; its Lf takes reads, and is seldom needed
    noise = defaults.lipschitz_max(p, s.workspace) / (runs.batch_size * THETA2)
    return weight if weight <= noise else min(weight, rules.proven(runs))


def _batch_size(p: Problem, f2: FiniteSum, Lf: float, workspace: Workspace) -> int:
    """Return b: as long as the noise limits a step, and its rows cost what A and vectors do."""
    q, d = p.shape_dual[0], p.shape2[0]
    per_row = f2.n_entries / f2.n_terms
    structure = workspace.shared.once(_entries, p.A2) + 2 * q + d
    useful = defaults.lipschitz_max(p, workspace) / Lf if Lf > 0 else 0.0
    wanted = max(4.0, useful, structure / (8 * max(per_row, 1.0)))
    return max(1, int(min(wanted, f2.n_terms / 50)))


def _entries(A: object) -> int:
    if A is None or not offers(A, Has.SPARSE):
        return 0
    return int(A.tosparse().nnz)  # type: ignore[attr-defined]


def _imbalance(p: Problem, s: State, local: Adaptive, x_tilde: Pair, penalty: float) -> float:
    """Return how many times as much the multiplier has changed since the last restart as A x."""
    if p.A2 is None or local.first_x is None or local.first_dual is None:
        return 1.0
    moved = float(np.linalg.norm(p.A2.matvec(x_tilde.x2 - local.first_x.x2)))
    turned = float(np.linalg.norm(s.dual - local.first_dual))
    return turned / (moved * penalty * s.beta) if moved > 0 and turned > 0 else 1.0
