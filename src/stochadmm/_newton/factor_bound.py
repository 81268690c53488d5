"""A lower bound from the structure's factor.

For derivatives u of the rows (weights left out) with gradient g = X'(q u)/n, a multiplier with
``S' mu = -g`` in the dual set of the penalties gives ``-mean conjugate(u) - H*(mu) - <mu, o>``.
Reflections at the equation (one solve with the factor) and at the dual set take turns (Douglas and
Rachford); the set is that of the subgradients at S w, which the optimal multiplier is in. Their
fixed-point map is accelerated after Anderson. Both parts are then shrunk by one factor until they
are feasible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import DualPoint, dual_value, lower_bound, nearby, rounding
from ..forms.one_block import OneBlock
from ..risk import Evaluation, FiniteSum
from .factor import FactoredStructure, ScaledPenalties

REFLECTIONS = 30
"""Most solves of a certificate."""
LOOK = 3
"""Reflections from one bound to the next: a bound costs about as much as one."""


def bound_by_factor(
    f2: FiniteSum,
    form: OneBlock,
    structure: FactoredStructure,
    penalties: ScaledPenalties,
    at: Evaluation,
    start: Array,
    enough: float,
    hopeless: float,
    *,
    deadline: Deadline = NEVER,
    workspace: Workspace | None = None,
) -> tuple[DualPoint, Array]:
    """Return the best bound that some reflections find for the derivatives at a point.

    Beside it a multiplier in the dual set, for the next splitting. Reflections end when a bound is
    at least ``enough``, or after two looks where the gap is ``hopeless`` times the one wanted.
    """
    workspace = workspace or Workspace()
    S, St, target, sigma = structure.S, structure.St, -at.gradient, structure.sigma
    image, root = S @ at.x - form.offset, np.sqrt(structure.sigma)
    objective = at.value + float(form.stacked_penalty.value(image))

    # Nearly the projection on the subgradients of the penalty at the image: the multiplier that a
    # prox there leaves with a large parameter. From 1e4 times the ratio of multiplier and image
    # on, the image decides what is fused.
    size, length = (float(np.abs(v).max(initial=0.0)) for v in (root * image, start / root))
    beta = 1e4 * length / size if size > 0 and length > 0 else 0.0

    def subgradient(mu: Array) -> Array:
        if beta == 0:
            return form.project(mu)
        point = image + mu / (beta * sigma)
        nearest: Array = beta * sigma * (point - penalties.prox(point, beta))
        return nearest

    # Fewer than 8 earlier reflections find less; products with more would cost as much as the
    # reflection itself.
    anderson = Anderson(1.0 / root, 8)
    iterate = subgradient(start)
    candidates = Candidates(f2, form, at, objective, workspace)
    for k in range(REFLECTIONS):
        look = k % LOOK == 0 or k == REFLECTIONS - 1
        mu = iterate + structure.absorb(target - St @ iterate, exact=look)
        if look:
            candidates.add(form.scale(mu), mu)
        if candidates.reach(enough) or deadline.passed():
            break
        if k == 2 * LOOK and candidates.far_from(enough, hopeless):
            break
        iterate = anderson.step(iterate, subgradient(2 * mu - iterate) - mu)
    best = candidates.best() or DualPoint(-np.inf, iterate, at.derivative)
    return best, form.project(best.mu)


class Anderson:
    """Anderson acceleration of a fixed-point iteration ``x <- x + r(x)``.

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
        size = float(np.linalg.norm(scaled))
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


@dataclass
class Candidates:
    """Multipliers shrunk into the dual set; what rounding costs is found for the best only."""

    f2: FiniteSum
    form: OneBlock
    at: Evaluation
    objective: float
    workspace: Workspace
    values: list[tuple[float, float, Array]] = field(default_factory=list)
    """Dual value, factor and multiplier, the largest value first."""
    proved: DualPoint | None = None
    nearest: float = 0.0
    """The largest factor of a candidate: it was shrunk least."""

    def add(self, scale: float, mu: Array) -> None:
        """Take derivatives and multiplier times one factor, unless a better factor is known."""
        if scale < self.nearest:
            return
        f2, form, at = self.f2, self.form, self.at
        error = rounding(f2, form, at.derivative, mu, workspace=self.workspace)
        for t in nearby(scale):
            u = at.derivative if t == 1.0 else t * at.derivative
            value = dual_value(f2, form, u, t * at.gradient, t * mu, error)
            if np.isfinite(value):
                self.values.append((value, t, mu))
                self.values.sort(key=lambda known: -known[0])
                self.nearest = max(self.nearest, t)
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
            value, factor, mu = self.values[0]
            if self.proved is not None and self.proved.bound >= value:
                break
            self.values.pop(0)
            at = self.at
            found = lower_bound(
                self.f2,
                self.form,
                at.predictions,
                at.derivative,
                at.gradient,
                mu,
                self.objective,
                factor,
                value,
                workspace=self.workspace,
            )
            if found.bound > (-np.inf if self.proved is None else self.proved.bound):
                self.proved = found
                break
        return self.proved
