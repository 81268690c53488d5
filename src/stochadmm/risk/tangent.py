"""The mean loss of a sample and of the tangent of all other rows, in memory.

The losses of the rows outside the sample lie above their tangents at a point, and above their
least values: with weights that add up to one,

    sum_i q_i loss_i(a_i' x) >= max(<g, x> - c, -c0),

g the mean of u_i a_i, c the mean of the conjugates at u_i, and c0 that of the conjugates at 0. The
right-hand side is the loss of *one* prediction <g, x>. A lower bound on the problem with the
sample and this row is one on the problem with all rows, and both have the same value and the same
gradient at the point.

With several outputs the tangent is <G, x> - c, with G as large as x. No row has it as its
prediction, but C rows do together: row k is C times column k of G, its loss is its own prediction
number k less c, and their mean is the tangent. The floor c0 comes back in the conjugate: the
losses lie above t times their tangent less 1 - t times c0 for every t in [0, 1], so that
derivatives t on each of these rows cost t c + (1 - t) c0. It must be the same t on all of them:
other derivatives prove nothing, and their conjugate is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import DenseRows
from . import FiniteSum
from .passes import Sample, Sums, by_rows
from .streamed import Facts, StreamedSum
from .targets import weighted

EDGE = 4 * float(np.finfo(np.float64).eps)
"""Rounding of the ends of the domain of the tangent's conjugate."""


@dataclass(frozen=True, eq=False)
class _WithTangent:
    """What both losses below share.

    Parameters
    ----------
    loss : Loss
        Of the rows of the sample.
    tangent, floor : float
        c and c0, the mean conjugates at the derivatives and at zero.
    usual : float or array
        A target that the loss takes, in place of those that mark the rows of the tangent.
    """

    loss: Any
    tangent: float
    floor: float
    usual: Any

    def _split(self, y: Array) -> tuple[Array, Array, Array]:
        """Return which rows are the tangent's, the same per prediction, and usual targets."""
        rest = np.isnan(y)
        return rest, rest, np.where(rest, self.usual, y)

    def check_targets(self, y: Array) -> Array:
        """Return the targets as they are: they were checked before."""
        return np.asarray(y)

    @property
    def curvature_bound(self) -> float:
        """That of the other rows: the tangent is straight, but for the kink at its floor."""
        return float(self.loss.curvature_bound)

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row."""
        raise NotImplementedError

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean."""
        return float(np.average(self.values(z, y), weights=weight))

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the diagonal of the Hessian in ``z``, row by row."""
        _, held, own = self._split(y)
        return np.where(held, 0.0, self.loss.curvature(z, own))

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return how far along ``du`` every row may go; the tangent does not move."""
        rest, held, own = self._split(y)
        still = np.asarray(du) == 0
        others = self.loss.dual_step_limit(np.where(held, 0.0, u), np.where(held, 0.0, du), own)
        still = still if still.ndim == 1 else still.all(axis=1)
        return np.asarray(np.where(rest, still, others), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class WithRest(_WithTangent):
    """A loss of one output that takes the row of the tangent too, whose target is NaN."""

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row."""
        rest, _, own = self._split(y)
        tangent = np.maximum(np.asarray(z, np.float64) - self.tangent, -self.floor)
        return np.where(rest, tangent, self.loss.values(z, own))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``: one for the rest, above its floor."""
        rest, _, own = self._split(y)
        above = np.asarray(z) - self.tangent > -self.floor
        return np.where(rest, above, self.loss.derivative(z, own))

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``."""
        return self.curvature(z, y) * v

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return the Hessian as a diagonal."""
        return self.curvature(z, y), None

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return the conjugate of every row; that of the rest is finite on [0, 1]."""
        rest, _, own = self._split(y)
        t = np.where(rest, u, 0.0)
        inside = (t >= -EDGE) & (t <= 1 + EDGE)
        straight = np.where(inside, t * self.tangent + (1 - t) * self.floor, np.inf)
        return np.where(rest, straight, self.loss.conjugate(np.where(rest, 0.0, u), own))

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the share of a move by ``size`` both ways that stays inside the domain."""
        return np.minimum(
            self.dual_step_limit(u, size, y), self.dual_step_limit(u, -np.asarray(size), y)
        )

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate within ``size`` of ``u``, row by row."""
        return np.maximum(self.conjugate(u - size, y), self.conjugate(u + size, y))


@dataclass(frozen=True, eq=False)
class WithRests(_WithTangent):
    """A loss of several outputs that takes the rows of the tangent too, one per output.

    Their targets are class numbers from ``outputs`` on, or the usual ones with one NaN each.
    """

    outputs: int

    def targets(self, y: Array) -> Array:
        """Return targets with those of the rows of the tangent below them."""
        if offers(self.loss, Has.BY_CLASS):
            return np.append(y, self.outputs + np.arange(self.outputs))
        rest = np.tile(self.usual, (self.outputs, 1))
        np.fill_diagonal(rest, np.nan)
        return np.concatenate([y, rest])

    def _marks(self, y: Array) -> Array:
        """Return a one in the column of each row of the tangent."""
        if y.ndim == 1:
            return np.asarray(y[:, None] == self.outputs + np.arange(self.outputs), np.float64)
        return np.isnan(y) * 1.0

    def _split(self, y: Array) -> tuple[Array, Array, Array]:
        rest = np.asarray(y >= self.outputs if y.ndim == 1 else np.isnan(y).any(axis=1))
        held = rest[:, None]
        return rest, held, np.where(rest if y.ndim == 1 else held, self.usual, y)

    def n_outputs(self, y: Array) -> int:
        """Return C."""
        return self.outputs

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row."""
        rest, _, own = self._split(y)
        straight = np.sum(self._marks(y) * z, axis=1) - self.tangent
        return np.where(rest, straight, by_rows(self.loss.values(z, own)))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``: one in the column of a row of the rest."""
        _, held, own = self._split(y)
        return np.where(held, self._marks(y), self.loss.derivative(z, own))

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``."""
        return self.curvature_operator(z, y)(v)

    def curvature_operator(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """Return ``curvature_apply`` for many v at the same predictions."""
        _, held, own = self._split(y)
        apply = self.loss.curvature_operator(z, own)
        return lambda v: np.where(held, 0.0, apply(v))

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return (a, b) with Hessian ``diag(a) - b b'``, row by row; b is None when zero."""
        _, held, own = self._split(y)
        a, b = self.loss.curvature_parts(z, own)
        return np.where(held, 0.0, a), None if b is None else np.where(held, 0.0, b)

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return the conjugate of every row; that of the rest for one t in [0, 1] on all rows."""
        rest, held, own = self._split(y)
        found = np.asarray(self.loss.conjugate(np.where(held, 0.0, u), own))
        return np.where(rest, self._of_rest(u, rest, y), found)

    def _of_rest(self, u: Array, rest: Array, y: Array) -> float:
        few, own = np.asarray(u, np.float64)[rest], self._marks(y)[rest]
        t = np.sum(few * own, axis=1)
        if len(t) != self.outputs or (few != t[:, None] * own).any() or (t != t[0]).any():
            return np.inf
        if not -EDGE <= t[0] <= 1 + EDGE:
            return np.inf
        return float(t[0] * self.tangent + (1 - t[0]) * self.floor)

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the share of a move by ``size`` both ways that stays inside the domain."""
        rest, held, own = self._split(y)
        still = (np.asarray(size) == 0).all(axis=1)
        others = self.loss.dual_margin(np.where(held, 0.0, u), np.where(held, 0.0, size), own)
        return np.asarray(np.where(rest, still, others), dtype=np.float64)

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate within ``size`` of ``u``, row by row."""
        rest, held, own = self._split(y)
        others = self.loss.largest_conjugate(
            np.where(held, 0.0, u), np.where(held, 0.0, size), own
        )
        still = not np.asarray(size)[rest].any()
        return np.where(rest, self._of_rest(u, rest, y) if still else np.inf, others)


def tangent_term(f2: StreamedSum, rows: Sample, sums: Sums, x: Array, facts: Facts) -> FiniteSum:
    """Return the data term of the sample and of one row per output for all the others.

    The others are replaced by their tangent at x: a bound of the problem that remains, in memory,
    is one of the whole problem.
    """
    loss: Any = f2.loss
    rest = sums.weight - float(rows.weight.sum())
    if not rest > 1e-12 * sums.weight:  # the sample is everything
        return f2.of_sample(rows, rows.weight)
    data = rows.rows.as_type(np.float64)
    own = data.matvec(x[: f2.n_features])
    if f2.intercept:
        own, data = own + x[-1], data.with_ones()
    z = own if rows.offset is None else own + rows.offset
    u = loss.derivative(z, rows.y)
    qu = weighted(rows.weight, u)
    left = (sums.gradient - data.rmatvec(qu)) / rest
    values = by_rows(loss.values(z, rows.y))
    tangent = sums.conjugate - float(np.vdot(qu, own) - rows.weight @ values)
    floor = facts.floor * facts.weight - float(
        rows.weight @ by_rows(loss.conjugate(np.zeros_like(u), rows.y))
    )
    if f2.n_outputs is None:
        together: Any = WithRest(loss, tangent / rest, floor / rest, float(rows.y[0]))
        rest_rows, y = left[None, :], np.append(rows.y, np.nan)
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
