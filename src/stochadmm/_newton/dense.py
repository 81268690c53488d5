"""Plans with a dense model: the Hessian of all or of sampled rows, and a dense factorization."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.capabilities import Has
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import has_model, model_of
from ..exact import project
from ..forms.one_block import OneBlock, one_block
from ..problem import Problem
from ..quadratic import QuadraticResult
from ..risk import Evaluation, FiniteSum, loss_of_rows
from ..risk.curvature import LIMITS, RowSample, SampledHessian, is_implicit, shares_curvature
from ..risk.finite_sum import row_products, some_rows
from ..risk.metrics import row_sampler, sampler_reads
from ..risk.sampling import evenly
from .composite import Composite, is_quadratic, why_no_form
from .interfaces import Begin, Candidate, NewtonState, Plan, Run
from .loop import solve, start
from .trust import Trust

# ---------------------------------------------------------------- curvature


@dataclass(frozen=True)
class RowHessian:
    """``H = X'DX / n`` over all rows or a weighted sample, D the derivatives of second order."""

    sampled: SampledHessian
    fraction: float
    is_exact: bool = False

    def quadratic(self, step: Array) -> float:
        return self.sampled.along(step)

    def damped(self, damping: float) -> RowHessian:
        # without a finite bound (exp) a large number still gives the model a minimizer
        bound = min(float(self.sampled.sample.loss.curvature_bound), 1e6)
        return replace(self, sampled=self.sampled.damped(damping * bound if damping else 0.0))


@dataclass(frozen=True)
class SampledRows:
    """The Hessian of a fresh sample of rows in every step, of all rows where they are few.

    Rows are drawn by size relative to their columns, so that columns with a handful of entries are
    seen by every sample; a uniform sample would leave H singular in their direction.

    A multiplication in a matrix product costs about a thirtieth of reading a number of the data
    twice, so that a Hessian of m rows and d columns takes the work of ``m d / (30 n)`` reads.
    """

    free_work: float = 5e7
    """Multiplications that take no longer than the rest of a step."""

    def first_trust(self, p: Composite) -> Trust:
        f2 = p.rows
        n, outputs = f2.n_terms, f2.n_outputs or 1
        # Fewer rows than these leave H far from the Hessian; conjugate gradients see only the
        # large part of it, and need half of them.
        enough = 4 * f2.n_columns if is_implicit(f2, False) else 8 * f2.n_columns * outputs
        # a multiplication of sparse rows, scattered in memory, takes as long as 50 of dense ones
        at_once = min(n, self.free_work / (row_products(f2, 50.0) * outputs**2))
        size = int(max(affordable_rows(f2, 1 / 3), enough, 256, at_once))
        # gathering more than 0.7 of the rows costs what it saves
        return Trust(sample_size=n if size >= 0.7 * n else size)

    def model(self, p: Composite, s: NewtonState, run: Run) -> RowHessian:
        f2, at = p.rows, s.at
        if s.model is not None and s.n_steps == 0:  # of a run that ended where this one begins
            last: RowHessian = s.model
            return replace(last, sampled=last.sampled.at(at.derivative)).damped(s.trust.damping)
        s.model = None  # its rows go before the next ones come
        if s.trust.sample_size >= f2.n_terms:
            sample = RowSample(f2, at.predictions, at.derivative)
        else:
            if not s.setup_counted:  # its probabilities take up to two reads, once
                s.n_passes, s.setup_counted = s.n_passes + sampler_reads(f2, p.workspace), True
            rows, omega = row_sampler(f2, p.workspace).draw(s.trust.sample_size, run.rng)
            sample = RowSample(f2, at.predictions, at.derivative, rows, omega)
        fraction = sample.size / f2.n_terms
        s.n_passes += fraction if fraction < 1 else 0.0
        # From 256 columns on H is made in float32 in half the time. It shapes the model only: the
        # dual equation is closed on the rows.
        single = f2.n_columns >= 256
        sampled = SampledHessian(sample, shares_curvature(f2, at.predictions), single=single)
        s.model = made = RowHessian(sampled, fraction).damped(s.trust.damping)
        return made

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn nothing: the next Hessian is made anew."""


@dataclass(frozen=True)
class ConstantHessian:
    """The Hessian of a quadratic loss over all rows, made once for all steps and problems."""

    def first_trust(self, p: Composite) -> Trust:
        return Trust(sample_size=p.rows.n_terms)

    def model(self, p: Composite, s: NewtonState, run: Run) -> RowHessian:
        f2, rows = p.rows, p.workspace.rows
        if not s.setup_counted:
            s.n_passes += 0.0 if rows.holds(hessian_of_squares, f2) else 1.0
            s.setup_counted = True
        constant = rows.once(hessian_of_squares, f2)
        # no damping: the model is f itself, and shorter steps only refine what has been rounded
        return RowHessian(constant.at(s.at.derivative), 1.0, True)

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn nothing: the Hessian is constant."""


def hessian_of_squares(f2: FiniteSum) -> SampledHessian:
    """Return the Hessian of a quadratic loss, the same everywhere."""
    z = f2.predict(np.zeros(f2.shape))
    return SampledHessian(RowSample(f2, z, z), shares_curvature(f2, z))


def affordable_rows(f2: FiniteSum, reads: float) -> int:
    """Return the rows whose Hessian takes the work of some reads of the data."""
    rows = int(30 * reads * f2.n_terms) // (f2.n_columns * (f2.n_outputs or 1))
    if f2.n_bytes >= 1 << 26:  # a copy of more than a tenth of 64 MB is worth more than a better H
        rows = min(rows, f2.n_terms // 10)
    return min(f2.n_terms, rows)


# ---------------------------------------------------------------- subproblem


@dataclass(frozen=True)
class SplittingWarm:
    """Warm start of `DenseSplitting`."""

    rho: float | None = None
    """Penalty parameter of the splitting."""
    tolerance: float = 1e-2
    """Relative residual that the next model is solved to at first."""


@dataclass(frozen=True)
class DenseSplitting:
    """ADMM with a dense inverse, then semismooth Newton steps (`stochadmm.quadratic`).

    The accuracy grows tenfold until the predicted decrease changes by less than a tenth: more
    digits than the model has of f would be wasted. A model that is f itself is solved to the last
    ones, unless the dual rule does so.
    """

    def first_warm(self) -> SplittingWarm:
        return SplittingWarm()

    def minimize(self, p: Composite, s: NewtonState, H: RowHessian, run: Run) -> Candidate:
        predicted, to_the_end = 0.0, H.is_exact and run.target is None

        def settled(w: Array) -> bool:
            nonlocal predicted
            before, predicted = predicted, p.predicted_decrease(s.objective, s.at, H, w)
            return 0 < predicted <= 1.1 * before

        found = model_of(p.form, p.workspace).minimize(
            H.sampled.matrix,
            s.at.gradient,
            s.at.x,
            dual=s.mu,
            tol=1e-11 if to_the_end else s.warm.tolerance,
            penalty=s.warm.rho,
            accept=None if to_the_end else settled,
            deadline=run.deadline,
        )
        # the penalty of a splitting that has hardly begun is no good first one for the next
        rho = found.penalty if found.residual <= 0.1 else None
        s.warm = SplittingWarm(rho, min(30 * found.residual, 1e-2))
        w = with_exact_zeros(p.form, found)
        if to_the_end:
            predicted = p.predicted_decrease(s.objective, s.at, H, w)
        return Candidate(w, found.dual, predicted)


def with_exact_zeros(form: OneBlock, found: QuadraticResult) -> Array:
    """Return a model's minimizer with the exact zeros and ties that its prox made."""
    # zeros of a model that is solved to less than six digits are not yet those of its minimizer
    w, zero = found.w, found.z == 0
    rough = found.residual > 1e-6 or zero.shape[0] != form.S.shape[0]
    if rough or form.offset.any() or not zero.any():
        return w
    exact = project(form.S, zero, np.zeros(w.shape, dtype=bool), w)
    size = max(np.abs(w).max(initial=0.0), 1e-300)
    # the projection of an accurate minimizer moves it by no more than its residual
    return exact if np.abs(exact - w).max(initial=0.0) <= 1e-5 * size else w


# ---------------------------------------------------------------- what it serves


def why_no_dense_model(
    problem: Problem, workspace: Workspace, columns: int = LIMITS.products
) -> str | None:
    """Return why a problem allows no model of all of at most so many columns, None if it does."""
    f2 = loss_of_rows(problem.f2, Has.CURVATURE_APPLY)
    if f2 is None:
        return "the loss offers no curvature"
    if f2.n_columns > columns:
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


def why_no_gram(problem: Problem, workspace: Workspace) -> str | None:
    """Return why a problem has no Gram matrix that serves all steps, None if it has."""
    if loss_of_rows(problem.f2, Has.CURVATURE_APPLY) is None:
        return "the loss offers no curvature"
    if not is_quadratic(problem):
        return "its loss is not quadratic"
    return why_no_dense_model(problem, workspace, LIMITS.columns)


# ---------------------------------------------------------------- starts


def on_a_tenth(plan: Plan) -> Any:
    """Return a start: at most eight steps of a plan on a tenth of the rows."""

    def begin(p: Composite, run: Run) -> Begin | None:
        # It pays where a tenth tells of all rows (20 per column) and saves something (2,000).
        f2 = p.rows
        n, plain = f2.n_terms // 10, f2.n_outputs is None and f2.weight is None
        if not plain or n < max(20 * f2.n_columns, 2000):
            return None
        part = some_rows(f2, evenly(f2.n_terms, n))
        small = Composite(replace(p.problem, f2=part), p.workspace.run())
        own = Run(np.random.default_rng(0), None, run.deadline)
        # a smaller decrease would tell of these rows only
        resolution = 0.1 * f2.n_columns / n
        s = solve(small, start(small, plan, own), plan, own, 8, resolution)
        return Begin(s.x, s.mu, s.warm, n / f2.n_terms * s.n_passes)

    return begin
