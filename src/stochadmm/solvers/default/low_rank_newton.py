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

from ..._newton import (
    LOW_RANK,
    MatrixProblem,
    MatrixState,
    Run,
    TiltedSearch,
    is_quadratic,
    settle,
    state_at,
    step,
)
from ...base.capabilities import Has
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...low_rank import (
    BlockwiseLoss,
    Bounds,
    CurvedLoss,
    Fista,
    Form,
    is_block_by_block,
    is_sparse,
    read,
)
from ...low_rank import why_not as why_not_low_rank
from ...problem import Pair, Problem
from ...risk import FiniteSum, loss_of_rows
from ...risk.finite_sum import as_finite_sum
from .._base import Solver, State, own_state, register


@dataclass
class CurvedState(State):
    """State of the steps."""

    bounds: Bounds = field(kw_only=True, repr=False)
    by_entries: TiltedSearch | None = field(kw_only=True, repr=False)
    """Another search for bounds, where there is one."""
    first: Fista | None = field(default=None, repr=False)
    """Accelerated gradient steps, while they are what is made."""
    newton: MatrixState | None = field(default=None, repr=False)
    """Newton steps, from then on."""

    def seen(self, problem: Problem) -> MatrixProblem:
        """Return the problem as the loop sees it."""
        return MatrixProblem(problem, self.workspace, self.bounds, self.by_entries)


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
        if not is_sparse(f2) and f2.n_columns**2 > 1 << 25:
            return f"a Gram matrix of {f2.n_columns} columns is too large"
        return None

    def plan(self, problem: Problem) -> str:
        """Return in words what will be done."""
        f2 = as_finite_sum(problem.f2)
        metric = "the diagonal of the Hessian" if is_sparse(f2) else "a Kronecker product"
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
        given = form.subgradients(lam)
        state = CurvedState(
            x,
            x,
            lam,
            1.0,
            bound=-np.inf,
            workspace=workspace,
            bounds=bounds,
            by_entries=TiltedSearch.of(bounds) if loss.is_sparse else None,
        )
        if self._passes_are_cheap(f2) and not x2.any() and not blocks:
            state.first = Fista(bounds)
            state.first.begin(x2[form.rows], loss.columns.inner_free(x2[form.free]), given)
        else:
            seen = state.seen(p)
            state.newton = state_at(seen, seen.f.evaluate_exactly(x2), given)
            if blocks:
                state.cache = state.newton.at
                state.n_passes = state.n_gradients = loss.reads
                return state
        state.cache = f2.evaluate(x.x2)
        state.n_passes = state.n_gradients = loss.reads + 1
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make some steps, until the target is certified or the epoch is over."""
        s = own_state(state, CurvedState)
        p = s.seen(problem)
        if s.first is not None:
            self._gradient_steps(p, s, s.first)
        else:
            assert s.newton is not None
            self._newton_steps(p, s, s.newton, Run(rng, s.target, s.deadline))
        self._publish(p, s)

    def _gradient_steps(self, p: MatrixProblem, s: CurvedState, run: Fista) -> None:
        target = 0.0 if s.target is None else s.target
        reads, loss = run.loss.reads, run.loss
        goes_on = True
        for _ in range(self.cheap_steps):
            run.step()
            wanted = target * p.gap_scale(run.upper, run.lower)
            # derivatives of sparse rows are corrected by some products from there on
            goes_on = run.decrease > 0.3 * wanted if loss.is_sparse else run.goes_on(0.1 * wanted)
            if not goes_on or run.certify(wanted, s.deadline) or s.deadline.passed():
                break
        # Newton steps take over, or the driver looks at where they would begin
        at = p.f.evaluation(run.point, p.f.single)
        s.newton = state_at(p, at, run.subgradients, run.lower)
        if s.deadline.passed():
            settle(p, s.newton, s.deadline)
        self._count(s, loss.reads - reads)
        s.first = run if goes_on and s.target is not None else None

    def _newton_steps(
        self, p: MatrixProblem, s: CurvedState, inner: MatrixState, run: Run
    ) -> None:
        before, certified, loss = inner.n_passes, False, s.bounds.loss
        for _ in range(self.steps if loss.keeps_rows else self.block_steps):
            # a step that lowers nothing may still bring derivatives: no verdict ends the run
            step(p, inner, LOW_RANK, run)
            gap = inner.objective - inner.lower_bound
            scale = p.gap_scale(inner.objective, inner.lower_bound)
            certified = gap <= (0.0 if s.target is None else s.target) * scale
            if certified or s.deadline.passed():
                break
        if not (certified and loss.keeps_rows):  # a limit may end the run here
            settle(p, inner, s.deadline)
        self._count(s, inner.n_passes - before)
        s.notes["passes of certificates"] = inner.search.reads
        s.notes |= inner.notes

    def _count(self, s: CurvedState, reads: float) -> None:
        s.n_passes += reads
        s.n_gradients += reads

    def _publish(self, p: MatrixProblem, s: CurvedState) -> None:
        """Write the point, its pass, its multiplier and the bound where the driver finds them."""
        inner, problem = s.newton, p.problem
        assert inner is not None
        x = Pair(problem.zeros().x1, inner.x.x2)
        s.x = s.output = problem.feasible(x)
        s.dual = p.norms.multiplier(problem.shape_dual, list(inner.warm.subgradients))
        s.dual = s.dual.astype(problem.dtype)
        s.beta = inner.warm.rho or 1.0
        s.bound = inner.lower_bound if s.bound is None else max(s.bound, inner.lower_bound)
        s.cache = inner.at
        if s.bounds.loss.columns.basis is not None:  # whose coefficients round on their way back
            s.cache = as_finite_sum(problem.f2).evaluate(inner.x.x2)
            self._count(s, 1.0)
        s.n_epochs += 1
