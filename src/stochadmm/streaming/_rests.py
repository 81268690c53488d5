"""The rest of the rows in a model of several outputs: one row more per output.

With several outputs the tangent of the rows outside a sample is <G, x> - c, with G as large as x.
No row has it as its prediction, but C rows do together: row k is C times column k of G, its loss
is its own prediction number k less c, and their mean is the tangent. The floor of `_rest` comes
back in the conjugate. The losses of the rest lie above t times their tangent less 1 - t times c0
for every t in [0, 1], so that derivatives t on each of these rows cost t c + (1 - t) c0. It must
be the same t on all of them: other derivatives prove nothing, and their conjugate is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ._passes import by_rows
from ._rest import EDGE


@dataclass(frozen=True, eq=False)
class WithRests:
    """A loss of several outputs that takes the rows of the rest too.

    Parameters
    ----------
    loss : Loss
        Of the other rows.
    tangent, floor : float
        c and c0, the mean conjugates at the derivatives and at zero.
    usual : array
        The target of a row, in place of those of the rest.
    outputs : int
        C.
    """

    loss: Any
    tangent: float
    floor: float
    usual: Array
    outputs: int

    def targets(self, y: Array) -> Array:
        """Return targets with those of the rows of the rest below them.

        These are class numbers from C on, or the usual targets with one NaN each.
        """
        if offers(self.loss, Has.BY_CLASS):
            return np.append(y, self.outputs + np.arange(self.outputs))
        rest = np.tile(self.usual, (self.outputs, 1))
        np.fill_diagonal(rest, np.nan)
        return np.concatenate([y, rest])

    def _split(self, y: Array) -> tuple[Array, Array, Array]:
        """Return which rows are of the rest, a one in the column of each, and usual targets."""
        marks = np.zeros((len(y), self.outputs))
        rest: Array
        if y.ndim == 1:
            rest = np.asarray(y >= self.outputs)
            marks[rest, y[rest] - self.outputs] = 1.0
            return rest, marks, np.where(rest, self.usual, y)
        missing = np.isnan(y)
        rest = np.asarray(missing.any(axis=1))
        marks[missing] = 1.0
        return rest, marks, np.where(rest[:, None], self.usual, y)

    def check_targets(self, y: Array) -> Array:
        """Return the targets as they are: they were checked before."""
        return np.asarray(y)

    def n_outputs(self, y: Array) -> int:
        """Return C."""
        return self.outputs

    @property
    def curvature_bound(self) -> float:
        """That of the other rows: the rest is straight."""
        return float(self.loss.curvature_bound)

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every row."""
        rest, marks, own = self._split(y)
        straight = np.sum(marks * z, axis=1) - self.tangent
        return np.where(rest, straight, by_rows(self.loss.values(z, own)))

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean."""
        return float(np.average(self.values(z, y), weights=weight))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``: one in the column of a row of the rest."""
        rest, marks, own = self._split(y)
        return np.where(rest[:, None], marks, self.loss.derivative(z, own))

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the diagonal of the Hessian in ``z``, row by row."""
        rest, _, own = self._split(y)
        return np.where(rest[:, None], 0.0, self.loss.curvature(z, own))

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``."""
        return self.curvature_operator(z, y)(v)

    def curvature_operator(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """Return ``curvature_apply`` for many v at the same predictions."""
        rest, _, own = self._split(y)
        apply = self.loss.curvature_operator(z, own)
        return lambda v: np.where(rest[:, None], 0.0, apply(v))

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return (a, b) with Hessian ``diag(a) - b b'``, row by row; b is None when zero."""
        rest, _, own = self._split(y)
        a, b = self.loss.curvature_parts(z, own)
        held = rest[:, None]
        return np.where(held, 0.0, a), None if b is None else np.where(held, 0.0, b)

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return the conjugate of every row; that of the rest for one t in [0, 1] on all rows."""
        rest, marks, own = self._split(y)
        found = np.asarray(self.loss.conjugate(np.where(rest[:, None], 0.0, u), own))
        return np.where(rest, self._of_rest(u, rest, marks), found)

    def _of_rest(self, u: Array, rest: Array, marks: Array) -> float:
        few, own = np.asarray(u, np.float64)[rest], marks[rest]
        t = np.sum(few * own, axis=1)
        if len(t) != self.outputs or (few != t[:, None] * own).any() or (t != t[0]).any():
            return np.inf
        if not -EDGE <= t[0] <= 1 + EDGE:
            return np.inf
        return float(t[0] * self.tangent + (1 - t[0]) * self.floor)

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return how far along ``du`` every row may go; the rest does not move."""
        rest, _, own = self._split(y)
        held, still = rest[:, None], (np.asarray(du) == 0).all(axis=1)
        others = self.loss.dual_step_limit(np.where(held, 0.0, u), np.where(held, 0.0, du), own)
        return np.asarray(np.where(rest, still, others), dtype=np.float64)

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the share of a move by ``size`` both ways that stays inside the domain."""
        rest, _, own = self._split(y)
        held, still = rest[:, None], (np.asarray(size) == 0).all(axis=1)
        others = self.loss.dual_margin(np.where(held, 0.0, u), np.where(held, 0.0, size), own)
        return np.asarray(np.where(rest, still, others), dtype=np.float64)

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate within ``size`` of ``u``, row by row."""
        rest, marks, own = self._split(y)
        held = rest[:, None]
        others = self.loss.largest_conjugate(
            np.where(held, 0.0, u), np.where(held, 0.0, size), own
        )
        still = not np.asarray(size)[rest].any()
        return np.where(rest, self._of_rest(u, rest, marks) if still else np.inf, others)
