"""Grids of strengths as users give them: how many, or which."""

from __future__ import annotations

from typing import Any

import numpy as np


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
