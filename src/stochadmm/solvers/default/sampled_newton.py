"""Second-order steps from samples of rows, with their own certificate.

A problem whose first block can be eliminated, f2(w) + H(S w - o), is solved by steps that read the
data once each:

    at w: predictions, slopes, objective F(w) and gradient g of all rows     (one read)
    H_s: the Hessian from a sample of rows that sees rare columns            (a fraction of a read)
    w+ = argmin <g, . - w> + 1/2 <. - w, H_s (. - w)> + H(S . - o)           (no data)

The step is checked by the pass that the next one needs anyway; a bad one is shortened on the
predictions at hand, and answered with a larger sample and a share of the curvature bound. The
model's minimizer also corrects the dual point to second order (``certificates``), so that the
certificate costs no further read; it is made when the promised decrease says that it may succeed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import numpy as np

from ...base.capabilities import Has, offers
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates._certify import has_certificate
from ...certificates._composite import LARGEST_DENSE, Composite, Through
from ...certificates._corrected import (
    LARGEST_IMPLICIT,
    MODEL_TOL,
    Sample,
    corrected_point,
    has_model,
    is_implicit,
    model_of,
    shares_curvature,
)
from ...certificates._data import DataTerm, evaluate
from ...certificates._relative import gap_scale
from ...certificates._repair import repaired
from ...certificates._scaled import DualPoint
from ...exact import project
from ...problem import Pair, Problem
from ...quadratic import FLATTEN, Implicit
from ...risk.finite_sum import CSR, FiniteSum, Snapshot
from ...risk.metrics import has_sampler, row_sampler
from .._base import Solver, State, get, register, start_point
from ._newton import at_predictions

SINGLE = 256  # columns from which on the model's Hessian is made in float32
FIRST_TOL = 1e-2
PATIENCE = 4
CERTIFICATE_SHARE = 0.01
"""Accuracy of the certificate's model, relative to the target."""
FAITHFUL = 0.8
"""A Hessian is used again when the decrease was at least this share of the promised one, and at
most its inverse."""
DEAR = 30
"""Multiplications per row of the data from which on a sampled Hessian counts as dear."""
FEW, FEW_STEPS = 10, 8
"""A run begins with at most so many steps on every so-manieth row,"""
FEW_ROWS = 20
"""where these are so many per column."""
LARGE, MOST = 1 << 26, 10
"""Of data with so many bytes no more than every so-manieth row is copied for a sample."""
FREE, LITTLE, SCATTERED = 5e7, 2e6, 50
"""Multiplications of a Hessian that take no longer than the rest of a step, the same for steps on
few rows, and how many of them a multiplication of sparse rows is worth."""
USABLE = 0.1
"""Residual of a model up to which it says something about the penalty of the next one."""
TOO_FLAT = 0.8
"""A sample whose curvature along a poor step is below this share of the true one is doubled."""
ENOUGH = 0.1
WITHIN_REACH, WITHIN_NEWTONS_REACH = 3.0, 2 / 3
"""A certificate is tried when the promised decrease is at most this many times the target, or this
power of it. With a sample of rows the bound is too small by about the decrease over the share of
the rows; with all of them by about its square."""


@dataclass
class NewtonState(State):
    """State of the second-order steps."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    sample_size: int = field(kw_only=True)
    share: float = 0.0
    """Share of the curvature bound in the model, raised when steps fail."""
    shortened: int = 0
    """Steps that had to be shortened, less those that had not."""
    refused: int = 0
    """Steps in a row that did not lower the objective."""
    other: State | None = None
    """State of the method that takes over from steps that keep being refused."""
    sample: Sample | None = field(default=None, repr=False)
    """Rows and Hessian of the last step, for a run that follows on the same rows."""
    kept: Sample | None = field(default=None, repr=False)
    """The same for the next step too, where they are dear and still true."""
    penalty: float | None = None
    """First penalty of the next model's splitting."""
    faithful: bool = False
    """Whether the last step did what its model had promised."""
    promised: float = np.inf
    """Decrease that the last model promised."""
    bend: float = 0.0
    """The model's curvature along its step."""
    certificate: DualPoint | None = field(default=None, repr=False)
    """The dual point of the best bound."""
    model_tol: float = FIRST_TOL
    """Accuracy that the next model begins with."""


@register
@dataclass(frozen=True)
class SampledNewton(Solver):
    """Proximal Newton steps whose Hessian comes from a sample of rows.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 8))
    >>> y = np.sign(X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(500))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(8), on_structure=sa.L1(0.01)
    ... )
    >>> sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8)).status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "sampled-newton"
    has_kernel: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        """Raise when the problem allows no model."""
        reason = why_not(problem)
        if reason is not None:
            raise ValueError(f"{self.name} cannot serve this problem: {reason}; use 'auto'")

    def memory(self, problem: Problem) -> int:
        """Return the bytes of five square matrices, two passes and the row probabilities."""
        d, outputs = problem.shape2[0], int(np.prod(problem.shape2[1:]))
        side = d * outputs if d * outputs <= FLATTEN else d
        rows = problem.f2.n_terms
        return 8 * (5 * side**2 + 2 * rows) + problem.dtype.itemsize * 4 * rows * outputs

    def start(
        self, problem: Problem, x: Pair | None = None, dual: Array | None = None,
        workspace: Workspace | None = None,
    ) -> NewtonState:  # fmt: skip
        """Return the state before the first epoch: some of the rows may have led somewhere."""
        point, multiplier = start_point(problem, x, dual)
        point = inside(problem, point)
        form, f2 = Composite.of(problem), cast(FiniteSum, problem.f2)
        mu = form.from_multiplier(None if dual is None else multiplier)
        state = self.start_at(problem, point, mu, workspace)
        self._recall(f2, state)
        if x is None and dual is None and _many(f2):
            self._start_from_few(problem, state)
        if state.cache is None:
            state.cache = replace(f2.snapshot(state.output.x2), x=state.output.x2)
            state.n_passes += 1.0
            state.n_gradients += 1.0
        return state

    def start_at(
        self, problem: Problem, point: Pair, mu: Array, workspace: Workspace | None = None
    ) -> NewtonState:
        """Return the state at a feasible point whose pass is still to be made."""
        dual = Composite.of(problem).to_multiplier(mu).astype(problem.dtype)
        return NewtonState(
            workspace=workspace or Workspace(),
            x=point, output=point, dual=dual, beta=1.0, mu=mu,
            sample_size=first_sample(cast(FiniteSum, problem.f2)),
            bound=-np.inf,  # nothing is certified before it may succeed
        )  # fmt: skip

    def _start_from_few(self, problem: Problem, state: NewtonState) -> None:
        """Begin where some of the rows lead: their steps cost a fraction of a read each."""
        few = _few(cast(FiniteSum, problem.f2))
        small = replace(problem, f2=few)
        s = self.start(small, workspace=state.workspace)
        s.sample_size = first_sample(few, LITTLE)  # these steps need no more accuracy
        rng, share = np.random.default_rng(0), few.n_terms / problem.f2.n_terms
        for _ in range(FEW_STEPS):
            self.epoch(small, s, rng)
            if s.shortened or s.refused:
                break
            value = cast(Snapshot, s.cache).value + problem.penalty(s.output)
            # beyond this, these rows would tell of themselves only
            if s.promised <= 0.1 * few.n_columns / few.n_terms * abs(value):
                break
        state.x = state.output = s.output
        state.mu, state.dual = s.mu, s.dual
        state.penalty, state.model_tol = s.penalty, s.model_tol
        state.n_passes, state.n_gradients = share * s.n_passes, share * s.n_gradients

    def _recall(self, f2: FiniteSum, state: NewtonState) -> None:
        """Begin with what a run on the same rows has left: last pass, sample, sizes."""
        before: NewtonState | None = None if f2.kept is None else f2.kept.get("newton")
        if before is None:
            return
        state.sample_size, state.penalty = before.sample_size, before.penalty
        if before.cache is not None and np.array_equal(before.cache.x, state.output.x2):
            state.cache, state.kept = before.cache, before.sample

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one step."""
        s, f2, form = cast(NewtonState, state), cast(FiniteSum, problem.f2), Composite.of(problem)
        if s.refused >= PATIENCE or s.shortened >= PATIENCE - 1:
            take_over(problem, s, rng)
            return
        snapshot = s.cache
        if snapshot is None:
            snapshot = f2.snapshot(s.output.x2)
            s.n_passes += 1
            s.n_gradients += 1
        at = evaluate(f2, s.output.x2.astype(np.float64), snapshot)
        now = at.value + problem.penalty(s.output)
        sample = self._sample(problem, s, at, rng)
        w, mu, promised = self._model(problem, s, form, at, sample, now)
        H = sample.hessian(shares_curvature(f2, at))
        s.bend = _curvature(H, w - at.x)
        s.promised = promised
        taken = self._advance(problem, s, snapshot, w, now, promised)
        s.kept = sample if s.faithful and _dear(sample) else None
        if f2.kept is not None:
            s.sample, f2.kept["newton"] = sample, s
        s.mu = s.mu + taken * (mu - s.mu) if taken < 1 else mu
        s.dual = form.to_multiplier(s.mu).astype(problem.dtype)
        s.beta = 1.0 if s.penalty is None else s.penalty
        s.n_epochs += 1

    # ---------------------------------------------------------------- the model

    def _sample(
        self, problem: Problem, s: NewtonState, at: DataTerm, rng: np.random.Generator
    ) -> Sample:
        f2 = cast(FiniteSum, problem.f2)
        if s.kept is not None:
            return s.kept.renewed(at)
        if s.sample_size >= f2.n_terms:
            sample = Sample(f2, at, None)
        else:
            s.n_passes += 0 if has_sampler(f2) else 2
            rows, omega = row_sampler(f2).draw(s.sample_size, rng)
            sample = Sample(f2, at, rows, omega)
            s.n_passes += rows.size / f2.n_terms
        sample.single = f2.n_columns >= SINGLE
        bound = float(f2.loss.curvature_bound)
        sample.lift = s.share * min(bound, 1e6) if s.share else 0.0
        return sample

    def _model(
        self, problem: Problem, s: NewtonState, form: Composite, at: DataTerm, sample: Sample,
        now: float,
    ) -> tuple[Array, Array, float]:  # fmt: skip
        """Return the model's minimizer, its multiplier, and the decrease it promises."""
        f2 = cast(FiniteSum, problem.f2)
        H = sample.hessian(shares_curvature(f2, at))
        promised = 0.0
        # no digits are wasted on a dear model that is not true yet
        rough = isinstance(H, Implicit) and not s.faithful

        def accurate(w: Array) -> bool:
            """Say whether ten times the accuracy no longer changes what is promised."""
            nonlocal promised
            before, promised = promised, now - _upper(problem, at, w, H)
            return 0 < promised <= before * (1 + ENOUGH) or (rough and promised > 0)

        small = model_of(form).minimize(
            H, at.gradient, at.x, dual=s.mu, tol=s.model_tol, penalty=s.penalty, accept=accurate
        )
        w, mu = small.w, small.dual
        s.penalty = small.penalty if small.residual <= USABLE else None
        s.model_tol = min(30 * small.residual, FIRST_TOL)
        scale = gap_scale(problem, now, s.bound)
        share = sample.size / f2.n_terms
        if s.target is not None and promised <= _reach(share, s.target) * scale:
            # with all rows the minimizer is next to the solution: its digits are worth having
            exact = share == 1 and not isinstance(H, Implicit)
            tol = MODEL_TOL if exact else max(CERTIFICATE_SHARE * s.target, MODEL_TOL)
            # slopes of coupled outputs have little room: a lift would take them out of it
            own = sample.plain() if sample.coupled and sample.lift else sample
            found = corrected_point(f2, form, at, mu, now, own, w, tol, s.penalty)
            if found is not None and found.model is not None:
                if s.bound is None or found.point.bound > s.bound:
                    s.bound, s.certificate = found.point.bound, found.point
                w, mu = _structured(form, found.model, found.model.w), found.mu
                # a larger sample makes the next bound tighter and the next step better
                s.sample_size = max(s.sample_size, min(2 * s.sample_size, affordable(f2, 40)))
                promised = now - _upper(problem, at, w, H)
                return w, mu, promised
        return _structured(form, small, w), mu, promised

    def _advance(
        self, problem: Problem, s: NewtonState, snapshot: Snapshot, w: Array, now: float,
        promised: float,
    ) -> float:  # fmt: skip
        """Move to w, or as far towards it as the objective falls; return the share taken."""
        f2 = cast(FiniteSum, problem.f2)
        point = inside(problem, Pair(s.output.x1, w.astype(problem.dtype)))
        x2 = point.x2
        there = f2.snapshot(x2)
        s.n_passes += 1
        s.n_gradients += 1
        value = there.value + problem.penalty(point)
        t, slack, old, ahead = 1.0, 1e-14 * abs(now), s.output.x2, there.predictions

        def full_bend() -> float:
            return _bend(f2, snapshot, ahead - snapshot.predictions)

        if not value <= now - 1e-3 * max(promised, 0.0) + slack:
            change = there.predictions - snapshot.predictions
            t, point, value = self._shortened(problem, s.output, x2 - old, snapshot, change)
            s.shortened += 1
            s.share = min(1.0, max(10 * s.share, 1e-2))
            if not value <= now + slack:
                t, point, there = 0.0, s.output, snapshot
            else:
                there = at_predictions(f2, point.x2, snapshot.predictions + t * change)
                s.n_passes += 0.5
        else:
            s.share = s.share / 10 if s.share > 1e-6 else 0.0
            s.shortened = max(s.shortened - 1, 0)
        s.faithful = t == 1 and FAITHFUL * promised <= now - value <= promised / FAITHFUL
        if s.faithful:
            s.share = 0.0
        if now - value < 0.25 * promised and s.bend < TOO_FLAT * full_bend():
            s.sample_size = min(2 * s.sample_size, f2.n_terms)
        s.refused = 0 if value < now else s.refused + 1
        s.x = s.output = point
        s.cache = replace(there, x=point.x2)
        return t

    def _shortened(
        self, problem: Problem, start: Pair, step: Array, snapshot: Snapshot, change: Array
    ) -> tuple[float, Pair, float]:
        """Minimize along a step that leads too far, on the predictions at hand."""
        f2 = cast(FiniteSum, problem.f2)
        step = step.astype(problem.dtype)

        def point(t: float) -> Pair:
            return inside(problem, Pair(start.x1, start.x2 + problem.dtype.type(t) * step))

        def value(t: float) -> float:
            return f2.value_at(snapshot.predictions + t * change) + problem.penalty(point(t))

        t, best = 0.5, value(0.5)
        while t > 1e-6:
            shorter = value(t / 2)
            if not shorter < best:
                break
            t, best = t / 2, shorter
        return t, point(t), best


def take_over(problem: Problem, s: Any, rng: np.random.Generator) -> None:
    """Go on from the point reached with a method that needs no model of the loss.

    The state has a field ``other`` for that of the other method.
    """
    solver = get("sdca-admm" if dual_rows(problem) else "acc-sadmm")()
    if s.other is None:
        s.other = solver.start(problem, s.output, s.dual, s.workspace)
        s.other.engine = s.engine if _compiles(problem) else "reference"
        s.notes["then"] = f"its steps stopped helping, {solver.name} took over"
    passes, gradients = s.other.n_passes, s.other.n_gradients
    solver.epoch(problem, s.other, rng)
    s.n_passes += s.other.n_passes - passes
    s.n_gradients += s.other.n_gradients - gradients
    s.x, s.output, s.dual, s.beta = s.other.x, s.other.output, s.other.dual, s.other.beta
    s.cache = None
    s.n_epochs += 1


def inside(problem: Problem, x: Pair) -> Pair:
    """Return a feasible pair near x inside the domain of the penalties, where one is found."""
    near = problem.feasible(x)
    if np.isfinite(problem.penalty(near)):
        return near
    found = repaired(problem, near)
    if found is None:
        return near
    return Pair(found.x1.astype(problem.dtype), found.x2.astype(problem.dtype))


def _many(f2: FiniteSum) -> bool:
    """Say whether it pays to begin with a part of the rows."""
    plain = f2.n_outputs is None and f2.weight is None
    return plain and f2.n_terms // FEW >= max(FEW_ROWS * f2.n_columns, 2000)


def _few(f2: FiniteSum) -> FiniteSum:
    """Return a part of the rows, evenly drawn."""
    n, size = f2.n_terms, f2.n_terms // FEW
    marks = (np.arange(size) + np.random.default_rng(0).random(size)) * (n / size)
    rows = np.minimum(marks.astype(np.intp), n - 1)
    offset = None if f2.offset is None else f2.offset[rows]
    return FiniteSum(f2.loss, f2.X[rows], f2.y[rows], intercept=f2.intercept, offset=offset)


def _dear(sample: Sample) -> bool:
    """Say whether the Hessian of a sample costs more than the pass of a step."""
    f2 = sample.f2
    return sample.size < f2.n_terms and sample.size * f2.n_columns > DEAR * f2.n_terms


def _bend(f2: FiniteSum, snapshot: Snapshot, change: Array) -> float:
    """Return the curvature of f2 along a change of its predictions."""
    loss: Any = f2.loss
    curved = f2.weighted(loss.curvature_apply(snapshot.predictions, f2.y, change))
    return float(np.vdot(change, curved)) / f2.n_terms


def affordable(f2: FiniteSum, work: int) -> int:
    """Return the rows whose Hessian takes the work of ``work / 30`` reads of the data."""
    outputs = 1 if f2.n_outputs is None else f2.n_outputs
    rows = work * f2.n_terms // (f2.n_columns * outputs)
    return min(f2.n_terms, rows if f2.n_bytes < LARGE else min(rows, f2.n_terms // MOST))


def first_sample(f2: FiniteSum, free: float = FREE) -> int:
    """Return how many rows a Hessian takes: about a third of a read's work, and enough of them.

    ``free`` multiplications are always allowed.
    """
    n, d = f2.n_terms, f2.n_columns
    outputs = 1 if f2.n_outputs is None else f2.n_outputs
    enough = 4 * d if is_implicit(f2, False) else 8 * d * outputs
    size = max(affordable(f2, 10), enough, 256, int(free / (_row_work(f2) * outputs**2)))
    return n if size >= 0.7 * n else int(size)


def _row_work(f2: FiniteSum) -> float:
    """Return the multiplications that a row's part of a Hessian is worth."""
    d = f2.n_columns
    if f2.storage != CSR:
        return float(d * d)
    filled = np.diff(f2.X.indptr).astype(np.float64) + f2.intercept
    return float(min(d * d, 1 + SCATTERED * np.mean(filled**2)))


def _reach(share: float, target: float) -> float:
    """Return the promised decrease, relative to the objective, that may be certified."""
    near = WITHIN_REACH * share * target
    return near if share < 1 else max(near, target**WITHIN_NEWTONS_REACH)


def _curvature(H: Any, step: Array) -> float:
    """Return <step, H step>."""
    same = isinstance(H, Implicit) or len(H) == len(step)
    flat = step if same else step.ravel()
    return float(np.vdot(flat, H @ flat))


def _upper(problem: Problem, at: DataTerm, w: Array, H: Any) -> float:
    """Return the model's value at w."""
    step = w - at.x
    value = at.value + float(np.vdot(at.gradient, step)) + 0.5 * _curvature(H, step)
    x2 = w.astype(problem.dtype)
    return value + problem.penalty(inside(problem, Pair(problem.zeros().x1, x2)))


def _structured(form: Composite, found: Any, w: Array) -> Array:
    """Return w with the exact zeros and ties that the model's prox made, once it is accurate."""
    if found.residual > 1e-6:
        return w
    zero = found.z == 0
    if not zero.any() or zero.shape[0] != form.S.shape[0]:
        return w
    exact = project(form.S, zero, np.zeros(w.shape, dtype=bool), w)
    close = np.abs(exact - w).max(initial=0.0) <= 1e-5 * max(np.abs(w).max(initial=0.0), 1e-300)
    return exact if close and not form.offset.any() else w


def _compiles(problem: Problem) -> bool:
    from ...forms import compiled as views

    return views.why_not(problem) is None


def dual_rows(problem: Problem) -> bool:
    """Say whether the dual variables of the rows, fewer than the columns, can be stepped in."""
    try:
        get("sdca-admm")().check(problem)
    except (TypeError, ValueError):
        return False
    return True


def why_not(problem: Problem) -> str | None:
    """Return why these steps cannot serve a problem, None if they can."""
    f2 = problem.f2
    if not isinstance(f2, FiniteSum) or not offers(f2.loss, Has.CURVATURE_APPLY):
        return "the loss offers no curvature"
    if f2.n_columns > LARGEST_IMPLICIT:
        return f"{f2.n_columns} columns are too many for a model"
    if problem.h1 is None and problem.h2 is None:
        return "no penalty"
    if not has_certificate(problem):
        return "a part has no conjugate, or an operator no matrix"
    form = Composite.of(problem)
    if any(isinstance(part, Through) for part, _ in form.parts):
        return "A1 is not a multiple of the identity"
    if f2.n_columns > LARGEST_DENSE and form.ties_columns:
        return f"{f2.n_columns} columns, tied by the structure, are too many for a model"
    zero = np.zeros(problem.shape2)
    small = f2.predict(zero.astype(f2.dtype), slice(0, 100))
    probe = DataTerm(zero, np.zeros((f2.n_terms, *small.shape[1:])), small, 0.0, zero, 0.0)
    if not has_model(f2, form, probe):
        return "its losses or penalties allow no model"
    return None
