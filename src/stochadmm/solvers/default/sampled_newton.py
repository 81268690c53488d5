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
from typing import ClassVar

import numpy as np

from ...base.capabilities import Has
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates import (
    DualPoint,
    corrected_point,
    gap_scale,
    has_model,
    model_of,
)
from ...forms.one_block import OneBlock, one_block
from ...problem import Pair, Problem
from ...quadratic import QuadraticResult
from ...risk import Evaluation, FiniteSum, loss_of_rows
from ...risk.curvature import LIMITS, RowSample, SampledHessian, shares_curvature
from ...risk.metrics import row_sampler, sampler_reads
from ...risk.parts import as_finite_sum, at_predictions
from ...second_order import (
    Ray,
    SecondOrderOptions,
    affordable,
    begins_with_part,
    curvature_along,
    double,
    first_sample,
    halve,
    inside,
    model_value,
    part_of,
    priced,
    structured,
    why_no_form,
)
from .._base import Solver, State, own_state, start_point
from .handover import take_over


@dataclass
class NewtonState(State):
    """State of the second-order steps."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    sample_size: int = field(kw_only=True)
    damping: float = 0.0
    """Share of the curvature bound that is added to the model, raised when steps fail."""
    shortened: int = 0
    """Steps that had to be shortened, less those that had not."""
    refused: int = 0
    """Steps in a row that did not lower the objective."""
    other: State | None = None
    """State of the method that takes over from steps that keep being refused."""
    reused: SampledHessian | None = field(default=None, repr=False)
    """Rows and Hessian of the last step, where they are costly and still true."""
    penalty: float | None = None
    """First penalty of the next model's splitting."""
    faithful: bool = False
    """Whether the last step did what its model had promised."""
    objective: float = np.inf
    """F at the output."""
    promised: float = np.inf
    """Decrease that the last model promised."""
    curvature: float = 0.0
    """The model's curvature along its step."""
    certificate: DualPoint | None = field(default=None, repr=False)
    """The dual point of the best bound."""
    model_tol: float = field(kw_only=True)
    """Accuracy that the next model begins with."""
    sampled: bool = False
    """Whether the reads that drawing rows takes are counted."""


@dataclass
class NewtonMemory:
    """What a run leaves to the next one on the same rows, a path's next strength."""

    cache: Evaluation | None = None
    hessian: SampledHessian | None = None
    sample_size: int = 0
    penalty: float | None = None


def newton_memory(f2: FiniteSum) -> NewtonMemory:
    """Return the memory of runs on the rows of f2 before the first of them."""
    return NewtonMemory()


@dataclass(frozen=True)
class SampledNewton(Solver[NewtonState]):
    """Subsampled proximal Newton: exact gradients, the Hessian from a sample of rows.

    Parameters
    ----------
    options : SecondOrderOptions
        Sizes of samples, accuracies, patience: numbers that rarely need a change.

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
    options: SecondOrderOptions = field(default_factory=SecondOrderOptions)

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why these steps cannot serve a problem, None if they can."""
        f2 = loss_of_rows(problem.f2, Has.CURVATURE_APPLY)
        if f2 is None:
            return "the loss offers no curvature"
        if f2.n_columns > LIMITS.products:
            return f"{f2.n_columns} columns are too many for a model"
        reason = why_no_form(problem, workspace)
        if reason is not None:
            return reason
        form = one_block(problem, workspace)
        if f2.n_columns > LIMITS.columns and form.ties_columns:
            return f"{f2.n_columns} columns, tied by the structure, are too many for a model"
        if not has_model(f2, form, np.zeros((f2.n_terms, *f2.shape[1:]))):
            return "its losses or penalties allow no model"
        return None

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> NewtonState:
        """Return the state before the first epoch: some of the rows may have led somewhere."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        point = inside(problem, point, workspace)
        form, f2 = one_block(problem, workspace), as_finite_sum(problem.f2)
        mu = form.from_multiplier(None if dual is None else multiplier, deadline=deadline)
        state = self.start_at(problem, point, mu, workspace)
        state.deadline = deadline
        self._recall(f2, state)
        if x is None and dual is None and begins_with_part(f2, self.options):
            self._start_from_part(problem, state)
        if state.cache is None:
            state.cache = replace(f2.evaluate(state.output.x2), x=state.output.x2)
            state.n_passes += 1.0
            state.n_gradients += 1.0
        return state

    def start_at(
        self, problem: Problem, point: Pair, mu: Array, workspace: Workspace
    ) -> NewtonState:
        """Return the state at a feasible point whose pass is still to be made."""
        dual = one_block(problem, workspace).to_multiplier(mu).astype(problem.dtype)
        return NewtonState(
            workspace=workspace,
            x=point,
            output=point,
            dual=dual,
            beta=1.0,
            mu=mu,
            sample_size=first_sample(as_finite_sum(problem.f2), self.options),
            model_tol=self.options.first_tol,
            bound=-np.inf,  # nothing is certified before it may succeed
        )

    def _start_from_part(self, problem: Problem, state: NewtonState) -> None:
        """Begin where some of the rows lead: their steps cost a fraction of a read each."""
        o = self.options
        part = part_of(as_finite_sum(problem.f2), o)
        small = replace(problem, f2=part)
        s = self.start(small, workspace=state.workspace.run(), deadline=state.deadline)
        s.sample_size = first_sample(part, o, o.free_work_few)
        rng, share = np.random.default_rng(0), part.n_terms / problem.f2.n_terms
        for _ in range(o.part_steps):
            self.epoch(small, s, rng)
            if s.shortened or s.refused:
                break
            # beyond this, these rows would tell of themselves only
            if s.promised <= 0.1 * part.n_columns / part.n_terms * abs(s.objective):
                break
        state.x = state.output = s.output
        state.mu, state.dual = s.mu, s.dual
        state.penalty, state.model_tol = s.penalty, s.model_tol
        state.n_passes, state.n_gradients = share * s.n_passes, share * s.n_gradients

    def _recall(self, f2: FiniteSum, state: NewtonState) -> None:
        """Begin with what a run on the same rows has left: last pass, sample, sizes."""
        before = state.workspace.rows.once(newton_memory, f2)
        if before.cache is None:
            return
        state.sample_size, state.penalty = before.sample_size, before.penalty
        if np.array_equal(before.cache.x, state.output.x2):
            state.cache, state.reused = before.cache, before.hessian

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one step."""
        s, f2 = own_state(state, NewtonState), as_finite_sum(problem.f2)
        form = one_block(problem, s.workspace)
        if s.refused >= self.options.patience or s.shortened >= self.options.short_steps:
            take_over(problem, s, rng)
            return
        snapshot = s.cache
        if snapshot is None:
            snapshot = f2.evaluate(s.output.x2)
            s.n_passes += 1
            s.n_gradients += 1
        at = f2.evaluate_exactly(s.output.x2.astype(np.float64), snapshot)
        now = at.value + problem.penalty(s.output)
        hessian = self._hessian(f2, s, at, rng)
        w, mu, s.promised = self._model(problem, s, form, at, hessian, now)
        # rows that are all flat leave the model without a minimizer
        while not are_numbers(w, mu) and s.damping < 1:
            s.penalty, s.model_tol, s.damping = None, self.options.first_tol, self._more(s.damping)
            hessian = hessian.damped(damping_weight(f2, s.damping))
            w, mu, s.promised = self._model(problem, s, form, at, hessian, now)
        if not are_numbers(w, mu):
            w, mu, s.promised = at.x, s.mu, 0.0
        s.curvature = hessian.along(w - at.x)
        s.settled = hessian.sample.size == f2.n_terms and self._is_rounding(s, now)
        taken = self._advance(problem, f2, s, snapshot, w, now)
        s.reused = hessian if s.faithful and self._is_costly(hessian.sample) else None
        memory = s.workspace.rows.once(newton_memory, f2)
        memory.cache, memory.hessian = s.cache, hessian
        memory.sample_size, memory.penalty = s.sample_size, s.penalty
        s.mu = s.mu + taken * (mu - s.mu) if taken < 1 else mu
        s.dual = form.to_multiplier(s.mu).astype(problem.dtype)
        s.beta = 1.0 if s.penalty is None else s.penalty
        s.n_epochs += 1

    def _is_rounding(self, s: NewtonState, now: float) -> bool:
        """Say whether a model of all rows promises nothing where a bound is near."""
        near = s.bound is not None and now - s.bound <= self.options.near * abs(now)
        return near and s.promised <= self.options.rounding * abs(now)

    # ---------------------------------------------------------------- the model

    def _hessian(
        self, f2: FiniteSum, s: NewtonState, at: Evaluation, rng: np.random.Generator
    ) -> SampledHessian:
        """Return the Hessian of a sample of rows, the last one where it is to be used again."""
        if s.reused is not None:
            return s.reused.at(at.derivative)
        if s.sample_size >= f2.n_terms:
            sample = RowSample(f2, at.predictions, at.derivative)
        else:
            if not s.sampled:  # a run that is taken up has counted them before
                s.n_passes, s.sampled = s.n_passes + sampler_reads(f2, s.workspace), True
            rows, omega = row_sampler(f2, s.workspace).draw(s.sample_size, rng)
            sample = RowSample(f2, at.predictions, at.derivative, rows, omega)
            s.n_passes += rows.size / f2.n_terms
        single, damping = (
            f2.n_columns >= self.options.single_columns,
            damping_weight(f2, s.damping),
        )
        return SampledHessian(sample, shares_curvature(f2, at.predictions), damping, single)

    def _model(
        self,
        problem: Problem,
        s: NewtonState,
        form: OneBlock,
        at: Evaluation,
        hessian: SampledHessian,
        now: float,
    ) -> tuple[Array, Array, float]:
        """Return the model's minimizer, its multiplier, and the decrease it promises."""
        o, H = self.options, hessian.matrix
        promised = 0.0
        # no digits are wasted on a costly model that is not true yet
        rough = hessian.implicit and not s.faithful

        def accurate(w: Array) -> bool:
            """Say whether ten times the accuracy no longer changes what is promised."""
            nonlocal promised
            before, promised = promised, now - model_value(problem, at, H, w, s.workspace)
            return 0 < promised <= before * (1 + o.enough) or (rough and promised > 0)

        small = model_of(form, s.workspace).minimize(
            H,
            at.gradient,
            at.x,
            dual=s.mu,
            tol=s.model_tol,
            penalty=s.penalty,
            accept=accurate,
            deadline=s.deadline,
        )
        s.penalty = small.penalty if small.residual <= o.usable else None
        s.model_tol = min(30 * small.residual, o.first_tol)
        if s.target is not None:
            share = hessian.sample.size / problem.f2.n_terms
            scale = gap_scale(problem, now, s.bound, s.workspace)
            if promised <= self._reach(share, s.target) * scale:
                tol = max(o.certificate_share * s.target, o.certificate.model_tol)
                if share == 1 and not hessian.implicit:
                    # the minimizer is next to the solution: digits worth having
                    tol = o.certificate.model_tol
                found = self._certify(problem, s, form, at, hessian, now, small.w, small.dual, tol)
                if found is not None:
                    w, mu = found
                    return w, mu, now - model_value(problem, at, H, w, s.workspace)
        return self._structured(form, small), small.dual, promised

    def _certify(
        self,
        problem: Problem,
        s: NewtonState,
        form: OneBlock,
        at: Evaluation,
        hessian: SampledHessian,
        now: float,
        near: Array,
        start: Array,
        tol: float,
    ) -> tuple[Array, Array] | None:
        """Keep the bound of the corrected dual point; return its model's minimizer and mu."""
        f2 = as_finite_sum(problem.f2)
        # slopes of coupled outputs have little room: damping would take them out of it
        own = hessian.damped(0.0) if hessian.sample.coupled else hessian
        found = corrected_point(
            f2,
            form,
            at,
            start,
            now,
            own,
            near,
            tol,
            s.penalty,
            options=self.options.certificate.towards(
                s.target, gap_scale(problem, now, s.bound, s.workspace) / max(abs(now), 1e-300)
            ),
            workspace=s.workspace,
            deadline=s.deadline,
        )
        if found is None or found.model is None:
            return None
        if s.bound is None or found.point.bound > s.bound:
            s.bound, s.certificate = found.point.bound, found.point
        # a larger sample makes the next bound tighter and the next step better
        most = affordable(f2, self.options.most_work, self.options)
        s.sample_size = max(s.sample_size, min(2 * s.sample_size, most))
        return self._structured(form, found.model), found.mu

    def _structured(self, form: OneBlock, found: QuadraticResult) -> Array:
        """Return a model's minimizer with the exact zeros and ties that its prox made."""
        if form.offset.any():
            return found.w
        return structured(form.S, found, self.options.structured)

    def _reach(self, share: float, target: float) -> float:
        """Return the promised decrease, relative to the objective, that may be certified."""
        near = self.options.within_reach * share * target
        return near if share < 1 else max(near, target**self.options.newton_reach)

    def _is_costly(self, sample: RowSample) -> bool:
        """Say whether the Hessian of a sample costs more than the pass of a step."""
        f2 = sample.f2
        work = sample.size * f2.n_columns
        return sample.size < f2.n_terms and work > self.options.costly * f2.n_terms

    # ---------------------------------------------------------------- the step

    def _advance(
        self,
        problem: Problem,
        f2: FiniteSum,
        s: NewtonState,
        snapshot: Evaluation,
        w: Array,
        now: float,
    ) -> float:
        """Move to w, or as far towards it as the objective falls; return the share taken."""
        o, promised = self.options, s.promised
        point, penalty = priced(problem, Pair(s.output.x1, w.astype(problem.dtype)), s.workspace)
        x2 = point.x2
        there = f2.evaluate(x2)
        s.n_passes += 1
        s.n_gradients += 1
        value = there.value + penalty
        t, slack, change = 1.0, 1e-14 * abs(now), there.predictions - snapshot.predictions
        ray = Ray(problem, f2, s.output, x2, snapshot.predictions, change, s.workspace)
        if not value <= now - o.sufficient * max(promised, 0.0) + slack:
            t, value = halve(ray.value, least=o.least_length)
            point = ray.at(t)[0]
            s.shortened += 1
            s.damping = self._more(s.damping)
            if not value <= now + slack:
                t, point, there = 0.0, s.output, snapshot
            else:
                there = at_predictions(f2, point.x2, snapshot.predictions + t * change)
                s.n_passes += 0.5
        else:
            if s.damping:  # a damped step may be far too short
                t = double(ray.value, value)
            if t > 1:
                point, penalty = ray.at(t)
                there = f2.evaluate(point.x2)
                value = there.value + penalty
                s.n_passes += 1
            s.damping = s.damping / 10 if s.damping > o.least_damping else 0.0
            s.shortened = max(s.shortened - 1, 0)
        brought = now - value
        s.faithful = t == 1 and o.faithful * promised <= brought <= promised / o.faithful
        if s.faithful:
            s.damping = 0.0
        if brought < o.poor * promised:
            true = curvature_along(f2, snapshot.predictions, change)
            if s.curvature < o.too_flat * true:
                s.sample_size = min(2 * s.sample_size, f2.n_terms)
        s.refused = 0 if value < now else s.refused + 1
        s.x = s.output = point
        s.objective = value
        s.cache = replace(there, x=point.x2)
        return t

    def _more(self, damping: float) -> float:
        """Return the damping after a step that failed."""
        return min(1.0, max(10 * damping, self.options.first_damping))


def are_numbers(*arrays: Array) -> bool:
    """Say whether all entries are finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays)


def damping_weight(f2: FiniteSum, damping: float) -> float:
    """Return the curvature that a share of the bound adds."""
    return damping * min(float(f2.loss.curvature_bound), 1e6) if damping else 0.0
