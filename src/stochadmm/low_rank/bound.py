"""Lower bounds on a quadratic plus norms, from subgradients of the norms.

With u_k in the domain of h_k* and p = q - sum_k u_k,

    F(W) >= constant + 1/2 <W, B W> - <p, W> - sum_k h_k*(u_k).

Where B is singular the right side has no minimum unless p lies in its range, which iterates
reach in the limit only. But a minimizer lies in a known ball: h >= growth |W|_F and the data term
is at least 0, so that |W|_F <= radius = F(any point) / growth. In the ball, for any delta >= 0,

    1/2 <W, B W> - <p, W> >= -1/2 <p, (B + delta)^-1 p> - delta radius^2 / 2

(add and subtract delta/2 |W|^2). The best delta solves a scalar equation and is 0 where the
minimum without the ball lies inside it. No eigenvalue is ever taken for zero or for nonzero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.immutable import set_field
from ..base.protocols import Array
from .eigenbasis import EigenQuadratic
from .form import Form
from .svt import spectral_norm


@dataclass(frozen=True)
class QuadraticBound:
    """Bounds for one problem."""

    quadratic: EigenQuadratic
    form: Form
    growth: float = field(init=False)
    """That of the form, asked for at every bound."""

    def __post_init__(self) -> None:
        set_field(self, "growth", self.form.growth)

    def estimate(self, subgradients: Sequence[Array], upper: float) -> float:
        """Return the bound of subgradients that are taken to be feasible.

        ``upper`` is the objective at any point.
        """
        E = self.quadratic
        total = subgradients[0]
        for u in subgradients[1:]:
            total = total + u
        conjugates = 0.0
        for penalty, u in zip(self.form.others, subgradients[1:], strict=True):
            if not offers(penalty, Has.GROWTH):  # those of norms are zero where finite
                conjugates += float(penalty.conjugate(u))
        if not np.isfinite(conjugates):
            return -np.inf
        squares = E.squares(E.linear - total).ravel()
        radius = upper / self.growth
        return E.constant - conjugates - ball_maximum(squares, E.values.ravel(), radius)

    def proved(self, subgradients: Sequence[Array], upper: float) -> float:
        """Return the bound after the subgradients are made feasible, less what rounding may add.

        The matrix in use differs from the true one by rounding; over the ball this changes the
        quadratic by at most its error times the radius squared.
        """
        feasible = feasible_subgradients(self.form, subgradients)
        found = self.estimate(feasible, upper)
        E, radius = self.quadratic, upper / self.growth
        # relative error of an entry of a Gram matrix beyond the root of its size
        unit = 1e-15 * E.doubt
        error = unit * np.sqrt(E.values.size) * float(E.values.max(initial=0.0))
        return float(found - 0.5 * error * radius**2 - 100 * unit * abs(E.constant))


def feasible_subgradients(form: Form, subgradients: Sequence[Array]) -> list[Array]:
    """Return the subgradients without what rounding took them out of their sets."""
    first: Any = subgradients[0]
    largest = spectral_norm(first) * (1 + 1e-14 * sum(first.shape))
    if largest > form.nuclear.alpha:
        first = first * (form.nuclear.alpha / largest)
    others = [
        np.asarray(penalty.project_dual(u))
        for penalty, u in zip(form.others, subgradients[1:], strict=True)
    ]
    return [first, *others]


def ball_maximum(squares: Array, values: Array, radius: float) -> float:
    """Bound the maximum of ``<p, w> - 1/2 sum_i values_i w_i^2``, ``|w| <= radius``, from above.

    ``squares`` are those of p; at its best delta the bound is the maximum itself.
    """
    counted = squares > 0
    s, e = squares[counted], values[counted]
    if not s.size:
        return 0.0
    if float(e.min()) > 0 and float((s / e**2).sum()) <= radius**2:
        return 0.5 * float((s / e).sum())
    # at the upper end |w| <= radius whatever the eigenvalues; Newton's method on 1/|w| - 1/radius
    low, high = 0.0, float(np.sqrt(s.sum())) / radius
    best, delta = np.inf, 1e-3 * high
    for _ in range(30):
        shifted = e + delta
        length = float((s / shifted**2).sum())
        best = min(best, 0.5 * float((s / shifted).sum()) + 0.5 * delta * radius**2)
        if abs(np.sqrt(length) - radius) <= 1e-3 * radius:
            break
        if length > radius**2:
            low = delta
        else:
            high = delta
        bend = float((s / shifted**3).sum())
        delta += (np.sqrt(length) / radius - 1) * length / bend
        if not low < delta < high:
            delta = np.sqrt(low * high) if low > 0 else 1e-3 * high
    return best
