"""Grids of strengths as users give them: how many, or which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.validation import is_number


def check_number(name: str, value: Any, expected: str, holds: Callable[[Any], bool]) -> None:
    """Raise unless an argument is a finite number for which something holds."""
    if not is_number(value) or not np.isfinite(value) or not holds(value):
        raise ValueError(f"{name} is {value!r}, expected {expected}")


def descending(alphas: Any) -> list[float]:
    """Return checked strengths from the largest to the smallest."""
    values = np.ravel(alphas)
    numeric = values.dtype.kind in "iuf" and values.size > 0
    if not numeric or not np.isfinite(values).all() or values.min() < 0:
        raise ValueError(
            "alphas must be non-negative numbers, at least one, or an integer: how many to try; "
            f"got {alphas!r}"
        )
    values = np.sort(values.astype(np.float64))[::-1]
    return [float(value) for value in values]
