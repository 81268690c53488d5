"""A lower bound from the structure's factor.

For derivatives u of the rows (weights left out) with gradient g = X'(q u)/n, a multiplier with
``S' mu = -g`` in the dual set of the penalties gives ``-mean conjugate(u) - H*(mu) - <mu, o>``.
Reflections at the equation (one solve with the factor) and at the dual set take turns (Douglas and
Rachford); the set is that of the subgradients at S w, which the optimal multiplier is in. Their
fixed-point map is mixed after Anderson. Both parts are then shrunk by one factor until they are
feasible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import DualPoint, dual_value, lower_bound, rounding
from ..forms.one_block import OneBlock
from ..risk import Evaluation, FiniteSum
from ._pieces import Pieces
from ._structure import Structure
from .options import OPTIONS, TiedOptions


class Found(NamedTuple):
    """The dual point, and a multiplier in the dual set for the next splitting."""

    point: DualPoint
    mu: Array


def dual_point(
    f2: FiniteSum,
    form: OneBlock,
    rows: Structure,
    penalty: Pieces,
    at: Evaluation,
    start: Array,
    reflections: int,
    enough: float,
    options: TiedOptions = OPTIONS,
    *,
    deadline: Deadline = NEVER,
    workspace: Workspace | None = None,
) -> Found:
    """Return the best bound that some reflections find for the derivatives at a point.

    They end early when a bound is at least ``enough``.
    """
    workspace = workspace or Workspace()
    S, St, target = rows.S, rows.St, -at.gradient
    image = S @ at.x - form.offset
    objective = at.value + float(form.stacked_penalty.value(image))
    subgradient = _subgradients(form, penalty, image, start, options.firm)
    mixing = Mixing(1.0 / np.sqrt(rows.sigma), options.mixed)
    governing = subgradient(start)
    candidates = Candidates(f2, form, at, objective, workspace)
    for k in range(reflections):
        look = k % options.look == 0 or k == reflections - 1
        mu = governing + rows.absorb(target - St @ governing, exact=look)
        if look:
            candidates.add(form.scale(mu), mu)
        if candidates.reach(enough) or deadline.passed():
            break
        if k == 2 * options.look and candidates.far_from(enough, options.hopeless):
            break
        governing = mixing.step(governing, subgradient(2 * mu - governing) - mu)
    best = candidates.best() or DualPoint(-np.inf, governing, at.derivative)
    return Found(best, form.project(best.mu))


def _subgradients(
    form: OneBlock, penalty: Pieces, image: Array, start: Array, firm: float
) -> Callable[[Array], Array]:
    """Return (nearly) the projection on the subgradients of the penalty at ``image``.

    It is the multiplier that a prox at the image leaves, with a large penalty: the gradient where
    there is one, the projection on the dual set where the image is zero.
    """
    sigma = penalty.sigma()
    root = np.sqrt(sigma)
    size, pull = (float(np.abs(v).max(initial=0.0)) for v in (root * image, start / root))
    if not (size > 0 and pull > 0):
        return form.project
    beta = firm * pull / size

    def project(mu: Array) -> Array:
        ahead = image + mu / (beta * sigma)
        change: Array = beta * sigma * (ahead - penalty.prox(ahead, beta))
        return change

    return project


class Mixing:
    """Anderson's mixing of the steps of a fixed-point iteration ``x <- x + r(x)``.

    The next point is that of the affine combination of the last ones whose residual is smallest,
    in units of ``root``. A residual that has grown starts it anew: the map is affine in pieces
    only, and this is another one.
    """

    def __init__(self, root: Array, most: int) -> None:
        self.root = root
        self.changes, self.moves = np.zeros((2, most, root.size))
        """Of the residuals, in units of ``root``, and of points and residuals together."""
        self.count = 0
        self.least = np.inf
        self.last: tuple[Array, Array] | None = None

    def step(self, point: Array, residual: Array) -> Array:
        """Return the next point."""
        scaled, ahead = self.root * residual, point + residual
        size = _norm(scaled)
        if self.last is None or size > 2 * self.least:
            self.count, self.least = 0, size
        else:
            at = self.count % len(self.changes)
            np.subtract(scaled, self.last[0], out=self.changes[at])
            np.subtract(ahead, self.last[1], out=self.moves[at])
            self.count, self.least = self.count + 1, min(self.least, size)
        self.last = scaled, ahead
        if self.count == 0:
            return ahead
        changes = self.changes[: self.count]
        products = changes @ changes.T
        # of changes that are nearly parallel, as much as rounding can tell apart
        products.flat[:: len(products) + 1] += 1e-10 * float(np.trace(products)) + 1e-300
        share = np.linalg.solve(products, changes @ scaled)
        return np.asarray(ahead - share @ self.moves[: self.count])


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))


@dataclass
class Candidates:
    """Multipliers shrunk into the dual set; what rounding costs is found for the best only."""

    f2: FiniteSum
    form: OneBlock
    at: Evaluation
    objective: float
    workspace: Workspace
    values: list[tuple[float, float, Array, Array]] = field(default_factory=list)
    """Dual value, factor, multiplier and rounding, the largest value first."""
    proved: DualPoint | None = None
    nearest: float = 0.0
    """The largest factor of a candidate: it was shrunk least."""

    def add(self, scale: float, mu: Array) -> None:
        """Take derivatives and multiplier times one factor, unless a better factor is known."""
        if scale < self.nearest:
            return
        at, error = (
            self.at,
            rounding(self.f2, self.form, self.at.derivative, mu, workspace=self.workspace),
        )
        # a point on the edge may fall outside by rounding when scaled
        for factor in (scale, scale * (1.0 - 1e-15), scale * (1.0 - 1e-14)):
            value = dual_value(
                self.f2,
                self.form,
                self._derivatives(factor),
                factor * at.gradient,
                factor * mu,
                error,
            )
            if np.isfinite(value):
                self.values.append((value, factor, mu, error))
                self.values.sort(key=lambda known: -known[0])
                self.nearest = max(self.nearest, factor)
                break

    def reach(self, enough: float) -> bool:
        """Say whether a bound is at least ``enough``."""
        if self.values and self.values[0][0] >= enough:
            self.best()
        return self.proved is not None and self.proved.bound >= enough

    def far_from(self, enough: float, hopeless: float) -> bool:
        """Say whether the gap is still many times the one that is enough."""
        largest = self.values[0][0] if self.values else -np.inf
        return self.objective - largest > hopeless * (self.objective - enough)

    def best(self) -> DualPoint | None:
        """Return the largest bound that can be proved, None where there is none."""
        while self.values:
            value, factor, mu, error = self.values[0]
            if self.proved is not None and self.proved.bound >= value:
                break
            self.values.pop(0)
            u, at = self._derivatives(factor), self.at
            bound = lower_bound(
                self.f2,
                self.form,
                at.predictions,
                u,
                factor * at.gradient,
                factor * mu,
                error,
                self.objective,
                value,
                workspace=self.workspace,
            )
            if np.isfinite(bound) and (self.proved is None or bound > self.proved.bound):
                self.proved = DualPoint(bound, factor * mu, u, factor)
                break
        return self.proved

    def _derivatives(self, factor: float) -> Array:
        return self.at.derivative if factor == 1.0 else factor * self.at.derivative
