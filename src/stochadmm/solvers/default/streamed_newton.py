"""Second-order steps over rows that are read again for every pass.

The problem is f2(w) + H(S w - o) with f2 a mean over a source of rows. One step:

    at w: F(w), its gradient g and the mean conjugate of all rows          (one read)
    H_s: the Hessian from a sample of rows, kept in memory                 (no read)
    w+ = argmin <g, . - w> + 1/2 <. - w, H_s (. - w)> + H(S . - o)         (no read)

The first pass takes a uniform sample, whose own solution is the first point; the second pass draws
the sample anew so that rare columns are seen. A step that does not lower F is shortened: one read
gives the values at eight lengths. The certificate needs no read and no number per row: the rows
outside the sample are replaced by their tangent at w (`streaming.WithRest`), and the problem that
remains, in memory, is solved and certified; its bound holds for the whole problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...certificates import Certificate, gap_scale, kkt_residual, model_of, null_model
from ...data import DenseRows
from ...forms.equilibrate import equilibrated
from ...forms.one_block import OneBlock, one_block
from ...problem import Pair, Problem
from ...risk import Evaluation, FiniteSum
from ...risk.curvature import RowSample, SampledHessian, shares_curvature
from ...risk.parts import as_finite_sum
from ...risk.sampling import Coin
from ...risk.weights import weighted
from ...second_order import inside, model_value, priced
from ...streaming import (
    REST,
    Facts,
    Sample,
    StreamedSum,
    Sums,
    WithRest,
    WithRests,
    by_rows,
    facts_of,
    fastest,
    in_memory,
    loss_of_source,
)
from .._base import Solver, State, own_state, register, start_point
from .sampled_newton import SampledNewton, are_numbers, damping_weight

LENGTHS = (0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.005)


@dataclass
class StreamedState(State):
    """State of the streamed steps."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    rows: Sample = field(kw_only=True, repr=False)
    """The sample."""
    sums: Sums = field(kw_only=True, repr=False)
    """Sums of the pass at ``output``."""
    penalty: float | None = None
    """First penalty of the next model's splitting."""
    promised: float = np.inf
    """Decrease that the last model promised."""


@register
@dataclass(frozen=True)
class StreamedNewton(Solver[StreamedState]):
    """Proximal Newton steps over a source of rows, with a certificate from a sample.

    Parameters
    ----------
    first_tol : float, default=1e-4
        Relative gap to which the sample's own problem is solved, where the run begins: more
        accuracy would only describe the sample.
    far : float, default=0.1
        The sample's problem starts at its null model if the loss there is below this share of
        that at zero: rows far from their targets may all be flat, and no model leads to them.
    reach : float, default=10
        A certificate is tried when the promised decrease is at most this many times the target
        over the share of the rows in the sample: about what the bound loses.
    inner : float, default=0.1
        Accuracy of the problem behind a certificate, relative to the target.
    most_inner : int, default=30
        Most steps on a problem in memory.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((3000, 8))
    >>> y = np.sign(X[:, :4].sum(axis=1) + rng.logistic(size=3000))
    >>> source = sa.data.ArraySource(X, y)
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), source, structure=sa.Differences(8), on_structure=sa.L1(0.01)
    ... )
    >>> result = sa.minimize(problem, stop=sa.Gap(1e-6))
    >>> result.status.name, result.info["route"]
    ('CONVERGED', 'streamed-newton')
    """

    name: ClassVar[str] = "streamed-newton"
    first_tol: float = 1e-4
    far: float = 0.1
    reach: float = 10.0
    inner: float = 0.1
    most_inner: int = 30

    def check(self, problem: Problem) -> None:
        """Raise unless the rows are streamed and x1 can be eliminated."""
        if loss_of_source(problem.f2) is None:
            raise Unsuitable(f"{self.name} is for rows in files; use 'auto' for rows in memory")
        if not problem.is_model:
            raise Unsuitable(f"{self.name} needs A1 = scale * identity and no f1")

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> StreamedState:
        """Begin at the solution of a sample, or where the user says; two reads."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        facts = facts_of(_streamed(problem), workspace)
        f2, form = fastest(_streamed(problem), workspace), one_block(problem, workspace)
        mu = form.from_multiplier(None if dual is None else multiplier, deadline=deadline)
        point = inside(problem, point)
        if x is None:
            small = replace(problem, f2=in_memory(f2, facts.sample, facts.sample.weight))
            begin = self._begin(small, form)
            found = self._solved(small, begin, None, self.first_tol, deadline)
            point, mu = inside(problem, found.point), found.mu
        coin = Coin(f2.seed + 1, f2.rate, facts.energy)
        cache, sums = f2.evaluate(point.x2, coin)
        rows = Sample.joined(sums.sample) if sums.sample else facts.sample
        return StreamedState(
            workspace=workspace,
            x=point,
            output=point,
            dual=form.to_multiplier(mu),
            beta=1.0,
            mu=mu,
            bound=-np.inf,
            cache=cache,
            sums=replace(sums, sample=()),
            rows=rows,
            n_passes=2.0,
            n_gradients=2.0,
            notes={"sample": len(rows.y)},
        )

    def _begin(self, small: Problem, form: OneBlock) -> Pair | None:
        """Return the null model of a sample, None where zero is as good a point to begin at."""
        f2 = as_finite_sum(small.f2)
        zero, null = null_model(small, f2, form)
        return Pair(zero.x1, null.x) if null.value < self.far * f2.value(zero.x2) else None

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Make one step; the certificate of the point where it begins goes before it."""
        s = own_state(state, StreamedState)
        f2 = fastest(_streamed(problem), s.workspace)
        form = one_block(problem, s.workspace)
        at = s.cache
        if at is None:
            (at, s.sums), s.n_passes = f2.evaluate(s.output.x2), s.n_passes + 1.0
        now = at.value + problem.penalty(s.output)
        w, mu, s.promised = self._model(problem, s, form, at, now)
        share = len(s.rows.y) / f2.n_terms
        scale = gap_scale(problem, now, s.bound, s.workspace)
        if s.target is not None and s.promised <= self.reach * share * s.target * scale:
            bound = self._certify(problem, s, s.target * scale)
            if now - bound <= s.target * gap_scale(problem, now, bound, s.workspace):
                s.n_epochs += 1
                return
        self._advance(problem, s, w, mu, now)
        s.dual = form.to_multiplier(s.mu)
        s.beta = 1.0 if s.penalty is None else s.penalty
        s.n_epochs += 1

    def _model(
        self, problem: Problem, s: StreamedState, form: OneBlock, at: Evaluation, now: float
    ) -> tuple[Array, Array, float]:
        """Return the model's minimizer, its multiplier, and the decrease it promises."""
        rows = s.rows
        few = in_memory(_streamed(problem), rows, rows.weight / rows.probability)
        small = replace(problem, f2=few)
        units = equilibrated(small)
        if units is None:
            return self._minimized(small, s, form, at, now, s.workspace)
        # numbers of a pass are right in any units, the linear algebra of a model is not
        point, gradient = units.into(s.output).x2, units.into_gradient(at.gradient)
        own, at = Workspace(), replace(at, x=point, gradient=gradient)
        form = one_block(units.problem, own)
        w, mu, promised = self._minimized(units.problem, s, form, at, now, own)
        return units.back(Pair(s.output.x1, w)).x2, mu, promised

    def _minimized(
        self,
        small: Problem,
        s: StreamedState,
        form: OneBlock,
        at: Evaluation,
        now: float,
        workspace: Workspace,
    ) -> tuple[Array, Array, float]:
        """Minimize the model of a sample's rows at a point with the gradient of all of them."""
        few = as_finite_sum(small.f2)
        here = few.evaluate_exactly(at.x)
        sample = RowSample(few, here.predictions, here.derivative)
        shared = shares_curvature(few, here.predictions)
        hessian, model = SampledHessian(sample, shared), model_of(form, workspace)
        for damping in (0.0, 1.0):  # rows that are all flat leave a model without a minimizer
            H = hessian.damped(damping_weight(few, damping)).matrix
            found = model.minimize(
                H,
                at.gradient,
                at.x,
                dual=s.mu,
                tol=1e-9,
                penalty=s.penalty,
                deadline=s.deadline,
            )
            if are_numbers(found.w, found.dual):
                break
        s.penalty = found.penalty if found.residual <= 0.1 else None
        return found.w, found.dual, now - model_value(small, at, H, found.w, workspace)

    def _advance(
        self, problem: Problem, s: StreamedState, w: Array, mu: Array, now: float
    ) -> None:
        """Move to w, or as far towards it as the objective falls."""
        f2, old = fastest(_streamed(problem), s.workspace), s.output.x2
        point, penalty = priced(problem, Pair(s.output.x1, w))
        cache, sums = f2.evaluate(point.x2)
        s.n_passes += 1.0
        s.n_gradients += 1.0
        t = 1.0
        if not cache.value + penalty <= now + 1e-14 * abs(now):
            step = point.x2 - old
            values = f2.values_along(old, step, LENGTHS)
            s.n_passes += 1.0
            totals = [
                value + priced(problem, Pair(point.x1, old + t * step))[1]
                for t, value in zip(LENGTHS, values, strict=True)
            ]
            best = int(np.argmin(totals))
            if not totals[best] < now:
                return
            t = LENGTHS[best]
            point = inside(problem, Pair(point.x1, old + t * step))
            cache, sums = f2.evaluate(point.x2)
            s.n_passes += 1.0
            s.n_gradients += 1.0
        s.x = s.output = point
        s.cache, s.sums = cache, sums
        s.mu = mu if t == 1.0 else s.mu + t * (mu - s.mu)

    def _certify(self, problem: Problem, s: StreamedState, allowed: float) -> float:
        """Solve the problem of the sample and the tangent of the rest; return the best bound.

        ``allowed`` is the gap that the run waits for.
        """
        f2 = _streamed(problem)
        facts = facts_of(f2, s.workspace)
        tangent = _tangent_problem(f2, s.rows, s.sums, s.output.x2, facts)
        small = replace(problem, f2=tangent)
        now = small.objective(s.output)
        tol = self.inner * allowed / max(gap_scale(small, now, now - allowed), 1e-300)
        found = self._solved(small, s.output, s.dual, tol, s.deadline)
        best = max(-np.inf if each is None else each for each in (s.bound, found.bound))
        s.bound = best
        return best

    def certified(
        self,
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
        f2, form = fastest(_streamed(problem), workspace), one_block(problem, workspace)
        x = inside(problem, problem.feasible(point, workspace))
        at, sums = f2.evaluate(x.x2)
        rows = facts_of(_streamed(problem), workspace).sample
        s = StreamedState(
            workspace=workspace,
            x=x,
            output=x,
            dual=dual,
            beta=1.0,
            bound=-np.inf,
            cache=at,
            mu=form.from_multiplier(dual, deadline=deadline),
            sums=sums,
            rows=rows,
            deadline=deadline,
        )
        now = at.value + problem.penalty(x)
        promised = self._model(problem, s, form, at, now)[2]
        scale = gap_scale(problem, now, None, workspace)
        if promised <= self.reach * len(rows.y) / f2.n_terms * target * scale:
            self._certify(problem, s, target * scale)
        bound = -np.inf if s.bound is None else s.bound
        return Certificate(
            objective=now,
            point=x,
            bound=bound,
            gap=max(now - bound, 0.0),
            kind="tangent",
            kkt_residual=kkt_residual(problem, x, at.gradient, dual),
            candidate=None,
            candidate_dual=None,
            dual=dual,
            n_passes=1.0,
        )

    def _solved(
        self,
        small: Problem,
        x: Pair | None,
        dual: Array | None,
        tol: float,
        deadline: Deadline = NEVER,
    ) -> Solved:
        """Solve a problem in memory to a relative gap, as far as steps on all its rows lead."""
        units = equilibrated(small)
        if units is not None:  # bounds are the same numbers in any units
            small, x = units.problem, None if x is None else units.into(x)
            dual = None if dual is None else units.into_dual(dual)
        method = SampledNewton()
        s = method.start(small, x, dual, deadline=deadline)
        s.target, s.deadline = tol, deadline
        rng = np.random.default_rng(0)
        for _ in range(self.most_inner):
            s.sample_size = small.f2.n_terms
            method.epoch(small, s, rng)
            if s.other is not None:
                break
            now, bound = s.objective, -np.inf if s.bound is None else s.bound
            if now - bound <= tol * gap_scale(small, now, bound, s.workspace):
                break
        return Solved(s.output if units is None else units.back(s.output), s.mu, s.bound)


class Solved(NamedTuple):
    """What is known of a problem in memory."""

    point: Pair
    mu: Array
    bound: float | None


def _streamed(problem: Problem) -> StreamedSum:
    """Return the data term of a problem whose rows are streamed."""
    f2 = loss_of_source(problem.f2)
    if f2 is None:
        raise TypeError("the rows are in memory, expected a source of rows; use 'auto'")
    return f2


def _tangent_problem(
    f2: StreamedSum, rows: Sample, sums: Sums, x: Array, facts: Facts
) -> FiniteSum:
    """Return the data term of the sample and of one row per output for all the others."""
    loss: Any = f2.loss
    rest = sums.weight - float(rows.weight.sum())
    if not rest > 1e-12 * sums.weight:  # the sample is everything
        return in_memory(f2, rows, rows.weight)
    data = rows.rows.as_type(np.float64)
    own = data.matvec(x[: f2.n_features])
    if f2.intercept:
        own, data = own + x[-1], data.with_ones()
    z = own if rows.offset is None else own + rows.offset
    u = loss.slope(z, rows.y)
    qu = weighted(rows.weight, u)
    left = (sums.gradient - data.rmatvec(qu)) / rest
    values = by_rows(loss.values(z, rows.y))
    tangent = sums.conjugate - float(np.vdot(qu, own) - rows.weight @ values)
    floor = facts.floor * facts.weight - float(
        rows.weight @ by_rows(loss.conjugate(np.zeros_like(u), rows.y))
    )
    if f2.n_outputs is None:
        together: Any = WithRest(loss, tangent / rest, floor / rest, float(rows.y[0]))
        rest_rows, y = left[None, :], np.append(rows.y, REST)
    else:
        together = WithRests(loss, tangent / rest, floor / rest, rows.y[0], f2.n_outputs)
        rest_rows, y = f2.n_outputs * left.T, together.targets(rows.y)
    count = len(rest_rows)
    weight = np.append(rows.weight, np.full(count, rest / count))
    offset = None
    if rows.offset is not None:
        offset = np.concatenate([rows.offset, np.zeros((count, *rows.offset.shape[1:]))])
    added = DenseRows(np.ascontiguousarray(rest_rows))
    return FiniteSum(together, data.followed_by(added), y, weight, offset=offset)
