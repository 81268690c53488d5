"""A nuclear norm, alone or with a norm of entries or rows: models split between the norms.

    W+ = argmin <g, . - W> + 1/2 <. - W, B (. - W)> + a |.|_* + h(.)

B is a Kronecker product or a diagonal plus L-BFGS (`low_rank.metric`). Consensus Douglas-Rachford
(`low_rank.splitting`) minimizes the model, and its subgradients are where the dual point begins
(`low_rank.dual`). Free rows are fitted at every point (`low_rank.curved`), so that all of this
sees the penalized rows W only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ..base.clock import Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import DualPoint
from ..low_rank import (
    Bounds,
    CurvedLoss,
    Diagonal,
    Form,
    Kronecker,
    Metric,
    NuclearProx,
    Point,
    Splitting,
    nuclear_norm,
    shrunk,
)
from ..low_rank.blockwise import added_up
from ..low_rank.curved import Line
from ..low_rank.dual import Split, corrected, patient_split, split
from ..low_rank.svt import nuclear_norm_by_gram
from ..problem import Pair, Problem
from ..risk import Evaluation
from .composite import Composite
from .interfaces import Candidate, NewtonState, Plan, Run
from .loop import better
from .tilted import TiltedSearch
from .trust import Trust

NOTHING = np.zeros(0)


# ------------------------------------------------------------------------------ the data term


@dataclass(frozen=True, kw_only=True)
class MatrixEvaluation(Evaluation):
    """The loss at a point whose free rows are fitted."""

    point: Point
    single: bool
    """Whether the next model and, where nothing is kept per row, the next reads are of float32."""


class MatrixRows:
    """The mean loss as a function of the penalized rows, the others fitted."""

    opening_passes = 0.0

    def __init__(self, loss: CurvedLoss, form: Form, single: bool) -> None:
        self.loss, self.form, self.single = loss, form, single
        self.n_terms = loss.n
        self.is_whole = np.array_equal(form.rows, np.arange(form.shape[0]))
        """Whether W are the coefficients themselves, none of them free."""

    def whole(self, W: Array, free: Array | float) -> Array:
        """Return a matrix of all rows from that of the penalized and of the free ones."""
        if self.is_whole:
            return W
        x = np.empty(self.form.shape)
        x[self.form.rows], x[self.form.free] = W, free
        return x

    def evaluation(self, point: Point, single: bool) -> MatrixEvaluation:
        return MatrixEvaluation(
            self.whole(point.W, self.loss.columns.outer_free(point.V)),
            point.value,
            self.whole(point.gradient, 0.0),
            point.z,
            point.derivatives,
            point=point,
            single=single,
        )

    def evaluate_exactly(self, x: Array) -> MatrixEvaluation:
        x = x.astype(np.float64, copy=False)
        free = self.loss.columns.inner_free(x[self.form.free])
        return self.evaluation(self.loss.at(x[self.form.rows], free), self.single)

    def along(self, at: Any, x: Array) -> MatrixLine:
        return MatrixLine(self, at, x if self.is_whole else x[self.form.rows])


class MatrixLine:
    """The loss along a line of W: each length costs a fit of the free rows, or a read."""

    lengths: ClassVar[tuple[float, ...]] = tuple(0.5**k for k in range(14))
    takes_first: ClassVar[bool] = True

    def __init__(self, rows: MatrixRows, start: MatrixEvaluation, end: Array) -> None:
        self.rows, self.start, self.end, self.reads = rows, start, end, rows.loss.reads
        self.line: Line = rows.loss.towards(start.point, end - start.point.W, start.single)

    def point(self, t: float) -> Array:
        if t == 0:
            return self.start.x
        loss, W = self.rows.loss, self.start.point.W
        W = self.end if t == 1 else loss.representable(W + t * (self.end - W))
        W = W.astype(np.float64, copy=False)
        self.last, V = self.line.fitted(t, W)
        return self.rows.whole(W, loss.columns.outer_free(V))

    def value(self, t: float) -> float:
        return self.last  # of the point that was asked for before

    def evaluation(self, t: float, x: Array) -> MatrixEvaluation:
        return self.rows.evaluation(self.line.point(), self.start.single)

    @property
    def n_passes(self) -> float:
        return self.rows.loss.reads - self.reads


class MatrixProblem(Composite):
    """A problem with a nuclear norm, as the loop sees it."""

    f: MatrixRows

    def __init__(
        self,
        problem: Problem,
        workspace: Workspace,
        bounds: Bounds,
        by_entries: TiltedSearch | None,
    ) -> None:
        super().__init__(problem, workspace)
        self.bounds, self.by_entries, self.norms = bounds, by_entries, bounds.form
        self.f = MatrixRows(bounds.loss, bounds.form, not bounds.loss.is_sparse)
        self._priced: tuple[Array, float] | None = None

    def inside(self, w: Array) -> tuple[Pair, float]:
        """Return a point in the type of the data, without x1, and its penalty.

        A step asks for the price of a candidate three times, and singular values are expensive.
        """
        x = w.astype(self.problem.dtype, copy=False)
        W = x if self.f.is_whole else x[self.norms.rows]
        if self._priced is None or not np.array_equal(self._priced[0], W):
            self._priced = W, self.norms.penalty(W.astype(np.float64, copy=False))
        return Pair(NOTHING, x), self._priced[1]


# ------------------------------------------------------------------------------ the state


@dataclass(frozen=True)
class ConsensusWarmStart:
    """Where the next splitting begins; the multiplier of the state is empty."""

    subgradients: tuple[Array, ...] = ()
    """One for each norm, or none,"""
    Z: tuple[Array, ...] | None = None
    """at these prox points of the last model."""
    rho: float | None = None
    accuracy: float = 0.1
    """Residuals of a model relative to its step: more digits would describe the model only."""


@dataclass(frozen=True)
class SearchState:
    """Where the search for dual points has come to."""

    ended: Point | None = None
    """Where the last one has ended."""
    settled: Point | None = None
    """The last point that `settle` has seen."""
    is_by_entries: bool = False
    """Whether corrected derivatives have brought too little, and the other search is made."""
    n_tries: int = 0
    next_try: int = 0
    """The step from which on the next is made."""
    reads: float = 0.0
    """Reads of all of them."""


@dataclass(kw_only=True)
class MatrixState(NewtonState):
    """State of the loop, with what steps and searches for dual points have left."""

    at: MatrixEvaluation
    warm: ConsensusWarmStart
    metric: Metric
    search: SearchState = field(default_factory=SearchState)


# ------------------------------------------------------------------------------ the curvature


@dataclass(frozen=True)
class MatrixModel:
    """The quadratic model of the loss at a point, in the rows that may move.

    Where the metric allows for it, rows that are zero and held there by the norm of entries or
    rows are left out: the subgradient of the nuclear norm may be zero in them.
    """

    norms: Form
    metric: Metric
    rows: Any
    W: Array
    gradient: Array
    linear: Array
    others: tuple[Any, ...]

    @classmethod
    def at(cls, form: Form, metric: Metric, point: Point) -> MatrixModel:
        """Return the model at a point."""
        rows: Any = slice(None)
        others = form.others
        if metric.can_be_masked and others:
            inside = others[0].violation(-point.gradient) <= 1
            rows = np.flatnonzero(point.W.any(axis=1) | ~inside)
            metric, others = metric.restricted(rows), (others[0].restricted(rows),)
        own: Any = metric.dtype
        W = point.W[rows].astype(own, copy=False)
        gradient = point.gradient[rows].astype(own, copy=False)
        return cls(form, metric, rows, W, gradient, metric.apply(W) - gradient, others)

    def value(self, W: Array) -> float:
        """Return the model and the norms at W."""
        derivative = 0.5 * self.metric.apply(W) - self.linear
        smooth = np.einsum("ij,ij->i", W, derivative).sum(dtype=np.float64)
        alpha, single = float(self.norms.nuclear.alpha), self.metric.single
        norms = alpha * (nuclear_norm_by_gram if single else nuclear_norm)(W)
        return float(smooth) + norms + sum(float(h.value(W)) for h in self.others)

    def is_met(self, run: Splitting, accuracy: float) -> bool:
        """Say whether the residuals of a splitting are small beside the step."""
        Z, norm = run.Z[-1], np.linalg.norm
        apart = np.sqrt(sum(norm(run.W - each) ** 2 for each in run.Z))
        if apart > accuracy * norm(Z - self.W):
            return False
        mean = sum(run.Z[1:], run.Z[0]) / len(run.Z)
        model_gradient = self.metric.apply(mean) - self.linear
        total = sum(run.subgradients[1:], run.subgradients[0])
        scale = max(norm(model_gradient - self.gradient), norm(self.gradient + total))
        return bool(norm(model_gradient + total) <= accuracy * scale)


@dataclass(frozen=True)
class QuasiNewton:
    """A metric that knows the means of the curvature, and L-BFGS what steps have met."""

    def first_trust(self, p: Composite) -> Trust:
        return Trust()

    def model(self, p: Any, s: Any, run: Run) -> Metric:
        metric: Metric = s.metric
        metric.single = s.at.single
        if s.n_steps == 3:  # the Gram matrix is weighted anew: the curvature has settled
            metric.renew_rows(s.at.point)
        metric.renew(s.at.point)
        metric.prepare()
        return metric

    def observe(self, p: Any, s: Any, old: Any) -> None:
        """Learn the change of the gradient along the step."""
        if s.at is old:  # no step has helped: more digits of a model without what was learned
            s.metric.forget()
            s.warm = replace(s.warm, accuracy=max(s.warm.accuracy / 10, 1e-4))
        else:
            new = s.at.point
            s.metric.remember(new.W - old.point.W, new.gradient - old.point.gradient)
        # products and models in float32 change an objective by some 1e-8
        if s.at.single and s.decrease <= 1e-6 * abs(s.objective):
            s.at = replace(s.at, single=False)


# ------------------------------------------------------------------------------ the subproblem


@dataclass(frozen=True)
class ConsensusDR:
    """Consensus Douglas-Rachford in the coordinates where B_0 is diagonal."""

    def first_warm(self) -> ConsensusWarmStart:
        return ConsensusWarmStart()

    def minimize(self, p: Any, s: Any, H: Metric, run: Run) -> Candidate:
        W, predicted = minimized(p, s, s.warm.accuracy, run.deadline)
        H.release()  # as much as the pairs; nothing of a model is kept during a read
        return Candidate(p.f.whole(W, s.at.x[p.norms.free]), s.mu, predicted)


def minimized(
    p: MatrixProblem, s: MatrixState, accuracy: float, deadline: Deadline, asked: bool = True
) -> tuple[Array, float]:
    """Return the minimizer of the model at the iterate and the predicted decrease.

    Where the decrease is asked for, iterations go on until there is one. The warm start becomes
    that of the next model.
    """
    model = MatrixModel.at(p.norms, s.metric, s.at.point)
    alpha, rho = float(p.norms.nuclear.alpha), s.warm.rho
    proxes = [NuclearProx(alpha), *(h.prox for h in model.others)]
    run = Splitting(
        model.metric,
        model.linear,
        proxes,
        float(s.metric.diagonal.mean()) if rho is None else rho,
        1.6,
    )

    def own(arrays: Any) -> list[Array]:
        return [each[model.rows].astype(model.W.dtype, copy=False) for each in arrays]

    known = None if s.warm.Z is None else own(s.warm.Z)
    given = s.warm.subgradients or [np.zeros_like(s.at.point.W)] * len(proxes)
    run.begin(model.W, own(given), known)
    known, given, s.warm = None, (), replace(s.warm, Z=None, subgradients=())  # memory
    # Values of all prox points cost little beside a read; elsewhere the zeros of the last are
    # worth more.
    first, values = -1 if p.bounds.loss.keeps_rows else 0, [-np.inf]
    now = model.value(model.W) if asked else np.inf
    ended = False
    while not ended:
        run.advance(5)  # a look at the residuals costs about an iteration
        ended = run.n_steps >= 200 or deadline.passed()
        if ended or model.is_met(run, accuracy):
            if asked:
                values = [model.value(Z) for Z in run.Z[first:]]
            ended = ended or values[-1] < now
    s.notes["model iterations"] = s.notes.get("model iterations", 0) + run.n_steps
    Z, subgradients = run.Z, run.subgradients
    best = int(np.argmin(values)) - len(values)
    if len(model.W) < len(s.at.point.W):
        # rows that were left out are held by the other norm alone
        none, rest = np.zeros_like(s.at.point.W), -s.at.point.gradient
        Z = [_placed(each, model.rows, none) for each in Z]
        subgradients = [
            _placed(u, model.rows, elsewhere)
            for u, elsewhere in zip(subgradients, (none, rest), strict=True)
        ]
    s.warm = replace(s.warm, rho=run.rho, Z=tuple(Z), subgradients=tuple(subgradients))
    return Z[best], now - min(values)


def _placed(own: Array, rows: Array, elsewhere: Array) -> Array:
    out = elsewhere.copy()
    out[rows] = own
    return out


# ------------------------------------------------------------------------------ the dual point


@dataclass(frozen=True)
class SplitDerivatives:
    """Derivatives at the iterate, split between the norms; then corrected, then by entries."""

    def of_model(
        self, p: Composite, s: Any, H: Any, c: Candidate, run: Run
    ) -> tuple[Candidate, None]:
        return c, None

    def of_point(self, p: Any, s: Any, c: Candidate, run: Run) -> DualPoint | None:
        assert run.target is not None
        target = run.target * p.gap_scale(s.objective, s.lower_bound)
        loss, lower = p.bounds.loss, s.lower_bound
        if s.objective - lower <= target:
            return None
        if s.decrease <= target:
            parts, bound = patient_split(
                p.norms,
                -s.at.point.gradient,
                s.warm.subgradients[0],
                lambda parts: split_bound(p, s, parts),
                s.objective,
                target,
                run.deadline,
            )
            if not loss.keeps_rows:  # a product with the Hessian would cost as much as a step
                met = s.objective - bound <= target
                return settled(p, s, parts.first, run.deadline) if met else None
            lower = max(lower, bound)
        # Products with sparse rows cost little beside a model. Steps on dense rows cost as much as
        # the products of a bound, and bring derivatives that need no correction nearly as soon;
        # far from the target they do not bring what it lacks.
        near = s.objective - lower <= 100.0 * target
        small = 0.3 if loss.is_sparse else 3e-3 if near else 1e-4
        due = s.decrease <= small * target and s.n_steps + 1 >= s.search.next_try
        if loss.keeps_rows and s.objective - lower > target and due and not run.deadline.passed():
            reads = loss.reads
            bound, ended = searched(p, s, lower, target, run.deadline)
            cost, lower = loss.reads - reads, max(lower, bound)
            # a failure says that the point is not near enough: steps first, worth what it cost
            following = s.n_steps + 1 + max(2, int(0.5 * cost))
            s.search = replace(
                s.search, ended=ended, next_try=following, reads=s.search.reads + cost
            )
        return DualPoint(lower, NOTHING, NOTHING)


def searched(
    p: MatrixProblem, s: MatrixState, lower: float, target: float, deadline: Deadline
) -> tuple[float, Point]:
    """Return a bound from the subgradients of an accurate model, and where its search ended."""
    point, metric, known = s.at.point, s.metric, s.search
    metric.single = s.at.single
    metric.renew(point)
    metric.prepare()
    # iterations cost less than the products that would make up for them
    minimized(p, s, 0.01, deadline, asked=False)
    needed, subgradients = s.objective - target, list(s.warm.subgradients)
    if not known.is_by_entries:
        s.search = replace(known, n_tries=known.n_tries + 1)
        found = corrected(
            p.bounds,
            metric,
            point,
            known.ended,
            subgradients,
            30 << min(known.n_tries, 5),  # products
            0.3 * target / max(abs(s.objective), 1e-300),
            needed,
            s.objective,
            deadline,
        )
        # Of a bound that leaves more than a tenth of the gap, the products do not see what is left
        # (columns with next to no curvature), and the other search takes over.
        brought = s.objective - found[0] <= 0.1 * (s.objective - lower)
        if p.by_entries is None or found[0] >= needed or brought or deadline.passed():
            return found
        s.search = replace(s.search, is_by_entries=True)
    assert p.by_entries is not None
    return p.by_entries(point, known.ended, subgradients[0], needed, s.objective, deadline)


def split_bound(p: MatrixProblem, s: MatrixState, parts: Split) -> float:
    """Return the bound of the derivatives at the iterate and a split of their gradient."""
    point = s.at.point
    if p.bounds.loss.keeps_rows:
        return p.bounds(point.z, point.derivatives, -point.gradient, parts, s.objective)
    # a conjugate is convex, and that of derivatives zero is zero: labels can be met as closely as
    # one likes
    value = -parts.scale * added_up(point).conjugate
    return p.bounds(None, None, -point.gradient, parts, s.objective, value)


def settled(
    p: MatrixProblem, s: MatrixState, first: Array | None, deadline: Deadline
) -> DualPoint | None:
    """Return the bound of the iterate as it is, None where that has been made.

    Where nothing is kept per row the point is read in float64 for it.
    """
    known, form = s.search, p.norms
    if known.settled is s.at.point:
        return None
    first, rounds = s.warm.subgradients[0] if first is None else first, 15
    if not p.bounds.loss.keeps_rows:
        rounds, reads = 30, p.bounds.loss.reads  # as costly as the read
        s.at = p.f.evaluation(p.bounds.loss.exact(s.at.point), s.at.single)
        s.objective = s.at.value + p.inside(s.at.x)[1]
        s.n_passes += p.bounds.loss.reads - reads
    s.search = replace(known, settled=s.at.point)
    target = -s.at.point.gradient
    parts = split(form, target, first, rounds, deadline)
    if parts.scale < 0.9:  # far from a solution another split has a larger scale
        # ten halvings: a percent of the scale is one of the bound
        far = shrunk(form, target, 10)
        parts = far if far.scale > parts.scale else parts
    return DualPoint(split_bound(p, s, parts), NOTHING, NOTHING)


def settle(p: MatrixProblem, s: MatrixState, deadline: Deadline) -> None:
    """Bound the optimum by an iterate that may be the last one."""
    s.dual = better(s.dual, settled(p, s, None, deadline))


def state_at(
    p: MatrixProblem, at: MatrixEvaluation, subgradients: list[Array], lower: float = -np.inf
) -> MatrixState:
    """Return the state of the loop before a step from a point."""
    metric = Diagonal if p.bounds.loss.is_sparse else Kronecker
    x, penalty = p.inside(at.x)
    return MatrixState(
        x=x,
        mu=NOTHING,
        warm=ConsensusWarmStart(tuple(subgradients)),
        metric=metric(p.bounds.loss),
        trust=Trust(),
        at=at,
        objective=at.value + penalty,
        dual=DualPoint(lower, NOTHING, NOTHING),
    )


LOW_RANK = Plan(QuasiNewton(), ConsensusDR(), SplitDerivatives())
