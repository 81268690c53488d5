"""Exact prox of total variation along a line, in linear time.

    min_x  1/2 sum_j (x_j - v_j)^2 + t sum_j |x_{j+1} - x_j|

Johnson's dynamic programming [1]_. Let ``f_j(b)`` be the least cost of the first j entries when
``x_j = b``. The derivative of ``f_j(b) + (b - v_{j+1})^2/2`` is piecewise linear and increasing;
going one entry further clips it to [-t, t]. ``low_j`` and ``high_j`` are where it reaches -t and
+t, and going backwards ``x_j = clip(x_{j+1}, low_j, high_j)``.

The derivative is kept as a queue of knots: ``knots[k]`` with the changes ``slopes[k]`` and
``offsets[k]`` of the line ``slope * b + offset`` that applies to its right. Clipping removes knots
from either end and puts one back, so every entry pays for the knots it adds: two each, linear in
all. The two ends grow outwards from the middle of arrays of length 2 n.

.. [1] N. A. Johnson, "A dynamic programming algorithm for the fused lasso and L0-segmentation",
   J. Comput. Graph. Stat. 22(2), 2013. doi:10.1080/10618600.2012.681238
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._jit import kernel


@kernel
def fuse_columns(v: Any, threshold: float, out: Any) -> None:
    """Write the prox of every column of ``v`` (n, C) into ``out``."""
    n = v.shape[0]
    # sums of n terms: float64 whatever the dtype of v
    knots = np.empty(2 * n)
    slopes = np.empty(2 * n)
    offsets = np.empty(2 * n)
    low = np.empty(n)
    high = np.empty(n)
    for c in range(v.shape[1]):
        _fuse(v[:, c], threshold, out[:, c], knots, slopes, offsets, low, high)


@kernel
def _fuse(
    v: Any, t: float, out: Any, knots: Any, slopes: Any, offsets: Any, low: Any, high: Any
) -> None:
    n = v.shape[0]
    if n == 0:
        return
    if n == 1 or t == 0.0:
        out[:] = v
        return
    low[0] = v[0] - t
    high[0] = v[0] + t
    left = n - 1
    right = n
    knots[left] = low[0]
    slopes[left] = 1.0
    offsets[left] = t - v[0]
    knots[right] = high[0]
    slopes[right] = -1.0
    offsets[right] = t + v[0]
    # the derivative is -t left of all knots, +t right of them, plus the new entry's (b - v_j)
    for j in range(1, n - 1):
        slope = 1.0
        offset = -t - v[j]
        first = left
        while first <= right and slope * knots[first] + offset <= -t:
            slope += slopes[first]
            offset += offsets[first]
            first += 1
        low[j] = (-t - offset) / slope
        slope_low = slope
        offset_low = offset
        slope = 1.0
        offset = t - v[j]
        last = right
        while last >= first and slope * knots[last] + offset >= t:
            slope -= slopes[last]
            offset -= offsets[last]
            last -= 1
        high[j] = (t - offset) / slope
        left = first - 1
        knots[left] = low[j]
        slopes[left] = slope_low
        offsets[left] = offset_low + t
        right = last + 1
        knots[right] = high[j]
        slopes[right] = -slope
        offsets[right] = t - offset
    slope = 1.0
    offset = -t - v[n - 1]
    first = left
    while first <= right and slope * knots[first] + offset <= 0.0:
        slope += slopes[first]
        offset += offsets[first]
        first += 1
    x = -offset / slope
    out[n - 1] = x
    for j in range(n - 2, -1, -1):
        x = min(max(x, low[j]), high[j])
        out[j] = x
