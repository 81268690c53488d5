"""Sparse rows, with an l1 norm or another penalty of single entries.

    min over W   mean loss + alpha |W|_1            (short texts, of two classes or of 150)

Newton steps with the exact Hessian, coupled outputs included, whose models are minimized
coordinate by coordinate in compiled code (``stochadmm.coordinates``): a sweep over sparse columns
costs a small part of a pass. Such steps converge quadratically, so that the derivatives at the
point, scaled into the dual set, are certificate enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from ...base.capabilities import Has
from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...certificates import CertificateOptions, gap_scale, scaled_point
from ...coordinates import CoordinateNewton, CoordinateOptions, EntryForm, read
from ...coordinates import why_not as why_not_entrywise
from ...data import CSR
from ...kernels.extension import available
from ...low_rank import CurvedLoss
from ...problem import Pair, Problem
from ...risk import Evaluation, loss_of_rows
from ...risk.finite_sum import as_finite_sum, as_matrix
from ...second_order import is_quadratic
from .._base import Solver, State, own_state, register, start_point
from .handover import take_over


@dataclass
class EntryState(State):
    """State of the steps."""

    run: CoordinateNewton[EntryForm] = field(kw_only=True, repr=False)
    other: State | None = None
    """State of the method that takes over from steps that keep failing."""


@register
@dataclass(frozen=True)
class EntryNewton(Solver[EntryState]):
    """Newton steps for sparse rows and penalties of single entries.

    Parameters
    ----------
    steps : int, default=10
        Newton steps of an epoch.
    patience : int, default=8
        Steps in a row that may fail before another method goes on; each is damped more.
    densest : float, default=0.1
        Share of entries other than zero up to which rows count as sparse.
    most_free : int, default=2000
        Free coefficients, whose square matrix is made.
    options : CoordinateOptions
        Numbers that rarely need a change.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from scipy import sparse
    >>> rng = np.random.default_rng(0)
    >>> X = sparse.random_array((300, 80), density=0.05, rng=rng, format="csr")
    >>> y = np.asarray(X[:, :4].todense()).argmax(axis=1)
    >>> problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(0.005))
    >>> sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-8)).status.name
    'CONVERGED'
    """

    name: ClassVar[str] = "coordinate-newton"
    has_kernel: ClassVar[bool] = True
    steps: int = 10
    patience: int = 8
    densest: float = 0.1
    most_free: int = 2000
    options: CoordinateOptions = field(default_factory=CoordinateOptions)

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return in words why this method cannot serve a problem, None if it can."""
        f2 = loss_of_rows(problem.f2, Has.CURVATURE_PARTS)
        if f2 is None:
            return "the loss offers no curvature"
        if f2.storage != CSR or f2.n_entries > self.densest * f2.n_terms * f2.n_features:
            return "rows are not sparse"
        if not available():
            return "there is no compiled code"
        if is_quadratic(problem) and f2.n_outputs is not None:
            return "the loss is squared: its outputs share a Gram matrix"
        reason = why_not_entrywise(problem, workspace)
        if reason is not None:
            return reason
        form = (workspace or Workspace()).once(read, problem, workspace)
        if form.free.size * math.prod(problem.shape2[1:]) > self.most_free:
            return "too many free coefficients"
        return None

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> EntryState:
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        point, f2 = problem.feasible(point), as_matrix(as_finite_sum(problem.f2))
        form = workspace.once(read, problem, workspace)
        loss = CurvedLoss(f2, form.rows, form.free, self.options.free_steps)
        run = CoordinateNewton(loss, form, self._options(problem))
        x2 = point.x2.astype(np.float64).reshape(f2.shape)
        free = loss.columns.inner_free(x2[form.free])
        run.begin(np.clip(x2[form.rows], form.lo, form.hi), free)
        state = EntryState(
            x=point,
            output=point,
            dual=multiplier,
            beta=1.0,
            bound=-np.inf,
            workspace=workspace,
            run=run,
            n_passes=loss.reads,
            n_gradients=loss.reads,
        )
        self._publish(problem, state)
        return state

    def _options(self, problem: Problem) -> CoordinateOptions:
        o = self.options
        return replace(o, sweeps=o.exact_sweeps) if is_quadratic(problem) else o

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make some steps, until the target is certified or the epoch is over."""
        s = own_state(state, EntryState)
        if s.run.n_failed >= self.patience:
            take_over(problem, s, rng)
            return
        run = s.run = s.run.copy()
        reads = run.loss.reads
        for _ in range(self.steps):
            run.step()
            scale = gap_scale(problem, run.upper, s.bound, s.workspace)
            target = 0.0 if s.target is None else s.target * scale
            if run.decrease <= target:
                self._certify(problem, s, run.form)
            certified = s.bound is not None and run.upper - s.bound <= target
            if certified or run.n_failed or s.deadline.passed():
                break
        s.n_passes += run.loss.reads - reads
        s.n_gradients += run.loss.reads - reads
        self._publish(problem, s)
        s.n_epochs += 1
        s.notes["sweeps"] = run.n_sweeps

    def _certify(self, problem: Problem, s: EntryState, form: EntryForm) -> None:
        """Scale the derivatives at the point into the dual set."""
        run, at = s.run, s.run.point
        gradient = np.zeros(run.loss.f2.shape)
        gradient[form.rows] = at.gradient
        left = run.loss.pull_back_free(at.derivatives)
        gradient[form.free] = run.loss.columns.outer_gradient(left)
        shaped = partial(_shaped, problem)
        found = scaled_point(
            as_finite_sum(problem.f2),
            form.composite,
            shaped(at.z),
            shaped(at.derivatives),
            shaped(gradient),
            shaped(form.pull(at.gradient)),
            run.upper,
            rounds=1,
            options=CertificateOptions().towards(s.target),
            deadline=s.deadline,
            workspace=s.workspace,
        )
        if s.bound is None or found.bound > s.bound:
            s.bound = found.bound

    def _publish(self, problem: Problem, s: EntryState) -> None:
        """Write the point, its pass and its multiplier where the driver finds them."""
        at, form, dtype = s.run.point, s.run.form, problem.dtype
        W, gradient = np.zeros(s.run.loss.f2.shape), np.zeros(s.run.loss.f2.shape)
        W[form.rows], W[form.free] = at.W, s.run.loss.columns.outer_free(at.V)
        gradient[form.rows] = at.gradient
        shaped = partial(_shaped, problem)
        x2 = shaped(W).astype(dtype)
        s.x = s.output = problem.feasible(Pair(problem.zeros().x1, x2))
        s.exact = s.run.exact
        mu = form.composite.project(shaped(form.pull(at.gradient)))
        s.dual = form.composite.to_multiplier(mu).astype(dtype)
        s.cache = Evaluation(
            x2,
            at.value,
            shaped(gradient).astype(dtype),
            shaped(at.z).astype(dtype),
            shaped(at.derivatives).astype(dtype),
        )
        if s.run.loss.columns.basis is not None:  # whose coefficients round on their way back
            s.cache = as_finite_sum(problem.f2).evaluate(x2)
            s.n_passes += 1.0


def _shaped(problem: Problem, array: Array) -> Array:
    """Return rows of all outputs in the shape of a problem: a vector where there is one."""
    return array.reshape(len(array), *problem.shape2[1:])
