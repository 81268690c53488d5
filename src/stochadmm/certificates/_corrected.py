"""The dual point of the slopes, corrected to second order by a model of some of the rows.

With W the curvatures and weights ``omega_i >= 1`` on the rows of a sample, let
``H = (1/n) sum_i omega_i q_i a_i W_i a_i'`` and let w minimize the model of the objective with
this Hessian, with multiplier mu: ``g + H (w - x) + S' mu = 0``. The dual point
``u_i + omega_i W_i a_i'(w - x)`` then satisfies the dual equation exactly, whatever the sample,
and its bound is second order in ``w - x``; a small sample only costs a factor of about omega.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..linear_algebra.dense import weighted_gram
from ..quadratic import FLATTEN, Implicit, QuadraticModel, QuadraticResult
from ..risk.finite_sum import FiniteSum
from ._charge import mean_size, rounding
from ._composite import LARGEST_DENSE, MOST_ENTRIES, Composite, Through
from ._data import DataTerm, pull_back_block, sample_weights, weighted
from ._scaled import DualPoint, scaled_point

RUN = 64
"""Rows are sampled in runs of this length, which memory likes."""
LEAST_SHARE = 14
"""The sample holds at least the n-th part of the rows: the price in tightness."""
HESSIAN_PASSES = 1.0
CHEAP_WORK = 2e7
"""Multiplications below which all rows are taken."""
ROUNDS = 5
MODEL_TOL = 1e-11
MODEL_ITER = 1000
MOST_CAPPED = 0.3
EDGE = 0.99
"""How far towards the edge of its domain a held slope goes."""
LIFT = 0.01
CLOSED = 1e6
"""Times rounding below which the dual equation is closed but for the model's accuracy."""
NEGLIGIBLE = 1e-12
LARGEST_IMPLICIT = 20_000
"""Columns up to which a model is solved by conjugate gradients."""


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


class Sample:
    """Some rows with their predictions, slopes, curvatures and weights."""

    def __init__(
        self,
        f2: FiniteSum,
        at: DataTerm,
        rows: NDArray[np.intp] | None,
        omega: Array | None = None,
    ) -> None:
        self.f2, self.loss = f2, cast(Any, f2.loss)
        self.index: Any = slice(None) if rows is None else rows
        self.size = f2.n_terms if rows is None else len(rows)
        self.omega: Any = f2.n_terms / self.size if omega is None else omega
        self.z, self.u, self.y = (
            at.predictions[self.index],
            at.slopes[self.index],
            f2.y[self.index],
        )
        q = sample_weights(f2)
        self.q = None if q is None else q[self.index]
        self.block = f2.X if rows is None else f2.X[rows]
        self.lift = 0.0
        """Added to the curvatures: any choice keeps the dual equation exact."""
        self.single = False
        """Make H in float32: it shapes the model only, the dual equation is closed on the rows."""
        self._kept: tuple[float, Any] | None = None
        self._curvature: Callable[[Array], Array] | None = None
        self._turned: Any = None

    def renewed(self, at: DataTerm) -> Sample:
        """Return the same rows and curvatures with the slopes of another point."""
        other = copy(self)
        other.u = at.slopes[self.index]
        return other

    def plain(self) -> Sample:
        """Return the same rows without a lift."""
        other = copy(self)
        other.lift = 0.0
        return other

    @cached_property
    def coupled(self) -> bool:
        """Whether the slope of an output depends on the predictions of others."""
        return not _elementwise(self)

    def predict(self, step: Array) -> Array:
        """Return ``a_i' step`` of the rows, the intercept's part included, no offset."""
        z = self.block @ step[: self.f2.n_features]
        return cast(Array, z + step[-1] if self.f2.intercept else z)

    def bend(self, step: Array) -> Array:
        """Return the change of the slopes along a step of x, weighted by omega."""
        curved = self._curve(self.predict(step))
        return cast(Array, _rows(self.omega, curved) * curved)

    def _curve(self, v: Array) -> Array:
        if self._curvature is None:
            if offers(self.loss, Has.CURVATURE_OPERATOR):
                self._curvature = self.loss.curvature_operator(self.z, self.y)
            else:
                self._curvature = partial(self.loss.curvature_apply, self.z, self.y)
        curved: Array = self._curvature(v)
        if not self.lift:
            return curved
        if self.coupled:  # their slopes add up to zero
            v = v - v.mean(axis=1, keepdims=True)
        return curved + self.lift * v

    def pull_back(self, du: Array) -> Array:
        """Return ``X'(q du) / n`` over the rows."""
        if self._turned is None and sparse.issparse(self.block):
            self._turned = sparse.csr_array(
                cast(Any, self.block).T
            ).T  # products with it go by rows
        block = self.block if self._turned is None else self._turned
        return pull_back_block(self.f2, block, weighted(self.q, du)) / self.f2.n_terms

    def hessian(self, shared: bool, free: Array | None = None) -> Any:
        """Return H over the rows that are free; of all entries unless the outputs share it.

        Too many columns, or coupled outputs with too many entries, make it an operator.
        """
        if is_implicit(self.f2, shared):
            return self._operator(free)
        if self._kept is None or self._kept[0] != self.lift:
            self._kept = self.lift, self._hessian(shared, None)
        if free is None:
            return self._kept[1]
        if 2 * np.count_nonzero(~free) < free.size:  # the rows that are not free cost less
            return self._kept[1] - self._hessian(shared, ~free)
        return self._hessian(shared, free)

    def _operator(self, free: Array | None) -> Implicit:
        if self._kept is None or self._kept[0] != self.lift:
            self._kept = self.lift, Implicit(self._apply(None), self._metric())
        kept: Implicit = self._kept[1]
        return kept if free is None else Implicit(self._apply(free), kept.metric)

    def _apply(self, free: Array | None) -> Callable[[Array], Array]:
        def apply(step: Array) -> Array:
            curved = self.bend(step)
            return self.pull_back(
                curved if free is None else np.where(_rows(free, curved), curved, 0)
            )

        return apply

    def _metric(self) -> Array:
        """Return a matrix for all outputs alike that resembles H, or its diagonal."""
        curve = np.asarray(self.loss.curvature(self.z, self.y), dtype=np.float64) + self.lift
        curve = weighted(self.q, curve)
        numbers = curve if curve.ndim == 1 else curve.mean(axis=1)
        numbers = numbers * (self.omega / self.f2.n_terms)
        if self.f2.n_columns <= LARGEST_DENSE:
            return weighted_gram(self.block, numbers, self.f2.intercept, self.single)
        block: Any = self.block
        squares = cast(Any, block).power(2) if sparse.issparse(block) else np.square(block)
        return pull_back_block(self.f2, squares, numbers)

    def _hessian(self, shared: bool, free: Array | None) -> Array:
        if self.z.ndim == 1 or shared:
            unit = np.zeros_like(self.z)
            unit[..., 0 if unit.ndim == 2 else slice(None)] = 1.0
            curve = self._curve(unit)
            curve = curve if curve.ndim == 1 else curve[:, 0]
            return self._product(weighted(self.q, curve), free)
        outputs = self.z.shape[1]
        d = self.f2.n_columns
        H = np.zeros((d, outputs, d, outputs))
        for c in range(outputs):
            unit = np.zeros_like(self.z)
            unit[:, c] = 1.0
            curve = weighted(self.q, self._curve(unit))
            for e in range(c, outputs):
                if curve[:, e].any():
                    H[:, e, :, c] = self._product(curve[:, e], free)
                    H[:, c, :, e] = H[:, e, :, c]
        return H.reshape(d * outputs, d * outputs)

    def _product(self, curve: Array, free: Array | None) -> Array:
        """Return ``(omega / n) sum_i curve_i a_i a_i'``."""
        numbers, block = curve * (self.omega / self.f2.n_terms), self.block
        if free is not None:
            numbers, block = numbers[free], block[free]
        return weighted_gram(block, numbers, self.f2.intercept, self.single)


def has_model(f2: FiniteSum, form: Composite, at: DataTerm) -> bool:
    """Say whether the second-order model can be made: a matrix that fits, or its products."""
    if any(isinstance(part, Through) for part, _ in form.parts) or not form.parts:
        return False
    if not offers(f2.loss, Has.CURVATURE_APPLY):
        return False
    if not is_implicit(f2, shares_curvature(f2, at)):
        return True
    if f2.n_columns <= LARGEST_DENSE:
        return True
    # fewer rows than columns leave conjugate gradients little to go by, and ties need many of them
    cheap = not form.ties_columns or f2.n_entries <= MOST_ENTRIES * f2.n_columns
    return f2.n_columns <= min(f2.n_terms, LARGEST_IMPLICIT) and cheap


def is_implicit(f2: FiniteSum, shared: bool) -> bool:
    """Say whether the Hessian is too large to be made."""
    if f2.n_columns > LARGEST_DENSE:
        return True
    return f2.n_outputs is not None and not shared and f2.n_columns * f2.n_outputs > FLATTEN


def corrected_point(
    f2: FiniteSum, form: Composite, at: DataTerm, start: Array, objective: float,
    sample: Sample | None = None, near: Array | None = None, tol: float = MODEL_TOL,
    penalty: float | None = None,
) -> Corrected | None:  # fmt: skip
    """Return the corrected dual point at ``at``; None where the model cannot be made or used.

    ``objective`` is F at a feasible point; ``start`` and ``near`` are first guesses of the
    multiplier and of the model's minimizer;
    ``tol`` is the accuracy of the model: the bound loses about as much relative to the optimum;
    ``penalty`` is a first one for its splitting.
    """
    if not has_model(f2, form, at):
        return None
    shared = shares_curvature(f2, at)
    if sample is None:
        sample = Sample(f2, at, sample_rows(f2))
    near = at.x if near is None else near
    model, du, mu, passes = _solve(sample, form, at, near, start, shared, tol, penalty)
    reads = passes * sample.size / f2.n_terms
    if du is None:
        return Corrected(DualPoint(-np.inf, mu, at.slopes), model, mu, reads)
    point = _point(f2, form, at, sample, du, mu, objective)
    left = at.gradient + sample.pull_back(du) + form.St @ mu
    edge = point.factor < 0.5 or not np.isfinite(point.bound)
    if edge and (np.abs(left) <= CLOSED * rounding(f2, form, at.slopes, mu)).all():
        # at the edge of a cone no factor makes up for the last digits: the slopes take them
        du = du - sample.bend(_solved(sample.hessian(shared), left))
        other = _point(f2, form, at, sample, du, mu, objective)
        point = other if other.bound > point.bound else point
    return Corrected(point, model, mu, reads)


def _point(
    f2: FiniteSum, form: Composite, at: DataTerm, sample: Sample, du: Array, mu: Array,
    objective: float,
) -> DualPoint:  # fmt: skip
    u = at.slopes.copy()
    u[sample.index] += du
    gradient = at.gradient + sample.pull_back(du)
    size = float(np.max(mean_size(f2, at.slopes)))
    return scaled_point(f2, form, at.predictions, u, gradient, mu, objective, 4, size)


def _solved(H: Any, right: Array) -> Array:
    """Return the smallest v with ``H v = right``; zero where H is known by products only."""
    if isinstance(H, Implicit):
        return np.zeros_like(right)
    flat = right if len(H) == len(right) else right.ravel()
    found: Array = np.linalg.lstsq(H, flat, rcond=1e-12)[0]
    return found.reshape(right.shape)


def _solve(
    sample: Sample,
    form: Composite,
    at: DataTerm,
    near: Array,
    start: Array,
    shared: bool,
    tol: float,
    penalty: float | None,
) -> tuple[QuadraticResult | None, Array | None, Array, float]:
    """Return the model, the change of the slopes, the multiplier, and reads of the sample.

    Without a minimum there is no model, too far from the optimum no change.

    Rows whose slope would leave the domain of the conjugate stop short of its edge; the model is
    solved again with them held there, so that the other rows take over what they do not do.
    """
    H = sample.hessian(shared)
    first, reads = None, 1.0
    if H.any():
        first = _minimize(form, H, at.gradient, at.x, near, start, tol, penalty)
    if first is None or (not first.residual < 1e-4 and not sample.coupled):
        # rows on straight pieces of their losses may leave the model without a minimum
        sample.lift = LIFT * min(float(sample.loss.curvature_bound), 1e6)
        H = sample.hessian(shared)
        first = _minimize(form, H, at.gradient, at.x, near, start, tol, penalty)
        reads += 1.0
    w, mu = first.w, first.dual
    if not first.residual < 1e-2:  # no minimum, or none in reach
        return None, None, start, reads
    held, free = np.zeros_like(sample.u), np.ones(sample.size, dtype=bool)
    for trial in range(ROUNDS):
        if trial > 0:
            gradient = at.gradient + sample.pull_back(np.where(_rows(free, held), 0.0, held))
            found = _minimize(
                form, sample.hessian(shared, free), gradient, at.x, w, mu, tol, first.penalty
            )
            if not found.residual < 1e-4:  # the rows left do not hold the model
                return first, None, first.dual, reads
            w, mu = found.w, found.dual
            reads += 2.0
        change = np.where(_rows(free, held), sample.bend(w - at.x), held)
        reads += 1.0
        room = _room(sample, change)
        out = (room < 1.0) & free
        # saturated rows have nothing to give: what they leave is a matter of rounding
        idle = out & (_size(change) <= NEGLIGIBLE * _size(change).max())
        change[idle], held[idle] = 0.0, 0.0
        out &= ~idle
        if not out.any():
            return first, change, mu, reads
        if not np.isfinite(change).all() or out.mean() > MOST_CAPPED:
            return first, None, first.dual, reads
        held[out] = change[out] * _rows(EDGE * room, change)[out]
        free &= ~out
    # what is still outside makes the whole change smaller, and least squares fills the gap
    return first, change * float(room[out].min()), mu, reads


def model_of(form: Composite) -> QuadraticModel:
    """Return the solver of small problems with the penalties of a form; it is kept with it."""
    kept = form.__dict__.get("_model")
    if kept is None:
        kept = QuadraticModel(form.S, form.stacked_penalty, None, form.shape, form.offset)
        form.__dict__["_model"] = kept
    return cast(QuadraticModel, kept)


def _minimize(
    form: Composite, H: Array, gradient: Array, center: Array, start: Array, mu: Array,
    tol: float, penalty: float | None,
) -> QuadraticResult:  # fmt: skip
    return model_of(form).minimize(
        H,
        gradient,
        center,
        start=start,
        dual=mu,
        tol=tol,
        max_iter=MODEL_ITER,
        penalty=penalty,
    )


def _elementwise(sample: Sample) -> bool:
    if sample.z.ndim == 1:
        return True
    unit = np.zeros_like(sample.z[:50])
    unit[:, 0] = 1.0
    return not sample.loss.curvature_apply(sample.z[:50], sample.y[:50], unit)[:, 1:].any()


def _rows(numbers: Any, like: Array) -> Any:
    return numbers if like.ndim == 1 or np.ndim(numbers) == 0 else numbers[:, None]


def _size(change: Array) -> Array:
    return cast(Array, np.abs(change) if change.ndim == 1 else np.abs(change).max(axis=1))


def _room(sample: Sample, change: Array) -> Array:
    if not offers(sample.loss, Has.DUAL_ROOM):
        return np.ones(sample.size)
    u = sample.u
    room = np.asarray(sample.loss.dual_room(u, change, sample.y))
    if sample.q is not None:
        absent = (sample.q if sample.q.ndim == 1 else sample.q.max(axis=1)) == 0
        room = np.where(absent, 1.0, room)
    return room


def shares_curvature(f2: FiniteSum, at: DataTerm) -> bool:
    """Tell whether all outputs have the same curvature, as those of the squared error."""
    if f2.n_outputs is None:
        return True
    if f2.weight is not None and f2.weight.ndim == 2:
        return False
    loss: Any = f2.loss
    few = slice(0, 100)
    z, y = at.predictions[few], f2.y[few]
    unit = np.zeros_like(z)
    unit[:, 0] = 1.0
    if loss.curvature_apply(z, y, unit)[:, 1:].any():
        return False
    curve = loss.curvature(at.predictions, f2.y)
    return bool((curve == curve[:, :1]).all())


def sample_rows(f2: FiniteSum) -> NDArray[np.intp] | None:
    """Return the rows of the model, None for all of them.

    As many as a Hessian at the price of a pass allows, and not so few that tightness suffers.
    """
    n, d = f2.n_terms, f2.n_columns
    outputs = 1 if f2.n_outputs is None else f2.n_outputs
    # a multiplication in a matrix product costs about a thirtieth of reading a number twice
    work = outputs * (outputs + 1) / 2 * d / 15.0 + 1.0
    share = max(HESSIAN_PASSES / work, 1.0 / LEAST_SHARE)
    size = int(max(share * n, min(n, 4 * d), RUN))
    if size >= 0.7 * n or n * d * d * outputs * outputs <= CHEAP_WORK:
        return None
    runs = np.random.default_rng(0).permutation(n // RUN)[: max(1, size // RUN)]
    return (np.sort(runs)[:, None] * RUN + np.arange(RUN)).ravel()
