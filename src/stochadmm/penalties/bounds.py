"""Bounds of both blocks that the constraint contradicts, found by arithmetic on intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape
from ..base.terms import compiled_terms


def bounds(penalty: Any, shape: Shape) -> tuple[Array, Array] | None:
    """Return lower and upper bounds on each entry of a block, None where nothing is bounded."""
    terms = compiled_terms(penalty, shape[0]) or ()
    if not any(term.bounded for term in terms):
        return None
    width = int(np.prod(shape[1:]))
    low, high = np.full((shape[0], width), -np.inf), np.full((shape[0], width), np.inf)
    start = 0
    for term in terms:
        rows = slice(start, start + term.size)
        for numbers, given in zip((low, high), term.per_row()[2:], strict=True):
            numbers[rows] = np.reshape(given, (term.size, given.size // max(term.size, 1)))
        start += term.size
    return low, high


def image(A: Any, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smallest box that holds ``A x`` for all x between the bounds."""
    positive, negative = A.maximum(0), A.minimum(0)
    ends = [
        _product(positive, low) + _product(negative, high),
        _product(positive, high) + _product(negative, low),
    ]
    return ends[0], ends[1]


def _product(A: Any, x: Array) -> Array:
    """Return A x where entries of x may be infinite, all that meet with the same sign."""
    finite = np.asarray(A @ np.where(np.isfinite(x), x, 0.0))
    endless = np.asarray(A @ np.where(np.isfinite(x), 0.0, np.sign(x)))
    return np.where(endless == 0, finite, np.copysign(np.inf, endless))


def contradiction(
    A1: Any, h1: Any, shape1: Shape, A2: Any, h2: Any, shape2: Shape, b: Array | None
) -> int | None:
    """Return a row of ``A1 x1 + A2 x2 = b`` that no point between the bounds satisfies.

    None where there may be one: intervals see one row at a time.
    """
    if not (offers(A1, Has.SPARSE) and offers(A2, Has.SPARSE)):
        return None
    first = bounds(h1, shape1)  # mostly a norm, and quickly told
    second = None if first is None else bounds(h2, shape2)
    if first is None or second is None:
        return None
    left = image(sparse.csr_array(A1.tosparse()), *first)
    right = image(sparse.csr_array(A2.tosparse()), *second)
    target = 0.0 if b is None else b.reshape(left[0].shape).astype(np.float64)
    low, high = left[0] + right[0] - target, left[1] + right[1] - target
    # rounding of the sums is forgiven: what is refused here is refused for good
    size = sum(np.where(np.isfinite(e), np.abs(e), 0.0) for e in (*left, *right)) + np.abs(target)
    slack = 1e-12 * size
    rows = ((low > slack) | (high < -slack)).any(axis=1)
    return int(np.argmax(rows)) if rows.any() else None
