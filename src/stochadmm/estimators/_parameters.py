"""What parameters of estimators may be; a wrong one is named with what was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.validation import is_number
from ..structures import NamedColumns


def check_number(name: str, value: Any, expected: str, holds: Callable[[Any], bool]) -> None:
    """Raise unless an argument is a finite number for which something holds."""
    if not is_number(value) or not np.isfinite(value) or not holds(value):
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def checked_factors(given: Any, n: int, names: Any) -> Array:
    """Return one factor >= 0 per column, from a mapping of some of them or a list of all."""
    factors = _per_column(given, n, names, "penalty_weights", 1.0)
    if not (np.isfinite(factors) & (factors >= 0)).all():
        raise ValueError("penalty_weights must be finite numbers >= 0, one per column")
    return factors


def checked_bounds(model: Any, n: int, names: Any, free: Array) -> tuple[Array, Array]:
    """Return the lower and upper ends for the coefficients of every column.

    Zero must lie between those of a penalized column, because the penalty draws to zero.
    """
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    if isinstance(model.bounds, Mapping):
        index = NamedColumns(names, n)
        for column, pair in model.bounds.items():
            lower[index(column)], upper[index(column)] = _pair(pair)
    elif model.bounds is not None:  # one pair of numbers is for what is penalized
        low, high = _pair(model.bounds, (n,))
        lower = np.where(free & (low.ndim == 0), lower, low)
        upper = np.where(free & (high.ndim == 0), upper, high)
    direction = _per_column(model.monotone, n, names, "monotone", 0.0)
    if not np.isin(direction, (-1.0, 0.0, 1.0)).all():
        raise ValueError("monotone must be 1, 0 or -1 for each column: rising, free or falling")
    direction = np.where(free | (not model.positive), direction, 1.0)
    lower[direction > 0] = np.maximum(lower[direction > 0], 0.0)
    upper[direction < 0] = np.minimum(upper[direction < 0], 0.0)
    wrong = ~np.where(free, lower <= upper, (lower <= 0) & (upper >= 0))
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"bounds of column {j if names is None else names[j]!r} are {lower[j]:g} and "
            f"{upper[j]:g}, expected the lower one first, and zero between them unless the column "
            "is unpenalized"
        )
    return lower, upper


def _pair(given: Any, *shapes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return both ends of bounds, of which None is endless."""
    try:
        low, high = given
        ends = [-np.inf if low is None else low, np.inf if high is None else high]
        low, high = (np.asarray(end, dtype=np.float64) for end in ends)
    except (TypeError, ValueError):
        low = high = np.empty((0, 0))
    if not {low.shape, high.shape} <= {(), *shapes}:
        raise ValueError(
            f"bounds hold {given!r}, expected a pair (lower, upper), or one pair for each of some "
            "columns: {column: (lower, upper)}"
        )
    return low, high


def _per_column(given: Any, n: int, names: Any, what: str, otherwise: float) -> Array:
    """Return one number per column, from a mapping of some of them or a list of all."""
    found = np.full(n, otherwise)
    if isinstance(given, Mapping):
        index = NamedColumns(names, n)
        place: Any = [index(column) for column in given]
        values = list(given.values())
    elif given is None:
        return found
    else:
        place, values = slice(None), given
    try:
        found[place] = np.asarray(values, dtype=np.float64).reshape(len(found[place]))
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} is {given!r}, expected one number for each of {n} columns, or a mapping from "
            "columns to numbers"
        ) from None
    return found


def descending(alphas: Any) -> list[float]:
    """Return checked strengths from the largest to the smallest.

    One number is no list of them: 1e2 may be meant as how many.
    """
    values = np.ravel(alphas)
    listed = np.ndim(alphas) > 0 and values.dtype.kind in "iuf" and values.size > 0
    if not listed or not np.isfinite(values).all() or values.min() < 0:
        raise ValueError(
            "alphas must be non-negative numbers, at least one, in a list, or an integer: how "
            f"many to try; got {alphas!r}"
        )
    values = np.sort(values.astype(np.float64))[::-1]
    return [float(value) for value in values]
