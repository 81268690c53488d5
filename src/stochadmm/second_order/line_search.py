"""How far to go along a step: the objective on predictions at hand, without a read of the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Value = Callable[[float], float]


def rounding(dtype: np.dtype[np.floating]) -> float:
    """Return the relative change of a value below which rounding decides.

    A value is a sum over rows whose terms are rounded to the type of the data; 64 units leave room
    for the sums inside a prediction, and are 1.4e-14 in float64, 7.6e-6 in float32.
    """
    return 64 * float(np.finfo(dtype).eps)


def backtrack(
    value: Value, now: float, derivative: float = 0.0, slack: float = 0.0, least: float = 1e-9
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
