"""Proximal Newton steps for a curved loss plus a nuclear norm and a norm of entries or rows.

At W with gradient g, a metric B (``metric``) and the splitting of ``splitting`` make

    W+ = argmin <g, . - W> + 1/2 <. - W, B (. - W)> + a |.|_* + h(.)

approximately; the step is shortened on the predictions until the objective falls. The
splitting's subgradients are the dual point of the certificate (``dual``).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from .curved import CurvedLoss, Point
from .dual import bound, corrected, split
from .form import Form
from .metric import Metric
from .options import NewtonOptions
from .splitting import Splitting
from .svt import NuclearProx, nuclear_norm


class ProximalNewton:
    """A run of steps on one loss and form; ``step`` advances it."""

    def __init__(
        self, loss: CurvedLoss, form: Form, metric: Metric, options: NewtonOptions
    ) -> None:
        self.loss, self.form, self.metric, self.options = loss, form, metric, options
        self.accuracy = options.accuracy
        self.lower = -np.inf
        self.decrease = np.inf
        """What the last step gained."""
        self.n_steps = self.n_inner = 0
        self.certificate_reads = 0.0
        self.ended: Point | None = None
        """Where the search for the last certificate has ended."""
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
        first = float(self.form.nuclear.alpha) * nuclear_norm(W) if W.any() else 0.0
        return first + sum(float(h.value(W)) for h in self.form.others)

    # ---------------------------------------------------------------- a step

    def step(self, deadline: Deadline = NEVER) -> None:
        """Minimize a model and move towards its minimizer."""
        point, metric = self.point, self.metric
        if self.n_steps in self.options.regram:
            metric.renew_rows(point)
        metric.renew(point)
        metric.prepare()
        target = self._model(metric.apply(point.W) - point.gradient, deadline)
        self._move(target)
        self.n_steps += 1

    def _model(self, linear: Array, deadline: Deadline) -> Array:
        """Return the minimizer of the model, as accurate as the step deserves."""
        o, W = self.options, self.point.W
        low_rank = NuclearProx(float(self.form.nuclear.alpha))
        rho = float(self.metric.diagonal.mean()) if self.rho is None else self.rho
        proxes = [low_rank, *(h.prox for h in self.form.others)]
        run = Splitting(self.metric, linear, proxes, rho, o.splitting)
        run.begin(W, self.subgradients, self.Z)
        now = self._model_value(W, linear, self.penalty)
        for k in range(1, o.inner + 1):
            run.step()
            if k % o.look_every:
                continue
            if self._accurate(run, linear, now) or deadline.passed():
                break
        self.n_inner += run.n_steps
        self.rho, self.Z, self.subgradients = run.rho, run.Z, run.subgradients
        return run.Z[-1]

    def _model_value(self, W: Array, linear: Array, penalty: float) -> float:
        return float(np.vdot(W, 0.5 * self.metric.apply(W) - linear)) + penalty

    def _accurate(self, run: Splitting, linear: Array, now: float) -> bool:
        """Say whether the residuals are small beside the step, and the model has fallen."""
        Z, norm = run.Z[-1], np.linalg.norm
        apart = np.sqrt(sum(norm(run.W - each) ** 2 for each in run.Z))
        if apart > self.accuracy * norm(Z - self.point.W):
            return False
        mean = sum(run.Z[1:], run.Z[0]) / len(run.Z)
        bent = self.metric.apply(mean) - linear  # the model's gradient at the mean of the Z
        total = run.subgradients[0]
        for u in run.subgradients[1:]:
            total = total + u
        scale = max(norm(bent - self.point.gradient), norm(self.point.gradient + total))
        if norm(bent + total) > self.accuracy * scale:
            return False
        return self._model_value(Z, linear, self._penalty(Z)) < now

    def _move(self, target: Array) -> None:
        """Go to the target, or as far towards it as the objective falls."""
        old, before = self.point, self.upper
        delta = target - old.W
        ahead = self.loss.product(delta)
        new_penalty = self._penalty(target)
        promised = min(float(np.vdot(old.gradient, delta)) + new_penalty - self.penalty, 0.0)
        t, W, penalty = 1.0, target, new_penalty
        while True:
            base = old.base + t * ahead
            V, z, value, u = self.loss.fit_free(base, old.V)
            if value + penalty <= before + 1e-4 * t * promised + 1e-14 * abs(before):
                break
            t /= 2
            if t < 1e-4:
                self.decrease = 0.0
                self.accuracy = max(self.accuracy / 10, 1e-4)
                self.metric.steps.clear()
                self.metric.changes.clear()
                return
            W = old.W + t * delta
            penalty = self._penalty(W)
        if t < 0.05:
            self.accuracy = max(self.accuracy / 3, 1e-3)
        self.point = Point(W, V, base, z, value, u, self.loss.pull_back(u))
        self.penalty = penalty
        self.metric.remember(W - old.W, self.point.gradient - old.gradient)
        self.decrease = before - self.upper

    # ---------------------------------------------------------------- the certificate

    def certify(self, target: float, deadline: Deadline = NEVER) -> bool:
        """Look for a bound as far as it may succeed; say whether the gap is below the target."""
        o, point, reads = self.options, self.point, self.loss.reads
        if self.upper - self.lower > target and self.decrease <= o.split_from * target:
            parts = split(
                self.form, -point.gradient, self.subgradients[0], o.dual.rounds, deadline
            )
            self._take(bound(self.loss, point.V, point.slopes, parts.scale, o.dual))
        due = self.decrease <= o.correct_from * target and self.n_steps >= self.next_try
        if self.upper - self.lower > target and due and not deadline.passed():
            products = o.dual.products << min(self.n_tries, 5)
            self.n_tries += 1
            self.next_try = self.n_steps + 2  # a failure says that the point is not near enough
            self.metric.renew(point)
            self.metric.prepare()
            relative = 0.3 * target / max(abs(self.upper), 1e-300)
            found, self.ended = corrected(
                self.loss, self.form, self.metric, point, self.ended, self.subgradients,
                products, relative, self.upper - target, o.dual, deadline,
            )  # fmt: skip
            self._take(found)
        self.certificate_reads += self.loss.reads - reads
        return self.upper - self.lower <= target

    def _take(self, found: float) -> None:
        self.lower = max(self.lower, found)


def zero_subgradients(form: Form, shape: Any) -> list[Array]:
    """Return the subgradients of a cold start."""
    return [np.zeros(shape) for _ in form.terms]
