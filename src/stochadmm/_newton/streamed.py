"""The plan for rows that are read again for every pass.

    at w: F(w), its gradient g and the mean conjugate of all rows          (one read)
    H: the Hessian from a sample of rows, kept in memory                   (no read)
    w+ = argmin <g, . - w> + 1/2 <. - w, H (. - w)> + h(S . - o)           (no read)

A run begins at the solution of a uniform sample, which the opening read has left. The read after
it draws the sample anew, so that rare columns are seen. A dual point needs no read and no number
per row: the rows outside the sample are replaced by their tangent at w
(`stochadmm.risk.tangent.tangent_term`), and the problem that remains, in memory, is solved by the
same loop; its bound holds for the whole problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import Certificate, DualPoint, kkt_residual, null_model
from ..forms.equilibrate import Units, equilibrated
from ..forms.one_block import OneBlock
from ..problem import Pair, Problem
from ..risk import Evaluation, StreamedSum
from ..risk.curvature import RowSample, SampledHessian, shares_curvature
from ..risk.finite_sum import as_finite_sum
from ..risk.streamed import OpenedSum
from ..risk.tangent import tangent_term
from .composite import Composite
from .dense import DenseSplitting, RowHessian, SampledRows, SplittingWarm
from .duals import Corrected
from .interfaces import Begin, Candidate, NewtonState, Plan, Run
from .loop import solve, start
from .trust import Trust

OF_A_SAMPLE = Plan(SampledRows(free_work=math.inf), DenseSplitting(), Corrected())
"""How a problem of rows in memory is solved: the Hessian is that of all of them."""


@dataclass(frozen=True)
class SolvedSample:
    """What is known of a problem in memory, in the units of the whole."""

    x: Pair
    mu: Array
    dual: DualPoint | None


def solve_sample(
    small: Problem, x: Pair | None, mu: Array | None, tol: float, deadline: Deadline
) -> SolvedSample:
    """Solve a problem in memory to a relative gap, as far as steps on all its rows lead."""
    units = equilibrated(small, rows=False)
    if units is not None:  # bounds and multipliers of S w are the same numbers in any units
        small, x = units.problem, None if x is None else units.into(x)
    p, run = Composite(small, Workspace()), Run(np.random.default_rng(0), tol, deadline)
    s = solve(p, start(p, OF_A_SAMPLE, run, x, mu), OF_A_SAMPLE, run, 30)
    return SolvedSample(s.x if units is None else units.back(s.x), s.mu, s.dual)


def from_sample(p: Composite, run: Run) -> Begin:
    """Begin at the solution of the sample that the opening read has left."""
    f = _source_of(p)
    small = replace(p.problem, f2=f.of_sample(f.facts.sample, f.facts.sample.weight))
    # 1e-4: more accuracy would only describe the sample
    found = solve_sample(small, _null_model(small, p.form), None, 1e-4, run.deadline)
    return Begin(found.x, found.mu)


def _null_model(small: Problem, form: OneBlock) -> Pair | None:
    """Return the null model where the loss there is below a tenth of that at zero, else None.

    Rows far from their targets may all be flat at zero, and no model leads to them.
    """
    f2 = as_finite_sum(small.f2)
    zero, null = null_model(small, f2, form)
    return Pair(zero.x1, null.x) if null.value < 0.1 * f2.value(zero.x2) else None


# ---------------------------------------------------------------- curvature and subproblem


@dataclass(frozen=True)
class SampleHessian:
    """The Hessian of the rows of a sample, in units that linear algebra can work with.

    Numbers of a read are right in any units, the linear algebra of a model is not.
    """

    small: Composite
    """The problem of the sample, in its units."""
    units: Units | None
    x: Array
    """The iterate in these units."""
    rows: RowHessian
    is_exact: bool = False

    @property
    def fraction(self) -> float:
        return self.rows.fraction

    def quadratic(self, step: Array) -> float:
        if self.units is not None:
            step = self.units.into(Pair(self.units.original.zeros().x1, step)).x2
        return self.rows.quadratic(step)

    def damped(self, damping: float) -> SampleHessian:
        return replace(self, rows=self.rows.damped(damping))


@dataclass(frozen=True)
class SampleOfSource:
    """The Hessian from the sample that the last draw has left."""

    def first_trust(self, p: Composite) -> Trust:
        return Trust()

    def model(self, p: Composite, s: NewtonState, run: Run) -> SampleHessian:
        f, rows = _source_of(p), s.at.sample
        assert rows is not None
        small = replace(p.problem, f2=f.of_sample(rows, rows.weight / rows.probability))
        units, x = equilibrated(small, rows=False), s.at.x
        if units is not None:
            small, x = units.problem, units.into(s.x).x2
        few = as_finite_sum(small.f2)
        at = few.evaluate_exactly(x)
        sample = RowSample(few, at.predictions, at.derivative)
        sampled = SampledHessian(sample, shares_curvature(few, at.predictions))
        hessian = RowHessian(sampled, few.n_terms / f.n_terms).damped(s.trust.damping)
        return SampleHessian(Composite(small, p.workspace.run()), units, x, hessian)

    def observe(self, p: Composite, s: NewtonState, old: Evaluation) -> None:
        """Learn nothing: the next Hessian is made anew."""


@dataclass(frozen=True)
class SplittingInUnits:
    """`DenseSplitting` in the units of the Hessian."""

    def first_warm(self) -> SplittingWarm:
        return SplittingWarm()

    def minimize(self, p: Composite, s: NewtonState, H: SampleHessian, run: Run) -> Candidate:
        units, x, g = H.units, s.x, s.at.gradient
        if units is not None:
            x, g = units.into(x), units.into_gradient(g)
        at = Evaluation(H.x, s.at.value, g)
        inner = NewtonState(x, s.mu, s.warm, s.trust, at, s.objective)
        c = DenseSplitting().minimize(H.small, inner, H.rows, run)
        s.warm = inner.warm
        return c if units is None else replace(c, w=units.back(Pair(x.x1, c.w)).x2)


# ---------------------------------------------------------------- dual point


@dataclass(frozen=True)
class Tangent:
    """The dual point of the sample and of the tangent of all other rows at w."""

    def of_model(
        self, p: Composite, s: NewtonState, H: SampleHessian, c: Candidate, run: Run
    ) -> tuple[Candidate, DualPoint | None]:
        assert run.target is not None
        # The bound loses about the predicted decrease times the fraction of the rows outside over
        # that inside.
        allowed = run.target * p.gap_scale(s.objective, s.lower_bound)
        if c.predicted > 10 * H.fraction * allowed:
            return c, None
        point = tangent_point(p, s, allowed, run.deadline)
        bound = s.lower_bound if point is None else max(s.lower_bound, point.bound)
        if s.objective - bound <= run.target * p.gap_scale(s.objective, bound):
            c = Candidate(s.at.x, s.mu, 0.0)  # enough: the read of a step is saved
        return c, point

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        """Return nothing: the next model tells whether a bound is in reach."""
        return None


def tangent_point(
    p: Composite, s: NewtonState, allowed: float, deadline: Deadline
) -> DualPoint | None:
    """Solve the problem of the sample and the tangent of the rest to a tenth of a gap."""
    f, at = _source_of(p), s.at
    assert at.sample is not None and at.sums is not None
    small = replace(p.problem, f2=tangent_term(f, at.sample, at.sums, at.x, f.facts))
    value = small.objective(s.x)
    scale = Composite(small, Workspace()).gap_scale(value, value - allowed)
    tol = 0.1 * allowed / max(scale, float(np.finfo(float).tiny))
    return solve_sample(small, s.x, s.mu, tol, deadline).dual


PLAN = Plan(SampleOfSource(), SplittingInUnits(), Tangent(), from_sample)


def certificate_from_sample(
    problem: Problem,
    point: Pair,
    dual: Array,
    target: float,
    workspace: Workspace,
    deadline: Deadline = NEVER,
) -> Certificate:
    """Certify a point of any method over a source of rows: one read.

    The bound is tried where it may be within reach of ``target``, the relative gap asked for.
    """
    p = Composite(problem, workspace)
    f, run = _source_of(p), Run(np.random.default_rng(0), target, deadline)
    x, penalty = p.inside(problem.feasible(point, workspace).x2)
    at = f.evaluate_with(f.facts.sample, x.x2)
    mu = p.form.from_multiplier(dual, deadline=deadline)
    s = NewtonState(x, mu, SplittingWarm(), Trust(), at, at.value + penalty)
    H = PLAN.curvature.model(p, s, run)
    _, found = PLAN.dual.of_model(p, s, H, PLAN.subproblem.minimize(p, s, H, run), run)
    bound = -np.inf if found is None else found.bound
    return Certificate(
        objective=s.objective,
        point=x,
        bound=bound,
        gap=max(s.objective - bound, 0.0),
        kind="tangent",
        kkt_residual=kkt_residual(problem, x, at.gradient, dual),
        candidate=None,
        candidate_dual=None,
        dual=dual,
        n_passes=1.0,
    )


# ---------------------------------------------------------------- what it serves


def why_no_source(problem: Problem, workspace: Workspace) -> str | None:
    """Return why a problem is none of rows from a source, None if it is."""
    if not isinstance(problem.f2, StreamedSum):
        return "it is for rows in files"
    return None if problem.is_model else "it needs A1 = scale * identity and no f1"


def _source_of(p: Composite) -> OpenedSum:
    if not isinstance(p.f, OpenedSum):
        raise TypeError("the rows are in memory, expected a source of rows; use 'auto'")
    return p.f
