"""Sparse rows and penalties of single entries: models minimized by coordinate descent.

    W+ = argmin <g, . - W> + 1/2 <. - W, H (. - W)> + sum l1 |.| + l2/2 .^2    within bounds

with the exact Hessian H of the loss, coupled outputs included, over the entries that are not zero
or may leave zero. A visit costs the entries of one column of the data, so that sweeps over sparse
rows cost a small part of a pass (Friedman, Hastie and Tibshirani 2010; Yuan, Ho and Lin 2012).
Such steps converge quadratically, so that the derivatives at the new point, scaled into the dual
set, are certificate enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import CertificateOptions, DualPoint, scaled_point
from ..data import CSR
from ..forms.by_entry import EntryForm, NotEntrywise, by_entry
from ..kernels.coordinates import Coordinates, coordinate_sweeps
from ..kernels.extension import available
from ..low_rank import CurvedLoss
from ..problem import Problem
from ..risk import Evaluation, FiniteSum, loss_of_rows
from ..risk.finite_sum import as_finite_sum, as_matrix
from ..risk.lines import Line, LineInMemory
from .composite import Composite, DataTerm, is_quadratic, why_no_form
from .interfaces import Candidate, NewtonState, Plan, Run
from .trust import Trust

DENSE = 5e7
"""Entries up to which few dense rows are copied column by column: 600 MB."""


class SweptColumns:
    """The columns of the data as sweeps visit them, the free ones last and in a basis."""

    def __init__(self, f2: Any, rows: bytes, free: bytes) -> None:
        own, others = (np.frombuffer(part, dtype=np.intp) for part in (rows, free))
        self.loss = CurvedLoss(as_matrix(f2), own, others)
        self.split = self.loss.columns
        self.indptr, self.indices, self.data = self.split.by_column()
        self.squares = self.split.squares()

    def curvature(self, f2: Any, at: Evaluation) -> tuple[Array, Array | None]:
        """Return (c, s): row i has the Hessian ``diag(c_i) - s_i s_i'``, over n."""
        n = f2.n_terms
        if offers(f2.loss, Has.BY_CLASS):
            c = at.derivative.astype(np.float64)  # probabilities less the indicator of the class
            c[np.arange(n), f2.y] += 1.0
            s: Array | None = c
        else:
            c, s = f2.loss.curvature_parts(at.predictions, f2.y)
        weight = (1.0 if self.loss.weight is None else self.loss.weight) / n
        c, s = c.reshape(n, -1), None if s is None else s.reshape(n, -1)
        return c * weight, None if s is None else s * np.sqrt(weight)


def entries(p: Composite) -> EntryForm:
    """Return strengths and bounds of the entries, found once for the problem."""
    return p.workspace.once(by_entry, p.problem, p.workspace)


def swept_columns(p: Composite) -> SweptColumns:
    """Return the columns of a problem, made once for its rows."""
    return p.workspace.once(_swept_columns, p.problem, p.workspace)


def _swept_columns(problem: Problem, workspace: Workspace) -> SweptColumns:
    form = workspace.once(by_entry, problem, workspace)
    # indices are bytes, so that the rows' own workspace knows them by value
    made_of = as_finite_sum(problem.f2), form.rows.tobytes(), form.free.tobytes()
    return workspace.rows.once(SweptColumns, *made_of)


@dataclass(frozen=True)
class ColumnHessian:
    """``X' (diag(c) - s s') X`` of all rows, of which sweeps see one column at a time."""

    columns: SweptColumns
    c: Array
    s: Array | None
    fraction: float = 1.0
    is_exact: bool = False

    def quadratic(self, step: Array) -> float:
        f2 = self.columns.loss.f2
        z = f2.predict(step.reshape(f2.shape))
        z = z if f2.offset is None else z - f2.offset
        coupled = 0.0 if self.s is None else float(np.sum(np.sum(self.s * z, axis=1) ** 2))
        return float(np.vdot(self.c, z * z)) - coupled

    def damped(self, damping: float) -> ColumnHessian:
        return self  # the radius of steps is the safeguard


@dataclass(frozen=True)
class ByColumns:
    """The Hessian of all rows, by columns."""

    def first_trust(self, p: Composite) -> Trust:
        # An entry may change predictions by two in the first step: curvatures of exponential
        # losses keep their order within it.
        largest = swept_columns(p).split.largest_entry()
        return Trust(radius=2.0 / max(largest, 1e-300))

    def model(self, p: Composite, s: NewtonState, run: Run) -> ColumnHessian:
        columns, f2 = swept_columns(p), p.rows
        return ColumnHessian(columns, *columns.curvature(f2, s.at))

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn nothing: the next Hessian is made anew."""


@dataclass(frozen=True)
class NoWarmStart:
    """Sweeps start at the iterate."""

    rho: float | None = None


@dataclass(frozen=True)
class CoordinateDescent:
    """Compiled sweeps over the entries that are not zero or may leave zero, within a radius."""

    def first_warm(self) -> NoWarmStart:
        return NoWarmStart()

    def minimize(self, p: Composite, s: NewtonState, H: ColumnHessian, run: Run) -> Candidate:
        form, split, loss = entries(p), H.columns.split, H.columns.loss
        x, gradient = (a.reshape(loss.f2.shape) for a in (s.at.x, s.at.gradient))
        W, g, free = x[form.rows], gradient[form.rows], split.inner_free(x[form.free])
        own = H.c if H.s is None else H.c - H.s * H.s
        curvature = np.vstack([H.columns.squares @ own, (split.free**2).T @ own])
        # rare words have next to no curvature of their own: at least a millionth of the mean
        curvature = np.maximum(curvature, 1e-6 * max(float(curvature.mean()), 1e-300))
        left = largest_violation(form, W, g, curvature[: len(W)])

        # entries at zero whose derivative is 0.8 of their l1 strength may leave zero on the way
        chosen = np.vstack([(W != 0) | (np.abs(g) > 0.8 * form.l1), np.ones(free.shape, bool)])
        output, column = np.nonzero(chosen.T)
        at = column, output

        def picked(penalized: Array, others: float | Array) -> Array:
            both = np.vstack([penalized, np.broadcast_to(others, free.shape)])
            return np.ascontiguousarray(both[at], dtype=np.float64)

        free_gradient = loss.pull_back_free(s.at.derivative.reshape(loss.n, -1))
        start = picked(W, free)
        model = Coordinates(
            H.columns.indptr,
            H.columns.indices,
            H.columns.data,
            np.ascontiguousarray(H.c.T),
            None if H.s is None else np.ascontiguousarray(H.s.T),
            np.searchsorted(output, np.arange(W.shape[1] + 1)).astype(np.int64),
            column.astype(np.int64),
            picked(g, free_gradient),
            np.ascontiguousarray(curvature[at]),
            picked(form.l1, 0.0),
            picked(form.l2, 0.0),
            np.maximum(picked(form.lo, -np.inf), start - s.trust.radius),
            np.minimum(picked(form.hi, np.inf), start + s.trust.radius),
            start.copy(),
            # More digits than a third of the violation would describe the model only; less where
            # it is a small share of the strengths: steps are quadratic then.
            float(np.clip(3 * left / max(float(form.l1.mean()), 1e-300), 3e-3, 0.3)) * left,
            # A model is made anew where 60 sweeps are not enough; a squared loss is its own.
            1000 if is_quadratic(p.problem) else 60,
            10,  # sweeps over entries other than zero between two over all: two extrapolations
        )
        swept = coordinate_sweeps(model)
        s.notes["sweeps"] = s.notes.get("sweeps", 0) + swept.sweeps

        moves = np.zeros(chosen.shape)
        moves[at] = model.w - start
        step = np.zeros(x.shape)
        step[form.rows], step[form.free] = moves[: len(W)], split.outer_free(moves[len(W) :])
        w = (x + step).reshape(s.at.x.shape)
        linear = float(model.gradient @ (model.w - start))
        penalties = p.inside(w)[1] - (s.objective - s.at.value)
        mu = p.form.project(form.multiplier(p.form, s.at.gradient))
        predicted = max(-linear - 0.5 * max(swept.square, 0.0) - penalties, 0.0)
        return Candidate(w, mu, predicted, is_structured=True)


def largest_violation(form: EntryForm, W: Array, g: Array, curvature: Array) -> float:
    """Return the largest derivative that a step of one entry alone would remove."""
    target = curvature * W - g
    soft = target - np.clip(target, -form.l1, form.l1)
    there = np.clip(soft / (curvature + form.l2), form.lo, form.hi)
    return float((curvature * np.abs(there - W)).max(initial=0.0))


@dataclass(frozen=True)
class Scaled:
    """Derivatives at the new iterate, scaled into the dual set."""

    def of_model(
        self, p: Composite, s: NewtonState, H: ColumnHessian, c: Candidate, run: Run
    ) -> tuple[Candidate, None]:
        return c, None

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        assert run.target is not None
        form, at = entries(p), s.at
        mu = form.multiplier(p.form, at.gradient)
        s.mu = p.form.project(mu)
        scale = p.gap_scale(s.objective, s.lower_bound)
        if c.predicted > run.target * scale:
            return None
        z, u, gradient = at.predictions, at.derivative, at.gradient
        if form.free.size and not isinstance(p.f, FittedRows):
            # derivatives at the best free rows vanish along these
            columns = swept_columns(p)
            loss, split = columns.loss, columns.split
            V = split.inner_free(at.x.reshape(loss.f2.shape)[form.free])
            _, z, _, u = loss.fit_free(z.reshape(loss.n, -1) - split.free @ V, V)
            whole = np.zeros(loss.f2.shape)
            whole[form.rows] = loss.pull_back(u)
            whole[form.free] = split.outer_gradient(loss.pull_back_free(u))
            z, u = z.reshape(at.predictions.shape), u.reshape(at.predictions.shape)
            gradient, s.n_passes = whole.reshape(at.gradient.shape), s.n_passes + 0.5
            mu = form.multiplier(p.form, gradient)
        return scaled_point(
            p.rows,
            p.form,
            z,
            u,
            gradient,
            mu,
            s.objective,
            rounds=1,
            options=CertificateOptions().towards(
                run.target, scale / max(abs(s.objective), 1e-300)
            ),
            deadline=run.deadline,
            workspace=p.workspace,
        )


class FittedRows:
    """The mean loss at points whose free rows are minimized out, by Newton's method."""

    opening_passes = 0.0

    def __init__(self, f2: FiniteSum, form: EntryForm, columns: SweptColumns) -> None:
        self.f2, self.form, self.loss, self.n_terms = f2, form, columns.loss, f2.n_terms

    def along(self, at: Evaluation, x: Array) -> Line:
        return LineInMemory(self.f2, at, self.evaluate_exactly(x))

    def evaluate_exactly(self, w: Array) -> Evaluation:
        form, loss = self.form, self.loss
        x = np.array(w, dtype=np.float64).reshape(loss.f2.shape)
        W, V = x[form.rows], x[form.free]
        at = loss.at_base(W, loss.base(W), V)
        x[form.free], gradient = at.V, np.zeros(x.shape)
        gradient[form.rows], gradient[form.free] = at.gradient, loss.pull_back_free(at.derivatives)
        shape = self.f2.y.shape if self.f2.n_outputs is None else at.z.shape
        z, u = at.z.reshape(shape), at.derivatives.reshape(shape)
        return Evaluation(x.reshape(w.shape), at.value, gradient.reshape(w.shape), z, u, 1.0)


def fitted_rows(p: Composite) -> DataTerm:
    """Return the data term whose free rows are fitted, where rounding leaves them as they are."""
    form, f2 = entries(p), p.rows
    columns = swept_columns(p)
    exact = f2.dtype == np.float64 and columns.split.basis is None
    return FittedRows(f2, form, columns) if form.free.size and exact else p.f


COORDINATES = Plan(ByColumns(), CoordinateDescent(), Scaled(), data=fitted_rows)


def why_no_coordinates(problem: Problem, workspace: Workspace) -> str | None:
    """Return why sweeps over single entries cannot serve a problem, None if they can."""
    f2 = loss_of_rows(problem.f2, Has.CURVATURE_PARTS)
    if f2 is None:
        return "the loss offers no curvature"
    sparse = f2.storage == CSR and f2.n_entries <= 0.1 * f2.n_terms * f2.n_features
    # Models of coupled outputs are only multiplied with. Where rows are few, so are the entries
    # in use, and a sweep over them costs less than a product with all rows.
    few = f2.n_outputs is not None and f2.n_terms < f2.n_features and f2.n_entries <= DENSE
    if not (sparse or few):
        return "rows are not sparse"
    if not available():
        return "there is no compiled code"
    if is_quadratic(problem) and f2.n_outputs is not None:
        return "the loss is squared: its outputs share a Gram matrix"
    reason = why_no_form(problem, workspace)
    if reason is not None:
        return reason
    try:
        form = workspace.once(by_entry, problem, workspace)
    except NotEntrywise as another:
        return str(another)
    if form.free.size * (f2.n_outputs or 1) > 2000:  # whose square matrix is made
        return "too many free coefficients"
    return None
