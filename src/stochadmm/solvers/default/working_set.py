"""A few of many columns at a time, for penalties that hold most coefficients at zero.

    g = gradient of all columns at w                                     (one read of the data)
    tension_j = how many times the pull -g_j exceeds what holds column j at zero
    W = the columns in use and those of largest tension
    a second-order step on the columns W alone                           (a part of a read)

The set grows as soon as the columns outside promise more than a further step inside brings. A dual
point of the small problem becomes one of the whole problem when the multiplier of every column
outside is the pull itself, scaled down where some tension is above one; so the certificate of the
small problem serves the whole one. Working sets go back to Fan et al. (LIBLINEAR, 2008); growth by
the violation of dual constraints follows Johnson and Guestrin (Blitz, 2015) and Massias, Gramfort
and Salmon (Celer, 2018).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.capabilities import Has, offers
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates import (
    CertificateOptions,
    DualPoint,
    gap_scale,
    scaled_point,
)
from ...forms.one_block import one_block
from ...operators import Identity
from ...penalties import Stacked, segments
from ...problem import Pair, Problem
from ...risk import Evaluation, FiniteSum, loss_of_rows
from ...risk.dual import pull_back
from ...risk.metrics import column_energies
from ...risk.parts import as_finite_sum, some_columns
from ...second_order import SecondOrderOptions, inside, why_no_form
from .._base import Solver, State, own_state, register, start_point
from .sampled_newton import NewtonState, SampledNewton

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class SomeColumns:
    """The problem of some columns; a checkpoint holds their numbers alone."""

    whole: Problem
    columns: Indices
    problem: Problem = field(repr=False)

    @classmethod
    def of(cls, whole: Problem, columns: Indices, workspace: Workspace) -> SomeColumns:
        """Take some columns."""
        form = workspace.once(ByColumn, whole, workspace)
        return cls(whole, columns, form.restricted(whole, columns))

    def __recipe__(self) -> tuple[Any, ...]:
        return self.whole, self.columns

    @classmethod
    def __made__(cls, whole: Problem, columns: Indices, workspace: Workspace) -> SomeColumns:
        return cls.of(whole, columns, workspace)


@dataclass
class Small:
    """The problem of some columns, and the state of the steps on it."""

    part: SomeColumns
    state: NewtonState

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.part.problem

    def copy(self) -> Small:
        """Return it with a state of its own."""
        return Small(self.part, own_state(self.state.copy(), NewtonState))


@dataclass
class WorkingState(State):
    """State of the working set: its columns, the small problem and the state of its steps."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    columns: Indices = field(kw_only=True)
    inner: Small | None = field(default=None, repr=False)
    lifted: DualPoint | None = field(default=None, repr=False)
    """The dual point of the small problem that was lifted last."""


@dataclass
class LastPass:
    """The pass that a run has ended with, for the next one on the same rows."""

    at: Evaluation | None = None


def last_pass(f2: FiniteSum) -> LastPass:
    """Return the last pass over the rows of f2 before there was one."""
    return LastPass()


@register
@dataclass(frozen=True)
class WorkingSet(Solver[WorkingState]):
    """Proximal Newton steps on a working set of columns, which grows as needed.

    Parameters
    ----------
    first : int, default=100
        Columns of the first set, where that many are held by a penalty: their steps cost little.
    most : float, default=0.5
        Share of the columns above which all are used: copying them would cost what a set saves.
    enough : float, default=0.3
        The set grows when the columns outside promise this share of what the last step brought.
    options : SecondOrderOptions
        Numbers of the steps inside.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X = np.random.default_rng(0).standard_normal((50, 1000))
    >>> problem = sa.Problem.linear(sa.Squared(), X, X[:, 0] - X[:, 1], on_coefficients=sa.L1(0.1))
    >>> result = sa.minimize(problem, "working-set", stop=sa.Gap(1e-9))
    >>> result.status.name, bool(result.info["columns"] < 500)
    ('CONVERGED', True)
    """

    name: ClassVar[str] = "working-set"
    has_kernel: ClassVar[bool] = True

    first: int = 100
    most: float = 0.5
    enough: float = 0.3
    options: SecondOrderOptions = field(default_factory=SecondOrderOptions)

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why columns cannot be left out one by one, None if they can."""
        workspace = workspace or Workspace()
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

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> WorkingState:
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        point, f2 = inside(problem, point), as_finite_sum(problem.f2)
        workspace = workspace or Workspace()
        mu = one_block(problem, workspace).from_multiplier(
            None if dual is None else multiplier, deadline=deadline
        )
        state = WorkingState(
            workspace=workspace,
            x=point,
            output=point,
            dual=multiplier,
            beta=1.0,
            bound=-np.inf,
            mu=mu,
            columns=np.zeros(0, dtype=np.intp),
        )
        before = workspace.rows.once(last_pass, f2).at
        if before is not None and np.array_equal(before.x, point.x2):
            state.cache = before
        else:
            state.cache = f2.evaluate(point.x2)
            state.n_passes, state.n_gradients = 1.0, 1.0
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one step on the working set, look at all columns, and grow the set if need be."""
        s = own_state(state, WorkingState)
        form = s.workspace.once(ByColumn, problem, s.workspace)
        at = form.f2.evaluate(s.output.x2) if s.cache is None else s.cache
        if s.inner is None:
            s.inner = self._grow(problem, s, form, at)
        inner, before = s.inner, at.value + problem.penalty(s.output)
        passes = inner.state.n_passes
        inner.state.target, inner.state.deadline = s.target, s.deadline
        SampledNewton(self.options).epoch(inner.problem, inner.state, rng)
        share = s.columns.size / problem.shape2[0]
        s.n_passes += share * (inner.state.n_passes - passes) + 1.0
        s.n_gradients += 1.0
        at = self._lift(problem, s, form, inner)
        now = at.value + problem.penalty(s.output)
        self._certify(problem, s, form, inner.state, at, now)
        if s.columns.size < problem.shape2[0]:
            outside = form.promise(at, s.columns)
            if outside > self.enough * max(before - now, 0.0):
                s.inner = self._grow(problem, s, form, at)
        s.workspace.rows.once(last_pass, form.f2).at = at
        s.n_epochs += 1

    def _lift(self, problem: Problem, s: WorkingState, form: ByColumn, small: Small) -> Evaluation:
        """Take over the point of the small problem; return the pass there."""
        inner, f2 = small.state, form.f2
        x2 = np.zeros(problem.shape2, problem.dtype)
        x2[s.columns] = inner.output.x2
        s.x = s.output = problem.feasible(Pair(problem.zeros().x1, x2))
        s.mu = np.zeros_like(s.mu)
        own = inner.mu
        if inner.other is not None:
            own = one_block(small.problem, inner.workspace).from_multiplier(inner.dual)
        s.mu[form.rows(s.columns)] = own
        s.dual = form.composite.to_multiplier(s.mu).astype(problem.dtype)
        s.beta = inner.beta
        made = inner.cache
        if made is None:
            at = replace(f2.evaluate(x2), x=x2)
        else:
            gradient = f2.pull_back(f2.weighted(made.derivative)) / f2.n_terms
            at = replace(made, x=x2, gradient=gradient.astype(problem.dtype, copy=False))
        s.cache = at
        return at

    def _certify(
        self,
        problem: Problem,
        s: WorkingState,
        form: ByColumn,
        inner: NewtonState,
        at: Evaluation,
        now: float,
    ) -> None:
        """Lift a dual point of the small problem that certifies enough there."""
        found, f2 = inner.certificate, form.f2
        scale = gap_scale(problem, now, s.bound, s.workspace)
        if found is None or found is s.lifted or s.target is None:
            return
        if now - found.bound > s.target * scale:
            return
        s.lifted = found
        gradient = pull_back(f2, found.slopes)
        s.n_passes += 1.0
        mu = form.multiplier(s.columns, found.mu, gradient)
        point = scaled_point(
            f2,
            form.composite,
            at.predictions,
            found.slopes,
            gradient,
            mu,
            now,
            rounds=1,
            options=CertificateOptions().towards(s.target),
            deadline=s.deadline,
            workspace=s.workspace,
        )
        if s.bound is None or point.bound > s.bound:
            s.bound = point.bound

    def _grow(self, problem: Problem, s: WorkingState, form: ByColumn, at: Evaluation) -> Small:
        """Add the columns of largest tension; return the steps from where they have led."""
        x2 = s.output.x2
        tension = form.tension(at.gradient)
        used = (x2 != 0) if x2.ndim == 1 else x2.any(axis=1)
        chosen = used | ~form.held
        chosen[s.columns] = True
        size, support = int(chosen.sum()), int(np.count_nonzero(used))
        pulled = int(np.count_nonzero((tension > 1) & ~chosen))
        more = int(np.clip(pulled, 1, max(2 * support - size, self.first)))
        together = SampledNewton()
        if size + more > self.most * x2.shape[0] and not together.why_not(problem, s.workspace):
            chosen[:] = True
        else:
            order = np.argsort(np.where(chosen, -np.inf, tension))[::-1]
            chosen[order[:more]] = True
        s.columns = np.flatnonzero(chosen)
        part = SomeColumns.of(problem, s.columns, s.workspace)
        small = part.problem
        s.notes["columns"] = s.columns.size
        point = small.feasible(Pair(small.zeros().x1, x2[s.columns]))
        # a workspace of its own: the rows of an earlier set need not be kept
        workspace = s.workspace if small is problem else Workspace()
        mu = s.mu[form.rows(s.columns)]
        state = SampledNewton(self.options).start_at(small, point, mu, workspace)
        state.cache = replace(at, x=point.x2, gradient=at.gradient[s.columns])
        state.engine = s.engine
        if s.inner is not None:
            before = s.inner.state
            state.penalty, state.model_tol = before.penalty, before.model_tol
        return Small(part, state)


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
        self.held = (self.tension(ones) < np.inf) & (self.tension(-ones) < np.inf)
        self.f2, self.workspace = as_finite_sum(problem.f2), workspace

    def rows(self, columns: Indices) -> Indices:
        """Return the rows of the structure that act on some columns."""
        return np.flatnonzero(np.isin(self.column, columns))

    def _pulls(self, gradient: Array, rows: slice | Indices) -> Array:
        factor = self.factor[rows]
        pull: Array = -gradient[self.column[rows]]
        pull = pull / (factor[:, None] if pull.ndim == 2 else factor)
        return pull

    def _row_tension(self, gradient: Array) -> Array:
        out = np.full(self.S.shape[0], np.inf)
        for part, rows in self.parts:
            if offers(part, Has.TENSION):
                out[rows] = part.tension(self._pulls(gradient, rows))
        return out

    def tension(self, gradient: Array) -> Array:
        """Return the tension of every column, by the part of the penalty that holds it best."""
        least = np.full(self.S.shape[1], np.inf)
        np.minimum.at(least, self.column, self._row_tension(gradient))
        return least

    def promise(self, at: Evaluation, columns: Indices) -> float:
        """Return about how much the columns outside could lower the objective, one by one."""
        tension = self.tension(at.gradient)
        tension[columns] = 0.0
        pulled = np.flatnonzero(tension > 1)
        if not pulled.size:
            return 0.0
        size = np.abs(at.gradient[pulled])
        size = size if size.ndim == 1 else size.max(axis=1)
        loss: Any = self.f2.loss
        curve = float(np.max(loss.curvature(at.predictions, self.f2.y).mean(axis=0)))
        energy = self.workspace.rows.once(column_energies, self.f2)[pulled]
        curvature = np.maximum(curve * energy, np.finfo(float).tiny)
        return float(((size * (1 - 1 / tension[pulled])) ** 2 / (2 * curvature)).sum())

    def multiplier(self, columns: Indices, mu: Array, gradient: Array) -> Array:
        """Return the multiplier of all rows: as given inside, the pull itself outside."""
        tension = self._row_tension(gradient)
        best = np.lexsort((tension, self.column))
        _, first = np.unique(self.column[best], return_index=True)
        whole = np.zeros((self.S.shape[0], *gradient.shape[1:]))
        outside = best[first]
        whole[outside] = self._pulls(gradient, outside)
        inner = self.rows(columns)
        whole[inner] = mu
        return whole

    def restricted(self, problem: Problem, columns: Indices) -> Problem:
        """Return the problem of some columns, all others zero."""
        f2 = self.f2
        if columns.size == self.S.shape[1]:
            return problem
        few = some_columns(f2, columns)
        rows = self.rows(columns)
        penalties = []
        for part, block in self.parts:
            inside = rows[(rows >= block.start) & (rows < block.stop)] - block.start
            penalties.append((part.restricted(inside), inside.size))
        A: Any = self.S[rows][:, columns]
        return Problem(few, h1=Stacked(penalties), A1=Identity(rows.size, scale=-1.0), A2=A)
