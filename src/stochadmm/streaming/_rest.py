"""A loss on the rows of a sample and one row more, which stands for all the others.

The losses of the rows outside the sample lie above their tangents at a point, and above their
least values: with weights that add up to one,

    sum_i q_i loss_i(a_i' x) >= max(<g, x> - c, -c0),

g the mean of u_i a_i, c the mean of the conjugates at u_i, and c0 that of the conjugates at 0. The
right-hand side is the loss of *one* prediction <g, x>. A lower bound on the problem with the
sample and this row is one on the problem with all rows, and both have the same value and the same
gradient at the point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.protocols import Array

EDGE = 4 * float(np.finfo(np.float64).eps)
"""Rounding of the ends of the domain."""


REST = np.nan
"""The target that marks the row of the rest."""


@dataclass(frozen=True)
class WithRest:
    """A loss that takes one more kind of row: the tangent of the rest, whose target is ``REST``.

    Parameters
    ----------
    loss : Loss
        Of the other rows; one output.
    tangent : float
        c, the mean conjugate at the derivatives.
    floor : float
        c0, the mean conjugate at zero.
    usual : float
        A target that the loss takes, in place of the mark.
    """

    loss: Any
    tangent: float
    floor: float
    usual: float

    def _split(self, y: Array) -> tuple[Array, Array]:
        rest = np.isnan(y)
        return rest, np.where(rest, self.usual, y)

    def check_targets(self, y: Array) -> Array:
        """Return the targets as they are: they were checked before."""
        return np.asarray(y, dtype=np.float64)

    @property
    def curvature_bound(self) -> float:
        """That of the other rows: the rest is straight but for its kink."""
        return float(self.loss.curvature_bound)

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row."""
        rest, own = self._split(y)
        tangent = np.maximum(np.asarray(z, np.float64) - self.tangent, -self.floor)
        return np.where(rest, tangent, self.loss.values(z, own))

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean."""
        return float(np.average(self.values(z, y), weights=weight))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``: one for the rest, above its floor."""
        rest, own = self._split(y)
        above = np.asarray(z) - self.tangent > -self.floor
        return np.where(rest, above, self.loss.derivative(z, own))

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        rest, own = self._split(y)
        return np.where(rest, 0.0, self.loss.curvature(z, own))

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``."""
        return self.curvature(z, y) * v

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return the Hessian as a diagonal."""
        return self.curvature(z, y), None

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return the conjugate of every row; that of the rest is finite on [0, 1]."""
        rest, own = self._split(y)
        t = np.where(rest, u, 0.0)
        inside = (t >= -EDGE) & (t <= 1 + EDGE)
        straight = np.where(inside, t * self.tangent + (1 - t) * self.floor, np.inf)
        return np.where(rest, straight, self.loss.conjugate(np.where(rest, 0.0, u), own))

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return how far along ``du`` every row may go; the rest does not move."""
        rest, own = self._split(y)
        others = self.loss.dual_step_limit(np.where(rest, 0.0, u), np.where(rest, 0.0, du), own)
        return np.asarray(np.where(rest, np.asarray(du) == 0, others), dtype=np.float64)

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the share of a move by ``size`` both ways that stays inside the domain."""
        return np.minimum(
            self.dual_step_limit(u, size, y), self.dual_step_limit(u, -np.asarray(size), y)
        )

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate within ``size`` of ``u``, row by row."""
        return np.maximum(self.conjugate(u - size, y), self.conjugate(u + size, y))
