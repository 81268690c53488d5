"""Curved losses with a nuclear norm, alone or with a norm of entries or rows.

    min over W   mean loss + a |W|_* + b |W|_1      (multinomial, Huber, logistic, ...)

Proximal Newton steps (``stochadmm.low_rank``) whose metric is a Kronecker product plus L-BFGS
for dense rows, the diagonal of the Hessian plus L-BFGS for sparse ones. Where a pass over the
data costs less than the model of such a step, accelerated proximal gradient steps come first. The
certificate is made when it may succeed: gradients split between the norms, then derivatives
corrected to second order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..._newton import TiltedSearch, is_quadratic
from ...base.capabilities import Has
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...data import CSR
from ...low_rank import (
    BlockwiseLoss,
    Bounds,
    CurvedLoss,
    Diagonal,
    Fista,
    Form,
    Kronecker,
    ProximalNewton,
    is_block_by_block,
    read,
)
from ...low_rank import why_not as why_not_low_rank
from ...problem import Pair, Problem, objective_at_zero
from ...risk import Evaluation, FiniteSum, loss_of_rows
from ...risk.finite_sum import as_finite_sum
from .._base import Solver, State, own_state, register


@dataclass
class CurvedState(State):
    """State of the steps."""

    first: Fista | None = field(default=None, repr=False)
    """Accelerated gradient steps, while they are what is made."""
    second: ProximalNewton | None = field(default=None, repr=False)
    """Newton steps, from then on."""


@register
@dataclass(frozen=True)
class LowRankNewton(Solver[CurvedState]):
    """Proximal Newton steps for a smooth loss with a nuclear norm.

    Parameters
    ----------
    steps : int, default=20
        Newton steps of an epoch.
    block_steps : int, default=8
        The same where nothing is kept per row and steps take minutes: checkpoints come between.
    cheap_steps : int, default=10
        Accelerated gradient steps of an epoch, at a twentieth of the cost.
    cheap : float, default=10
        They come first up to so many entries of the rows per square of the columns: passes are
        then cheap beside a model.
    most_predictions : int, default=2^26
        Predictions up to which several arrays of them are kept, half a gigabyte each.
    block_numbers : int, default=2^23
        Numbers of the rows that are worked on together where they are not.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))
    >>> y = np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.5])
    >>> problem = sa.Problem.linear(
    ...     sa.Multinomial(), X, y, on_structure=sa.Nuclear(0.02), on_coefficients=sa.L1(0.01)
    ... )
    >>> result = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-6))
    >>> result.status.name, bool(result.relative_gap <= 1e-6)
    ('CONVERGED', True)
    """

    name: ClassVar[str] = "low-rank-newton"
    has_kernel: ClassVar[bool] = False
    steps: int = 20
    block_steps: int = 8
    cheap_steps: int = 10
    cheap: float = 10.0
    most_predictions: int = 1 << 26
    block_numbers: int = 1 << 23

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return in words why this method cannot serve a problem, None if it can."""
        f2 = loss_of_rows(problem.f2, Has.CURVATURE_PARTS, Has.CONJUGATE, Has.DUAL_STEP_LIMIT)
        if f2 is None:
            return "the loss offers no curvature or no conjugate"
        workspace = workspace or Workspace()
        reason = why_not_low_rank(problem, workspace)
        if reason is not None:
            return reason
        form = workspace.once(read, problem)
        if is_quadratic(problem):
            return "the loss is squared: its Gram matrix does not change"
        if len(form.others) > 1 or len(form.norms) < len(form.others):
            return "other penalties than one norm of entries or rows"
        if form.free.size * math.prod(form.shape[1:]) > 2000:
            return "too many free coefficients"
        if not _sparse(f2) and f2.n_columns**2 > 1 << 25:
            return f"a Gram matrix of {f2.n_columns} columns is too large"
        return None

    def plan(self, problem: Problem) -> str:
        """Return in words what will be done."""
        f2 = as_finite_sum(problem.f2)
        metric = "the diagonal of the Hessian" if _sparse(f2) else "a Kronecker product"
        words = f"a nuclear norm of {f2.n_columns} x {f2.n_outputs} coefficients: Newton steps in "
        words += f"the metric of {metric} and L-BFGS"
        if self._by_blocks(f2, read(problem)):
            words += ", predictions made again at every read"
        elif self._passes_are_cheap(f2):
            words += ", after accelerated gradient steps because passes are cheap"
        return words

    def _passes_are_cheap(self, f2: FiniteSum) -> bool:
        return f2.n_entries <= self.cheap * f2.n_features**2

    def _by_blocks(self, f2: FiniteSum, form: Form) -> bool:
        return is_block_by_block(f2, form, self.most_predictions)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> CurvedState:
        """Return the state before the first epoch."""
        x = p.feasible(x)
        f2, form = as_finite_sum(p.f2), read(p)
        blocks = self._by_blocks(f2, form)
        loss: CurvedLoss = (
            BlockwiseLoss(f2, form.rows, form.free, self.block_numbers)
            if blocks
            else CurvedLoss(f2, form.rows, form.free)
        )
        bounds = Bounds.of(p, loss, form, workspace)
        x2 = x.x2.astype(np.float64)
        free = loss.columns.inner_free(x2[form.free])
        given = form.subgradients(lam)
        state = CurvedState(
            x,
            x,
            lam,
            1.0,
            bound=-np.inf,
            workspace=workspace,
        )
        if self._passes_are_cheap(f2) and not x2.any() and not blocks:
            state.first = Fista(bounds)
            state.first.begin(x2[form.rows], free, given)
        else:
            state.second = self._second(bounds)
            state.second.begin(x2[form.rows], free, given)
        if state.second is not None and blocks:
            state.cache = _snapshot(form, state.second, x.x2)
            state.n_passes = state.n_gradients = loss.reads
            return state
        state.cache = f2.evaluate(x.x2)
        state.n_passes, state.n_gradients = loss.reads + 1, loss.reads + 1
        return state

    def _second(self, bounds: Bounds) -> ProximalNewton:
        loss = bounds.loss
        if _sparse(loss.f2):
            return ProximalNewton(bounds, Diagonal(loss), TiltedSearch.of(bounds))
        return ProximalNewton(bounds, Kronecker(loss, single=True))

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make some steps, until the target is certified or the epoch is over."""
        s = own_state(state, CurvedState)
        form = s.workspace.once(read, problem)
        floor = 1e-3 * abs(objective_at_zero(problem, s.workspace))
        if s.first is not None:
            s.first = self._gradient_steps(s, s.first, form, floor)
        elif s.second is not None:
            s.second = self._newton_steps(s, s.second, floor)
        if s.second is not None:
            self._publish(problem, s, s.second, form)

    def _gradient_steps(
        self, s: CurvedState, first: Fista, form: Form, floor: float
    ) -> Fista | None:
        """Return the run to go on with, None where Newton steps take over."""
        run = first.copy()
        target = 0.0 if s.target is None else s.target
        reads = run.loss.reads
        goes_on, sparse = True, _sparse(run.loss.f2)
        for _ in range(self.cheap_steps):
            run.step()
            wanted = target * max(abs(run.upper), floor)
            # derivatives of sparse rows are corrected by some products from there on
            goes_on = run.decrease > 0.3 * wanted if sparse else run.goes_on(0.1 * wanted)
            if not goes_on or run.certify(wanted, s.deadline) or s.deadline.passed():
                break
        s.second = self._second(run.bounds)
        s.second.begin_at(run.point, run.subgradients)
        s.second.lower = run.lower
        if s.deadline.passed():
            s.second.settle()
        self._count(s, run.loss.reads - reads)
        return run if goes_on and s.target is not None else None

    def _newton_steps(
        self, s: CurvedState, second: ProximalNewton, floor: float
    ) -> ProximalNewton:
        run = second.copy()
        reads, certified = run.loss.reads - run.certificate_reads, False
        for _ in range(self.steps if run.loss.keeps_rows else self.block_steps):
            run.step(s.deadline)
            target = 0.0 if s.target is None else s.target * max(abs(run.upper), floor)
            certified = run.certify(target, s.deadline)
            if certified or s.deadline.passed():
                break
        if not (certified and run.loss.keeps_rows):  # a limit may end the run here
            run.settle(deadline=s.deadline)
        self._count(s, run.loss.reads - run.certificate_reads - reads)
        s.notes["passes of certificates"] = run.certificate_reads
        s.notes["model iterations"] = run.n_inner
        return run

    def _count(self, s: CurvedState, reads: float) -> None:
        s.n_passes += reads
        s.n_gradients += reads

    def _publish(self, problem: Problem, s: CurvedState, run: ProximalNewton, form: Form) -> None:
        """Write the point, its pass, its multiplier and the bound where the driver finds them."""
        point, dtype = run.point, problem.dtype
        x2 = np.zeros(problem.shape2)
        x2[form.rows], x2[form.free] = point.W, run.loss.columns.outer_free(point.V)
        x2 = x2.astype(dtype)
        s.x = s.output = problem.feasible(Pair(problem.zeros().x1, x2))
        s.dual = form.multiplier(problem.shape_dual, run.subgradients).astype(dtype)
        s.beta = 1.0 if run.rho is None else run.rho
        s.bound = run.lower if s.bound is None else max(s.bound, run.lower)
        s.cache = _snapshot(form, run, x2)
        if run.loss.columns.basis is not None:  # whose coefficients round on their way back
            s.cache = as_finite_sum(problem.f2).evaluate(x2)
            self._count(s, 1.0)
        s.n_epochs += 1


def _sparse(f2: FiniteSum) -> bool:
    """Say whether columns are nearly orthogonal because rows are nearly empty."""
    return f2.storage == CSR and f2.n_entries <= 0.1 * f2.n_terms * f2.n_features


def _snapshot(form: Form, run: ProximalNewton, x2: Array) -> Evaluation:
    """Return what is known of the loss at a point: without rows, in float64 whatever the data."""
    point, dtype, gradient = run.point, x2.dtype, run.point.gradient
    if not np.array_equal(form.rows, np.arange(len(x2))):
        gradient = np.zeros(x2.shape)
        gradient[form.rows] = point.gradient
    if not run.loss.keeps_rows:
        return Evaluation(x2, point.value, gradient)
    return Evaluation(
        x2,
        point.value,
        gradient.astype(dtype),
        point.z.astype(dtype),
        point.derivatives.astype(dtype),
    )
