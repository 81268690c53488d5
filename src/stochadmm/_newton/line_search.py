"""Backtracking on the objective (Armijo's rule)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.protocols import Array
from ..problem import Pair
from ..risk.lines import Line


def armijo(
    line: Line,
    inside: Callable[[Array], tuple[Pair, float]],
    objective: float,
    predicted: float,
) -> tuple[float, Pair, float]:
    """Return (t, point, F(point)) of the first length with enough decrease; t = 0 where none has.

    ``inside`` returns the nearest point in the domain of the penalties and the penalty there;
    ``objective`` is F(w).
    """
    slack = rounding(np.dtype(np.float64)) * abs(objective)  # a smaller decrease cannot be seen
    best: tuple[float, Pair, float] | None = None
    for t in line.lengths:
        point, penalty = inside(line.point(t))
        value = line.value(t) + penalty
        if best is not None and not value < best[2]:
            break
        # a thousandth of what the model predicts: nearly any decrease (Nocedal and Wright, 3.1)
        if value <= objective - 1e-3 * t * max(predicted, 0.0) + slack:
            best = t, point, value
            if t == 1 or line.takes_first:
                break
        # F is convex: once a shorter step is enough, go on while it falls
    return best or (0.0, inside(line.point(0.0))[0], objective)


def backtrack(
    value: Callable[[float], float],
    now: float,
    derivative: float = 0.0,
    slack: float = 0.0,
    least: float = 1e-9,
) -> float:
    """Return the first t of 1, 1/2, 1/4 ... with ``value(t) <= now + t derivative + slack``, or 0.

    Armijo's rule for a negative derivative; plain decrease without one.
    """
    t = 1.0
    while t >= least:
        if value(t) <= now + t * derivative + slack:
            return t
        t /= 2
    return 0.0


def rounding(dtype: np.dtype[np.floating]) -> float:
    """Return the relative change of a value below which rounding decides.

    A value is a sum over rows whose terms are rounded to the type of the data; 64 units leave room
    for the sums inside a prediction, and are 1.4e-14 in float64, 7.6e-6 in float32.
    """
    return 64 * float(np.finfo(dtype).eps)
