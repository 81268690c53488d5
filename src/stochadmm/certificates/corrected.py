"""The dual point of the derivatives, corrected to second order by a model of some of the rows.

With W the curvatures and weights ``omega_i >= 1`` on the rows of a sample, let
``H = (1/n) sum_i omega_i q_i a_i W_i a_i'`` and let w minimize the model of the objective with
this Hessian, with multiplier mu: ``g + H (w - x) + S' mu = 0``. The dual point
``u_i + omega_i W_i a_i'(w - x)`` then satisfies the dual equation exactly, whatever the sample,
and its bound is second order in ``w - x``; a small sample only costs a factor of about omega.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock
from ..forms.structure import LIMITS as STRUCTURES
from ..quadratic import QuadraticModel, QuadraticResult
from ..risk import Evaluation, FiniteSum
from ..risk.curvature import (
    LIMITS,
    RowSample,
    SampledHessian,
    by_row,
    is_implicit,
    shares_curvature,
)
from ..risk.dual import pull_back
from ..risk.sampling import consecutive
from .bound import DualPoint, scaled_point
from .null_space import exact_derivatives
from .options import OPTIONS, CertificateOptions
from .rounding import mean_size, residual, rounding

HOLDS = 1e-4
"""Residual of a model below which it has a minimum."""


@dataclass(frozen=True)
class Corrected:
    """A dual point with the model's minimizer, where it has one."""

    point: DualPoint
    model: QuadraticResult | None
    mu: Array
    n_passes: float

    @property
    def candidate(self) -> Array | None:
        """The model's minimizer: a step of Newton's method."""
        return None if self.model is None else self.model.w


def has_model(f2: FiniteSum, form: OneBlock, predictions: Array) -> bool:
    """Say whether the second-order model can be made: a matrix that fits, or its products."""
    if form.is_through or not offers(f2.loss, Has.CURVATURE_APPLY):
        return False
    if not is_implicit(f2, shares_curvature(f2, predictions)):
        return True
    if f2.n_columns <= LIMITS.columns:
        return True
    # fewer rows than columns leave conjugate gradients little to go by, and ties need many of them
    cheap = not form.ties_columns or f2.n_entries <= STRUCTURES.entries * f2.n_columns
    return f2.n_columns <= min(f2.n_terms, LIMITS.products) and cheap


def corrected_point(
    f2: FiniteSum,
    form: OneBlock,
    at: Evaluation,
    start: Array,
    objective: float,
    hessian: SampledHessian | None = None,
    near: Array | None = None,
    tol: float | None = None,
    penalty: float | None = None,
    *,
    options: CertificateOptions = OPTIONS,
    workspace: Workspace | None = None,
    deadline: Deadline = NEVER,
) -> Corrected | None:
    """Return the corrected dual point at ``at``; None where the model cannot be made or used.

    ``objective`` is F at a feasible point; ``hessian`` is that of some rows, of rows of its own
    choice when absent; ``start`` and ``near`` are first guesses of the multiplier and of the
    model's minimizer, ``penalty`` is one of its splitting; ``tol`` is the accuracy of the model,
    that of the options when absent: the bound loses about as much relative to the optimum.
    """
    workspace = workspace or Workspace()
    if not has_model(f2, form, at.predictions):
        return None
    if hessian is None:
        rows = RowSample(f2, at.predictions, at.derivative, sample_rows(f2))
        hessian = SampledHessian(rows, shares_curvature(f2, at.predictions))
    sample, near = hessian.sample, at.x if near is None else near
    minimize = partial(
        model_of(form, workspace).minimize,
        tol=options.model_tol if tol is None else tol,
        max_iter=options.model_iter,
        deadline=deadline,
    )
    hessian, model, du, mu, reads = _solve(hessian, minimize, at, near, start, penalty)
    reads *= sample.size / f2.n_terms
    if du is None:
        return Corrected(DualPoint(-np.inf, mu, at.derivative), model, mu, reads)
    # X'(q u)/n + S' mu = 0 holds up to the accuracy of the model. Weighted least squares takes
    # what is left, u <- u - W X H^+ (X'(q u)/n + S' mu), where that is more than rounding: no
    # multiplier makes up for it along directions without a penalty. At the edge of a cone, where
    # no factor makes up for the last digits, rounding is taken too.
    nearest = form.project(mu)
    left = at.gradient + sample.pull_back(du) + form.St @ nearest
    error = rounding(f2, form, at.derivative, nearest, workspace=workspace)
    # along many free directions rounding itself is worth taking
    is_open = form.has_many_free or not (np.abs(left) <= error).all()
    is_open = is_open and not hessian.implicit
    point = DualPoint(-np.inf, mu, at.derivative, 0.0)
    for corrects in (is_open, not is_open):
        if point.factor >= 0.5 or (corrects and hessian.implicit):
            break
        derivatives, multiplier = du, mu
        if corrects:
            derivatives, multiplier = (
                du - hessian.derivative_change(_solved(hessian, left)),
                nearest,
            )
            u = at.derivative.copy()
            u[sample.index] += derivatives
            rest = None
            if form.has_many_free:
                rest = residual(f2, form, u, multiplier, error)
            if rest is not None:  # the digits that the sum above has lost
                derivatives = derivatives - hessian.derivative_change(_solved(hessian, rest[0]))
            if not (
                np.isfinite(derivatives).all()
                and (sample.dual_step_limit(derivatives) >= 1.0).all()
            ):
                continue
        other = _point(
            f2, form, at, hessian, derivatives, multiplier, objective, options, deadline, workspace
        )
        if other.bound > point.bound:
            point, mu = other, multiplier
    return Corrected(point, model, mu, reads)


def _point(
    f2: FiniteSum,
    form: OneBlock,
    at: Evaluation,
    hessian: SampledHessian,
    du: Array,
    mu: Array,
    objective: float,
    options: CertificateOptions,
    deadline: Deadline,
    workspace: Workspace,
) -> DualPoint:
    sample, u = hessian.sample, at.derivative.copy()
    u[sample.index] += du
    gradient = at.gradient + sample.pull_back(du)
    if hessian.implicit:
        # Products solve a model to few digits, and no multiplier makes up for what is left along
        # directions without a penalty: weighted least squares does, in these directions alone.
        exact = exact_derivatives(f2, form.null_directions(), at.predictions, u)
        u, gradient = (u, gradient) if exact is u else (exact, pull_back(f2, exact))
    size = float(np.max(mean_size(f2, at.derivative)))
    return scaled_point(
        f2,
        form,
        at.predictions,
        u,
        gradient,
        mu,
        objective,
        options.corrected_rounds,
        size,
        options=options,
        deadline=deadline,
        workspace=workspace,
    )


def _solved(hessian: SampledHessian, right: Array) -> Array:
    """Return v with ``H v = right``; zero where H is known by products only."""
    if hessian.implicit:
        return np.zeros_like(right)
    H: Any = hessian.matrix
    flat = right if len(H) == len(right) else right.ravel()
    size = np.sqrt(np.diag(H))
    size = np.where(size > 0, size, 1.0)
    scaled = H / np.outer(size, size)
    # dependent columns: the ridge leaves their directions alone, and refinement makes up for it in
    # the others
    scaled.flat[:: len(H) + 1] += 1e-11
    try:
        factor = linalg.cho_factor(scaled, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return np.zeros_like(right)
    found = np.zeros_like(flat)
    columns = (slice(None),) if flat.ndim == 1 else (slice(None), None)
    for _ in range(3):
        rest = (flat - H @ found) / size[columns]
        found = found + linalg.cho_solve(factor, rest, check_finite=False) / size[columns]
    return np.asarray(found.reshape(right.shape))


class Moved(NamedTuple):
    """What a model makes of the derivatives of a sample."""

    hessian: SampledHessian
    """The one in use, which may be damped."""
    model: QuadraticResult | None
    """None where it has no minimum in reach."""
    change: Array | None
    """Of the derivatives; None too far from the optimum."""
    mu: Array
    reads: float
    """Of the rows of the sample."""


def _solve(
    hessian: SampledHessian,
    minimize: Callable[..., QuadraticResult],
    at: Evaluation,
    near: Array,
    start: Array,
    penalty: float | None,
) -> Moved:
    """Minimize the model and change the derivatives by it, as far as their domains allow."""
    sample, first, reads = hessian.sample, None, 1.0
    guess = {"start": near, "dual": start, "penalty": penalty}
    if hessian.matrix.any():
        first = minimize(hessian.matrix, at.gradient, at.x, **guess)
    if first is None or (not first.residual < HOLDS and not sample.coupled):
        # rows on straight pieces of their losses may leave the model without a minimum
        hessian = hessian.damped(0.01 * min(float(sample.loss.curvature_bound), 1e6))
        first = minimize(hessian.matrix, at.gradient, at.x, **guess)
        reads += 1.0
    if not first.residual < 1e-2:  # no minimum, or none in reach
        return Moved(hessian, None, None, start, reads)
    found = Moved(hessian, first, None, first.dual, reads)
    return _in_domains(found, first, minimize, at)


def _in_domains(
    found: Moved,
    first: QuadraticResult,
    minimize: Callable[..., QuadraticResult],
    at: Evaluation,
) -> Moved:
    """Return a change that leaves all derivatives in their domains; ``found`` where there is none.

    Rows whose derivative would leave the domain of the conjugate stop short of its edge; the model
    is solved again with them held there, so that the other rows take over what they do not do.
    """
    hessian, sample, reads = found.hessian, found.hessian.sample, found.reads
    w, mu = first.w, first.dual
    held, free = np.zeros_like(sample.u), np.ones(sample.size, dtype=bool)
    for trial in range(5):
        if trial > 0:
            gradient = at.gradient + sample.pull_back(np.where(by_row(free, held), 0.0, held))
            again = minimize(
                hessian.over(free), gradient, at.x, start=w, dual=mu, penalty=first.penalty
            )
            if not again.residual < HOLDS:  # the rows left do not hold the model
                break
            w, mu = again.w, again.dual
            reads += 2.0
        change = np.where(by_row(free, held), hessian.derivative_change(w - at.x), held)
        reads += 1.0
        room = sample.dual_step_limit(change)
        out = (room < 1.0) & free
        # saturated rows have nothing to give: what they leave is a matter of rounding
        idle = out & (_size(change) <= 1e-12 * _size(change).max())
        change[idle], held[idle] = 0.0, 0.0
        out &= ~idle
        if not out.any():
            return found._replace(change=change, mu=mu, reads=reads)
        if not np.isfinite(change).all():
            return found._replace(reads=reads)
        if out.mean() > 0.3:  # there is no use in going on
            break
        held[out] = change[out] * by_row(0.99 * room, change)[out]
        free &= ~out
    # what is still outside makes the whole change smaller, and least squares fills the gap: where
    # all rows are at an edge, derivatives stay as they are, and the multiplier is what the model
    # tells
    return found._replace(change=change * float(room[out].min()), mu=mu, reads=reads)


def model_of(form: OneBlock, workspace: Workspace | None = None) -> QuadraticModel:
    """Return the solver of small problems with the penalties of a form."""
    return (workspace or Workspace()).once(_model, form)


def _model(form: OneBlock) -> QuadraticModel:
    return QuadraticModel(
        form.S, form.stacked_penalty, None, form.shape, form.offset, workspace=form.shared
    )


def _size(change: Array) -> Array:
    return np.asarray(np.abs(change) if change.ndim == 1 else np.abs(change).max(axis=1))


def sample_rows(f2: FiniteSum) -> NDArray[np.intp] | None:
    """Return the rows of the model, None for all of them.

    As many as a Hessian at the price of a pass allows, and not so few that tightness suffers.
    """
    n, d = f2.n_terms, f2.n_columns
    outputs = 1 if f2.n_outputs is None else f2.n_outputs
    # a multiplication in a matrix product costs about a thirtieth of reading a number twice
    work = outputs * (outputs + 1) / 2 * d / 15.0 + 1.0
    share = max(1.0 / work, 1.0 / 14.0)  # one pass; fewer rows than that make the bound loose
    run = 64  # rows in a run, which memory likes
    size = int(max(share * n, min(n, 4 * d), run))
    # up to 2e7 multiplications, hundredths of a second, all rows are as cheap
    if size >= 0.7 * n or n * d * d * outputs * outputs <= 2e7:
        return None
    return consecutive(n, size, run)
