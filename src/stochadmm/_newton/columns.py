"""A working set of columns: f itself is minimized on a few of them, by the same loop.

    tension_j = how many times column j exceeds its dual constraint at w      (the gradient at w)
    W = the columns in use and those of largest violation
    minimize F over the columns W alone                                       (parts of a read)

Working sets go back to Fan et al. (LIBLINEAR, 2008); growth by the violation of dual constraints
follows Johnson and Guestrin (Blitz, 2015) and Massias, Gramfort and Salmon (Celer, 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import CertificateOptions, DualPoint, scaled_point
from ..forms.one_block import one_block
from ..operators import Identity
from ..penalties import Stacked, segments
from ..problem import Problem
from ..risk import Evaluation, loss_of_rows
from ..risk.dual import pull_back
from ..risk.finite_sum import as_finite_sum, some_columns
from ..risk.metrics import column_energies
from .composite import Composite, why_no_form
from .dense import SplittingWarm, why_no_dense_model
from .interfaces import Candidate, NewtonState, Plan, Run
from .loop import solve
from .trust import Trust

Indices = NDArray[np.intp]

FIRST = 100
"""Columns of the first set: the steps of that many cost little."""


@dataclass(frozen=True)
class NoModel:
    """Curvature and Hessian of a subproblem that minimizes F itself: there is no model."""

    fraction: float = 1.0
    is_exact: bool = False

    def first_trust(self, p: Composite) -> Trust:
        return Trust()

    def model(self, p: Composite, s: NewtonState, run: Run) -> NoModel:
        return self

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn nothing."""

    def quadratic(self, step: Array) -> float:
        return 0.0

    def damped(self, damping: float) -> NoModel:
        return self


@dataclass(frozen=True)
class WorkingSetWarm:
    """Warm start of `WorkingSet`: the set, and where the splitting of its last step ended."""

    rho: float | None = None
    tolerance: float = SplittingWarm.tolerance
    columns: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


@dataclass(frozen=True)
class WorkingSet:
    """Minimize F over a few columns by a plan of its own, all others zero.

    The set grows with every step. Its problem is solved until a step there predicts less than the
    columns outside do, and at last to the target gap.
    """

    plan: Plan

    def first_warm(self) -> WorkingSetWarm:
        return WorkingSetWarm()

    def minimize(self, p: Composite, s: NewtonState, H: NoModel, run: Run) -> Candidate:
        by_column = p.workspace.once(ByColumn, p.problem, p.workspace)
        columns = self._grown(p, s, by_column)
        d, rows = p.problem.shape2[0], by_column.rows(columns)
        # a workspace of its own: the rows of an earlier set need not be kept
        r = p if columns.size == d else Composite(by_column.restricted(columns), Workspace())
        few = NewtonState(
            x=r.inside(s.x.x2[columns])[0],
            mu=s.mu[rows],
            warm=SplittingWarm(s.warm.rho, s.warm.tolerance),
            trust=self.plan.curvature.first_trust(r),
            at=replace(s.at, x=s.at.x[columns], gradient=s.at.gradient[columns]),
            objective=s.objective,
        )
        # More than a third of what the columns outside could bring is not left inside. Half of
        # the target: lifting the dual point may lose the other one.
        outside = 0.3 * by_column.possible_decrease(s.at, columns)
        resolution = outside / max(abs(s.objective), np.finfo(float).tiny)
        own = run if run.target is None else replace(run, target=0.5 * run.target)
        few = solve(r, few, self.plan, own, 20, resolution)

        s.n_passes += columns.size / d * few.n_passes
        s.n_gradients += columns.size / d * few.n_gradients
        s.warm = WorkingSetWarm(few.warm.rho, few.warm.tolerance, columns)
        s.notes["columns"] = columns.size
        w, mu = np.zeros(s.at.x.shape), np.zeros_like(s.mu)
        w[columns], mu[rows] = few.x.x2, few.mu
        return Candidate(w, mu, s.objective - few.objective, few.dual)

    def _grown(self, p: Composite, s: NewtonState, by_column: ByColumn) -> Indices:
        """Return the set with the columns of largest violation."""
        violation, x2 = by_column.violation(s.at.gradient), s.at.x
        used = (x2 != 0) if x2.ndim == 1 else x2.any(axis=1)
        chosen = used | ~by_column.held
        chosen[s.warm.columns] = True
        size, support = int(chosen.sum()), int(np.count_nonzero(used))
        violated = int(np.count_nonzero((violation > 1) & ~chosen))
        if violated == 0 and s.warm.columns.size:
            return np.flatnonzero(chosen)
        more = int(np.clip(violated, 1, max(2 * support - size, FIRST)))
        # copying more than half of the columns would cost what a set saves
        if size + more > 0.5 * x2.shape[0] and not why_no_dense_model(p.problem, p.workspace):
            return np.arange(x2.shape[0])
        order = np.argsort(np.where(chosen, -np.inf, violation))[::-1]
        chosen[order[:more]] = True
        return np.flatnonzero(chosen)


@dataclass(frozen=True)
class Lifted:
    """The dual point of the columns in a set, as one of all columns.

    The multiplier of every column outside is minus its gradient, and all is scaled down where a
    dual constraint outside is violated.
    """

    def of_model(
        self, p: Composite, s: NewtonState, H: NoModel, c: Candidate, run: Run
    ) -> tuple[Candidate, None]:
        return c, None

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        assert run.target is not None
        few, f2 = c.dual, p.rows
        # a read is worth it only where the point is good enough inside
        scale = p.gap_scale(s.objective, s.lower_bound)
        if few is None or s.objective - few.bound > run.target * scale:
            return None
        by_column = p.workspace.once(ByColumn, p.problem, p.workspace)
        gradient = pull_back(f2, few.derivatives)
        s.n_passes += 1.0
        return scaled_point(
            f2,
            p.form,
            s.at.predictions,
            few.derivatives,
            gradient,
            by_column.multiplier(s.warm.columns, few.mu, gradient),
            s.objective,
            rounds=1,
            options=CertificateOptions().towards(
                run.target, scale / max(abs(s.objective), 1e-300)
            ),
            deadline=run.deadline,
            workspace=p.workspace,
        )


def why_no_working_set(problem: Problem, workspace: Workspace) -> str | None:
    """Return why columns cannot be left out one by one, None if they can."""
    if loss_of_rows(problem.f2, Has.CURVATURE_APPLY) is None:
        return "the loss offers no curvature"
    reason = why_no_form(problem, workspace)
    if reason is not None:
        return reason
    form = one_block(problem, workspace)
    if form.ties_columns or form.S.nnz < form.S.shape[0] or form.offset.any():
        return "the structure ties columns"
    by_column = workspace.once(ByColumn, problem, workspace)
    if not all(offers(part, Has.RESTRICTED) for part, _ in by_column.parts):
        return "a penalty cannot be restricted to some rows"
    if 2 * np.count_nonzero(by_column.held) < problem.shape2[0]:
        return "no penalty holds most columns at zero"
    return None


class ByColumn:
    """A problem whose structure has one column in each row: what holds the columns at zero."""

    def __init__(self, problem: Problem, workspace: Workspace) -> None:
        self.composite = one_block(problem, workspace)
        self.S = self.composite.S
        self.parts = [
            (part, slice(rows.start + own.start, rows.start + own.stop))
            for whole, rows in self.composite.parts
            for part, own in segments(whole, rows.stop - rows.start)
        ]
        self.column, self.factor = self.S.indices, self.S.data
        ones = np.ones(problem.shape2)
        self.held = (self.violation(ones) < np.inf) & (self.violation(-ones) < np.inf)
        """Columns that some penalty can hold at zero."""
        self.f2, self.shared_rows = as_finite_sum(problem.f2), workspace.rows

    def rows(self, columns: Indices) -> Indices:
        """Return the rows of the structure that act on some columns."""
        return np.flatnonzero(np.isin(self.column, columns))

    def _closing(self, gradient: Array, rows: slice | Indices) -> Array:
        """Return the multipliers that alone close the dual equation of their columns."""
        factor = self.factor[rows]
        mu: Array = -gradient[self.column[rows]]
        mu = mu / (factor[:, None] if mu.ndim == 2 else factor)
        return mu

    def _row_violation(self, gradient: Array) -> Array:
        out = np.full(self.S.shape[0], np.inf)
        for part, rows in self.parts:
            if offers(part, Has.VIOLATION):
                out[rows] = part.violation(self._closing(gradient, rows))
        return out

    def violation(self, gradient: Array) -> Array:
        """Return the violation of every column, by the part of the penalty that holds it best.

        It is how many times minus the derivative exceeds what the penalty allows at zero: above
        one the dual constraint of the column is violated.
        """
        least = np.full(self.S.shape[1], np.inf)
        np.minimum.at(least, self.column, self._row_violation(gradient))
        return least

    def possible_decrease(self, at: Evaluation, columns: Indices) -> float:
        """Return about how much the columns outside could lower the objective, one by one."""
        violation = self.violation(at.gradient)
        violation[columns] = 0.0
        violated = np.flatnonzero(violation > 1)
        if not violated.size:
            return 0.0
        size = np.abs(at.gradient[violated])
        size = size if size.ndim == 1 else size.max(axis=1)
        loss: Any = self.f2.loss
        curve = float(np.max(loss.curvature(at.predictions, self.f2.y).mean(axis=0)))
        energy = self.shared_rows.once(column_energies, self.f2)[violated]
        curvature = np.maximum(curve * energy, np.finfo(float).tiny)
        return float(((size * (1 - 1 / violation[violated])) ** 2 / (2 * curvature)).sum())

    def multiplier(self, columns: Indices, mu: Array, gradient: Array) -> Array:
        """Return the multiplier of all rows: as given inside, minus the gradient outside."""
        violation = self._row_violation(gradient)
        best = np.lexsort((violation, self.column))
        _, first = np.unique(self.column[best], return_index=True)
        whole = np.zeros((self.S.shape[0], *gradient.shape[1:]))
        outside = best[first]
        whole[outside] = self._closing(gradient, outside)
        inner = self.rows(columns)
        whole[inner] = mu
        return whole

    def restricted(self, columns: Indices) -> Problem:
        """Return the problem of some columns, all others zero."""
        few, rows = some_columns(self.f2, columns), self.rows(columns)
        penalties = []
        for part, block in self.parts:
            inside = rows[(rows >= block.start) & (rows < block.stop)] - block.start
            penalties.append((part.restricted(inside), inside.size))
        A: Any = self.S[rows][:, columns]
        return Problem(few, h1=Stacked(penalties), A1=Identity(rows.size, scale=-1.0), A2=A)
