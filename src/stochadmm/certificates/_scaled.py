"""The dual point of the slopes, moved into the dual set by least squares and one common factor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..clock import out_of_time
from ..finite_sum import FiniteSum
from ..protocols import Array
from ._composite import Composite
from ._data import mean_conjugate

ROUNDING = 1e-12
MOST_TIMES = 10
FARTHEST = 20.0
"""How many times longer than the point at hand a solution is taken to be at most."""


@dataclass(frozen=True)
class DualPoint:
    """A lower bound and where it comes from."""

    bound: float
    mu: Array
    slopes: Array
    factor: float = 1.0
    """What the point was shrunk by to become feasible."""


def rounding(f2: FiniteSum, form: Composite, u: Array, mu: Array) -> float:
    """Return what rounding may leave of ``X'(q u)/n + S' mu = 0``."""
    size = form.slope_size(f2) + float(np.abs(u).mean())
    terms = float(np.sqrt(float(f2.row_norms2.max()) + f2.intercept)) * size
    return ROUNDING * (terms + float(np.linalg.norm(form.St @ mu)))


def lower_bound(
    f2: FiniteSum, form: Composite, x: Array, u: Array, gradient: Array, mu: Array
) -> float:
    """Return D(u, mu), or minus infinity where ``X'(q u)/n + S' mu`` is not zero up to rounding.

    What rounding leaves of that equation is charged at many times the norm of ``x``.
    """
    left = float(np.linalg.norm(gradient + form.St @ mu))
    if not left <= rounding(f2, form, u, mu):
        return -np.inf
    total = mean_conjugate(f2, u) + form.conjugate(mu)
    charge = FARTHEST * left * (float(np.linalg.norm(x)) + 1.0)
    return -total - charge if np.isfinite(total) else -np.inf


def feasible_multiplier(
    form: Composite, gradient: Array, mu: Array, tiny: float, rounds: int = 20
) -> tuple[float, Array]:
    """Return (t, mu) with ``S' mu = -gradient`` and ``t mu`` in the dual set, t as large as found.

    Reflections at the equation and at the dual set take turns (Douglas and Rachford), which gets
    into narrow corners where projections alone creep. Where a solution of the equation and its
    projection on the dual set differ by no more than ``tiny``, the projection is taken: no factor
    brings a cone's edge back inside. As long as ``rounds`` of them bring t ten times nearer to
    one, they go on.
    """
    best_scale, best, mark = -1.0, mu, -1.0
    governing = form.project(mu)
    for k in range(1, MOST_TIMES * rounds + 1):
        mu = governing
        for _ in range(2):  # the second time removes what rounding left
            mu = mu + form.absorb(-gradient - form.St @ mu)
        inside = form.project(mu)
        near = np.where(np.abs(inside - mu) <= tiny, inside, mu)
        scale = form.scale(near)
        if scale > best_scale:
            best_scale, best = scale, near
        if scale == 1.0 or out_of_time():
            break
        if k % rounds == 0 and (k == 1 or 1.0 - best_scale > 0.1 * (1.0 - mark)):
            break
        if k == 1 or k % rounds == 0:
            mark = best_scale
        governing = governing + form.project(2 * mu - governing) - mu
    return best_scale, best


def scaled_point(
    f2: FiniteSum, form: Composite, x: Array, u: Array, gradient: Array, start: Array, rounds: int
) -> DualPoint:
    """Return the bound of slopes ``u`` whose gradient vanishes along the free directions."""
    tiny = 0.1 * rounding(f2, form, u, start) / (1.0 + np.sqrt(float(form.S.shape[0])))
    t, mu = feasible_multiplier(form, gradient, start, tiny, rounds)
    # a point on the edge may fall outside by rounding when scaled
    for factor in (t, t * (1.0 - 1e-15), t * (1.0 - 1e-14)):
        shrunk = u if factor == 1.0 else factor * u
        bound = lower_bound(f2, form, x, shrunk, factor * gradient, factor * mu)
        if np.isfinite(bound):
            break
    return DualPoint(bound, factor * mu, shrunk, factor)
