"""Grids of strengths as users give them: how many, or which."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def is_count(alphas: Any) -> bool:
    """Say whether a grid is given by its length."""
    return isinstance(alphas, numbers.Integral) and not isinstance(alphas, bool)


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
