"""Proximal Newton steps for a curved loss plus a nuclear norm and a norm of entries or rows.

At W with gradient g, a metric B (``metric``) and the splitting of ``splitting`` make

    W+ = argmin <g, . - W> + 1/2 <. - W, B (. - W)> + a |.|_* + h(.)

approximately; the step is shortened on the predictions until the objective falls. The
splitting's subgradients are the dual point of the certificate (``dual``).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from .blockwise import added_up
from .curved import Point
from .dual import Bounds, Split, corrected, patient_split, shrunk, split
from .form import Form
from .metric import Metric
from .splitting import Splitting
from .svt import NuclearProx, nuclear_norm, nuclear_norm_by_gram


@dataclass(frozen=True)
class Model:
    """The quadratic model of a loss at a point, in the rows that may move.

    Where the metric allows for it, rows that are zero and held there by the norm of entries or
    rows are left out: the subgradient of the nuclear norm may be zero in them.
    """

    form: Form
    metric: Metric
    rows: Any
    W: Array
    gradient: Array
    linear: Array
    others: tuple[Any, ...]

    @classmethod
    def at(cls, form: Form, metric: Metric, point: Point) -> Model:
        """Return the model at a point."""
        rows: Any = slice(None)
        others = form.others
        if metric.can_be_masked and others:
            held = others[0].violation(-point.gradient) <= 1
            rows = np.flatnonzero(point.W.any(axis=1) | ~held)
            metric, others = metric.restricted(rows), (others[0].restricted(rows),)
        own: Any = metric.dtype
        W = point.W[rows].astype(own, copy=False)
        gradient = point.gradient[rows].astype(own, copy=False)
        return cls(form, metric, rows, W, gradient, metric.apply(W) - gradient, others)

    @property
    def proxes(self) -> list[Any]:
        """The prox of each norm."""
        return [NuclearProx(float(self.form.nuclear.alpha)), *(h.prox for h in self.others)]

    def own(self, arrays: list[Array]) -> list[Array]:
        """Return the rows of matrices that may move, in the model's precision."""
        return [each[self.rows].astype(self.W.dtype, copy=False) for each in arrays]

    def whole(self, own: Array, elsewhere: Array) -> Array:
        """Return a matrix of all rows from that of those that may move."""
        out = elsewhere.copy()
        out[self.rows] = own
        return out

    def value(self, W: Array) -> float:
        """Return the model and the norms at W."""
        derivative = 0.5 * self.metric.apply(W) - self.linear
        smooth = np.einsum("ij,ij->i", W, derivative).sum(dtype=np.float64)
        alpha, single = float(self.form.nuclear.alpha), self.metric.single
        norms = alpha * (nuclear_norm_by_gram if single else nuclear_norm)(W)
        return float(smooth) + norms + sum(float(h.value(W)) for h in self.others)

    def is_met(self, run: Splitting, accuracy: float, below: float) -> bool:
        """Say whether the residuals are small beside the step, and the model has fallen."""
        Z, norm = run.Z[-1], np.linalg.norm
        apart = np.sqrt(sum(norm(run.W - each) ** 2 for each in run.Z))
        if apart > accuracy * norm(Z - self.W):
            return False
        mean = sum(run.Z[1:], run.Z[0]) / len(run.Z)
        bent = self.metric.apply(mean) - self.linear  # the model's gradient at the mean of the Z
        total = run.subgradients[0]
        for u in run.subgradients[1:]:
            total = total + u
        scale = max(norm(bent - self.gradient), norm(self.gradient + total))
        if norm(bent + total) > accuracy * scale:
            return False
        return below == np.inf or self.value(Z) < below


class Search(Protocol):
    """A search for a bound from a point and a subgradient of the nuclear norm."""

    def __call__(
        self,
        point: Point,
        begin: Point | None,
        U: Array,
        needed: float,
        upper: float,
        deadline: Deadline,
    ) -> tuple[float, Point]:
        """Return a bound and where the search has ended; U is the subgradient, ``upper`` is F."""
        ...


class ProximalNewton:
    """A run of steps on one loss and form; ``step`` advances it."""

    def __init__(
        self,
        bounds: Bounds,
        metric: Metric,
        search: Search | None = None,
    ) -> None:
        self.loss, self.form, self.bounds = bounds.loss, bounds.form, bounds
        self.metric = metric
        self.search = search
        """Another search for bounds than that by corrected derivatives, where there is one,"""
        self.takes_search = False
        """and whether it has taken over: corrected derivatives have brought too little."""
        self.accuracy = 0.1
        """Residuals of a model relative to its step: more digits would describe the model only."""
        self.lower = -np.inf
        self.decrease = np.inf
        """What the last step gained."""
        self.n_steps = self.n_inner = 0
        self.certificate_reads = 0.0
        self.ended: Point | None = None
        """Where the search for the last certificate has ended."""
        self.settled: Point | None = None
        """The last point of an epoch's end that has given a bound."""
        self.n_tries = self.next_try = 0
        self.rho: float | None = None
        self.subgradients: list[Array] = []
        self.Z: list[Array] | None = None

    def begin(
        self, W: Array, V: Array | None, subgradients: list[Array], rho: float | None = None
    ) -> None:
        """Start at W."""
        self.begin_at(self.loss.at(W, V), subgradients, rho)

    def begin_at(self, point: Point, subgradients: list[Array], rho: float | None = None) -> None:
        """Start at a point whose loss is known."""
        self.point = point
        self.penalty = self._penalty(point.W)
        self.subgradients, self.rho = subgradients, rho

    def copy(self) -> ProximalNewton:
        """Return a run that goes on by itself; arrays are never changed in place."""
        twin = copy(self)
        twin.metric = self.metric.copy()
        return twin

    @property
    def upper(self) -> float:
        """The objective."""
        return self.point.value + self.penalty

    def _penalty(self, W: Array) -> float:
        others = sum(float(h.value(W)) for h in self.form.others)
        return float(self.form.nuclear.alpha) * nuclear_norm(W) + others

    # ---------------------------------------------------------------- a step

    def step(self, deadline: Deadline = NEVER) -> None:
        """Minimize a model and move towards its minimizer."""
        point, metric = self.point, self.metric
        if self.n_steps == 3:  # the Gram matrix is weighted anew: the curvature has settled
            metric.renew_rows(point)
        self._move(self._target(deadline))
        self.n_steps += 1
        # products and models in float32 change an objective by some 1e-8
        if self.decrease <= 1e-6 * abs(self.upper):
            metric.single = False

    def _target(self, deadline: Deadline) -> Array:
        """Return the minimizer of the model at the point; nothing of the model is left behind."""
        metric = self.metric
        metric.renew(self.point)
        metric.prepare()
        model = Model.at(self.form, metric, self.point)
        target = self._minimized(model, self.accuracy, model.value(model.W), deadline)
        metric.release()
        return target

    def _minimized(self, model: Model, accuracy: float, below: float, deadline: Deadline) -> Array:
        """Return the minimizer of a model up to an accuracy, where its value is below another."""
        rho = float(self.metric.diagonal.mean()) if self.rho is None else self.rho
        run = Splitting(model.metric, model.linear, model.proxes, rho, 1.6)
        run.begin(model.W, *self._handed_over(model))
        for k in range(1, 201):
            run.step()
            if k % 5:  # a look at the residuals costs about an iteration
                continue
            if model.is_met(run, accuracy, below) or deadline.passed():
                break
        self.n_inner += run.n_steps
        self.rho = run.rho
        # values cost little beside a read; elsewhere the zeros of the last one are worth more
        best = -1 if self.loss.keeps_rows else _lowest(model, run.Z)
        self.Z, self.subgradients = run.Z, run.subgradients
        if len(model.W) < len(self.point.W):
            none, rest = np.zeros_like(self.point.W), -self.point.gradient
            self.Z = [model.whole(Z, none) for Z in run.Z]
            # rows that were left out are held by the other norm alone
            first, second = self.subgradients
            self.subgradients = [model.whole(first, none), model.whole(second, rest)]
        return self.Z[best]

    def _handed_over(self, model: Model) -> tuple[list[Array], list[Array] | None]:
        """Return subgradients and prox points for a model's start; the next are those it finds."""
        known = None if self.Z is None else model.own(self.Z)
        subgradients, self.subgradients, self.Z = model.own(self.subgradients), [], None
        return subgradients, known

    def _move(self, target: Array) -> None:
        """Go to the target, or as far towards it as the objective falls."""
        old, before = self.point, self.upper
        target = self.loss.representable(target)
        delta = target - old.W
        line = self.loss.towards(old, delta, self.metric.single)
        new_penalty = self._penalty(target)
        promised = min(float(np.vdot(old.gradient, delta)) + new_penalty - self.penalty, 0.0)
        t, W, penalty = 1.0, target, new_penalty
        while True:
            if line.value(t, W) + penalty <= before + 1e-4 * t * promised + 1e-14 * abs(before):
                break
            t /= 2
            if t < 1e-4:
                self.decrease = 0.0
                self.accuracy = max(self.accuracy / 10, 1e-4)
                self.metric.steps.clear()
                self.metric.changes.clear()
                return
            W = self.loss.representable(old.W + t * delta)
            penalty = self._penalty(W)
        if t < 0.05:
            self.accuracy = max(self.accuracy / 3, 1e-3)
        self.point = line.point()
        self.penalty = penalty
        self.metric.remember(W - old.W, self.point.gradient - old.gradient)
        self.decrease = before - self.upper

    # ---------------------------------------------------------------- the certificate

    def certify(self, target: float, deadline: Deadline = NEVER) -> bool:
        """Look for a bound as far as it may succeed; say whether the gap is below the target."""
        if not self.loss.keeps_rows:
            return self._certify_by_split(target, deadline)
        reads = self.loss.reads
        if self.upper - self.lower > target and self.decrease <= target:
            self._take(self._split(target, deadline)[1])
        due = self.decrease <= self._small(target) * target and self.n_steps >= self.next_try
        if self.upper - self.lower > target and due and not deadline.passed():
            before = self.loss.reads
            found, self.ended = self._searched(self.upper - target, target, deadline)
            self._take(found)
            # a failure says that the point is not near enough: steps first, worth what it cost
            self.next_try = self.n_steps + max(2, int(0.5 * (self.loss.reads - before)))
        self.certificate_reads += self.loss.reads - reads
        return self.upper - self.lower <= target

    def _small(self, target: float) -> float:
        """Return the gain of a step, in targets, from which on a corrected bound is tried.

        Products with sparse rows cost little beside a model. Steps on dense rows cost as much as
        the products of a bound, and bring derivatives that need no correction nearly as soon; far
        from the target they do not bring what it lacks.
        """
        if self.metric.can_be_masked:
            return 0.3
        return 1e-4 if self.upper - self.lower > 100.0 * target else 3e-3

    def _searched(self, needed: float, target: float, deadline: Deadline) -> tuple[float, Point]:
        """Return the bound of a search from the subgradients of an accurate model."""
        point = self.point
        self.metric.renew(point)
        self.metric.prepare()
        model = Model.at(self.form, self.metric, point)
        # iterations cost less than the products that would make up for them
        self._minimized(model, 0.01, np.inf, deadline)
        if self.search is not None and self.takes_search:
            return self.search(
                point, self.ended, self.subgradients[0], needed, self.upper, deadline
            )
        products = 30 << min(self.n_tries, 5)
        self.n_tries += 1
        relative = 0.3 * target / max(abs(self.upper), 1e-300)
        found = corrected(
            self.bounds,
            self.metric,
            point,
            self.ended,
            self.subgradients,
            products,
            relative,
            needed,
            self.upper,
            deadline,
        )
        # Of a bound that leaves more than a tenth of the gap, the products do not see what is left
        # (columns with next to no curvature), and the other search takes over.
        brought = self.upper - found[0] <= 0.1 * (self.upper - self.lower)
        if self.search is None or found[0] >= needed or brought or deadline.passed():
            return found
        self.takes_search = True
        return self.search(point, self.ended, self.subgradients[0], needed, self.upper, deadline)

    def _certify_by_split(self, target: float, deadline: Deadline) -> bool:
        """Look for a bound where a product with the Hessian would cost as much as a step."""
        if self.upper - self.lower > target and self.decrease <= target:
            parts, found = self._split(target, deadline)
            if self.upper - found <= target:
                self.settle(parts.first, deadline)
        return self.upper - self.lower <= target

    def settle(self, first: Array | None = None, deadline: Deadline = NEVER) -> None:
        """Bound the optimum by the point of an epoch's end, unless that has been done.

        Where nothing is kept per row the point is read in float64 for it.
        """
        if self.settled is self.point:
            return
        if self.loss.keeps_rows:
            self.settled = point = self.point
            parts = split(self.form, -point.gradient, self.subgradients[0], 15)
        else:
            self.point = self.settled = self.loss.exact(self.point)
            first = self.subgradients[0] if first is None else first
            # 30 projections are as costly as the read
            parts = split(self.form, -self.point.gradient, first, 30, deadline)
        if parts.scale < 0.9:  # far from a solution another split has a larger scale
            # ten halvings: a percent of the scale is one of the bound
            far = shrunk(self.form, -self.point.gradient, 10)
            parts = far if far.scale > parts.scale else parts
        self._take(self._bound(parts))

    def _split(self, target: float, deadline: Deadline) -> tuple[Split, float]:
        """Return the gradient divided between the norms and the bound that it gives."""
        first = self.subgradients[0]
        pull, upper = -self.point.gradient, self.upper
        return patient_split(self.form, pull, first, self._bound, upper, target, deadline)

    def _bound(self, parts: Split) -> float:
        """Return the bound of the point's derivatives and a split of their gradient."""
        point, target = self.point, -self.point.gradient
        if self.loss.keeps_rows:
            return self.bounds(point.z, point.derivatives, target, parts, self.upper)
        # a conjugate is convex, and that of derivatives zero is zero: labels can be met as closely
        # as one likes
        value = -parts.scale * added_up(point).conjugate
        return self.bounds(None, None, target, parts, self.upper, value)

    def _take(self, found: float) -> None:
        self.lower = max(self.lower, found)


def _lowest(model: Model, points: list[Array]) -> int:
    """Return which point has the lowest value: of low rank, or with zeros."""
    return int(np.argmin([model.value(Z) for Z in points]))
