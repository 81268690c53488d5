"""Backtracking on the objective (Armijo's rule), the same for rows in memory and from a source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base.protocols import Array
from ..problem import Pair
from ..risk.lines import LENGTHS, Line


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
    # rounding of a sum over rows, 64 units of it for the sums inside predictions: a smaller
    # decrease cannot be seen
    slack = 64 * float(np.finfo(float).eps) * abs(objective)
    best: tuple[float, Pair, float] | None = None
    for t in LENGTHS:
        point, penalty = inside(line.point(t))
        value = line.value(t) + penalty
        if best is not None and not value < best[2]:
            break
        # a thousandth of what the model predicts: nearly any decrease (Nocedal and Wright, 3.1)
        if value <= objective - 1e-3 * t * max(predicted, 0.0) + slack:
            best = t, point, value
            if t == 1:
                break
        # F is convex: once a shorter step is enough, go on while it falls
    return best or (0.0, inside(line.point(0.0))[0], objective)
