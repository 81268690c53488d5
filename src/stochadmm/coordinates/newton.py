"""Newton steps whose models are minimized one coefficient after the other.

At W with gradient g and the exact Hessian H of the loss, coupled outputs included,

    W+ = argmin <g, . - W> + 1/2 <. - W, H (. - W)> + penalties

approximately, over the entries that are not zero or may leave zero. A visit costs the entries of
one column of the data, so that sweeps over sparse rows cost a small part of a pass (Friedman,
Hastie and Tibshirani 2010; Yuan, Ho and Lin 2012). Free rows are part of the model and are
minimized out exactly afterwards. The step is shortened on the predictions until the objective
falls.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from ..base.protocols import Array
from ..kernels.coordinates import Coordinates, coordinate_sweeps
from ..low_rank import CurvedLoss, Point
from ..risk.split_columns import ByColumn, SquaredColumns
from .form import Entries
from .options import CoordinateOptions

E = TypeVar("E", bound=Entries)


class CoordinateNewton(Generic[E]):
    """A run of steps on one loss and form; ``step`` advances it."""

    def __init__(self, loss: CurvedLoss, form: E, options: CoordinateOptions) -> None:
        self.loss, self.form, self.options = loss, form, options
        largest = loss.columns.largest_entry()
        self.radius = options.first_reach / max(largest, 1e-300)
        """How far a model may move one entry: its curvature is true nearby only."""
        self.decrease = np.inf
        """What the last step gained."""
        self.n_steps = self.n_sweeps = self.n_failed = 0
        self.exact = False
        """Whether the zeros of W are those of a model's minimizer, not of a point on the way."""
        self.by_column = ByColumn(loss.columns)
        self.squares = SquaredColumns(loss.columns)

    def begin(self, W: Array, V: Array | None) -> None:
        """Start at W."""
        self.begin_at(self.loss.at(W, V))

    def begin_at(self, point: Point) -> None:
        """Start at a point whose loss is known."""
        self.point, self.penalty = point, self.form.value(point.W)

    def copy(self) -> CoordinateNewton[E]:
        """Return a run that goes on by itself; arrays are never changed in place."""
        return copy(self)

    @property
    def upper(self) -> float:
        """The objective."""
        return self.point.value + self.penalty

    def step(self) -> None:
        """Minimize a model and move towards its minimizer."""
        self._move(self._model())
        self.n_steps += 1

    # ---------------------------------------------------------------- the model

    def _model(self) -> Target:
        """Return the model's minimizer within reach."""
        o, form, point, loss = self.options, self.form, self.point, self.loss
        W, g = point.W, point.gradient + form.tilt
        c, s = loss.curvature(point)
        weight = (1.0 if loss.weight is None else loss.weight) / loss.n
        curved, coupled = c * weight, None if s is None else s * np.sqrt(weight)
        own = curved if coupled is None else curved - coupled * coupled
        bend = np.vstack([self.squares @ own, (loss.columns.free**2).T @ own])
        bend = np.maximum(bend, o.flat * max(float(bend.mean()), 1e-300))
        active = (W != 0) | (np.abs(g) > o.near * form.l1)
        violation = _violation(form, W, g, bend[: len(W)])
        share = violation / max(float(form.l1.mean()), 1e-300)
        chosen = np.vstack([active, np.ones((form.free.size, W.shape[1]), dtype=bool)])
        output, column = np.nonzero(chosen.T)
        at = column, output

        def picked(rows: Array, free: float) -> Array:
            wide = np.vstack([rows, np.full((form.free.size, W.shape[1]), free)])
            return np.ascontiguousarray(wide[at])

        start = np.vstack([W, point.V])[at]
        w = start.copy()
        by = self.by_column
        model = Coordinates(
            by.indptr,
            by.indices,
            by.data,
            np.ascontiguousarray(curved.T),
            None if coupled is None else np.ascontiguousarray(coupled.T),
            np.searchsorted(output, np.arange(W.shape[1] + 1)).astype(np.int64),
            column.astype(np.int64),
            picked(g, 0.0),
            np.ascontiguousarray(bend[at]),
            picked(form.l1, 0.0),
            picked(form.l2, 0.0),
            np.maximum(picked(form.lo, -np.inf), start - self.radius),
            np.minimum(picked(form.hi, np.inf), start + self.radius),
            w,
            float(np.clip(share, o.least_forcing, o.forcing)) * violation,
            o.sweeps,
            o.inner,
        )
        swept = coordinate_sweeps(model)
        self.n_sweeps += swept.sweeps
        found = np.zeros(chosen.shape)
        found[at] = w
        held = bool((np.abs(w - start) >= 0.999 * self.radius).any())
        return Target(found[: len(W)], found[len(W) :], max(swept.square, 0.0), held)

    # ---------------------------------------------------------------- the step

    def _move(self, to: Target) -> None:
        """Go to the target, or as far towards it as the objective falls; learn how far is good."""
        o, old, before = self.options, self.point, self.upper
        delta = to.W - old.W
        ahead = self.loss.product(delta)
        new_penalty = self.form.value(to.W)
        linear = float(np.vdot(old.gradient, delta)) + new_penalty - self.penalty
        promised = max(-linear - 0.5 * to.bent, 0.0)
        t, W, penalty, V = 1.0, to.W, new_penalty, to.V
        while True:
            base = old.base + t * ahead
            found, z, value, u = self.loss.fit_free(base, V)
            gained = before - value - penalty
            if gained >= o.sufficient * t * promised - 1e-14 * abs(before):
                break
            t /= 2
            if t < o.least_length:
                self.decrease = 0.0
                self.radius *= o.least_length
                self.n_failed += 1
                return
            W, V = old.W + t * delta, old.V
            penalty = self.form.value(W)
        if t < 1 or gained < o.poor * promised:
            self.radius = min(self.radius, float(np.abs(delta).max())) * min(t, 0.5)
        elif to.held and gained > o.good * promised:
            self.radius *= o.wider
        self.point = Point(W, found, base, z, value, u, self.loss.pull_back(u))
        self.penalty, self.exact = penalty, t == 1
        self.decrease, self.n_failed = before - self.upper, 0


@dataclass(frozen=True)
class Target:
    """The minimizer of a model."""

    W: Array
    V: Array
    """Free rows."""
    bent: float
    """The model's second derivative along the step."""
    held: bool
    """Whether an entry would have gone farther."""


def _violation(form: Entries, W: Array, g: Array, bend: Array) -> float:
    """Return the largest derivative that a step of one entry alone would remove."""
    pull = bend * W - g
    soft = pull - np.clip(pull, -form.l1, form.l1)
    there = np.clip(soft / (bend + form.l2), form.lo, form.hi)
    return float((bend * np.abs(there - W)).max(initial=0.0))
