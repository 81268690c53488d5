"""Weights of the terms of a mean loss, in float64 whatever the type of the data."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..base.protocols import Array


class Weighted(Protocol):
    """A mean loss, as far as its weights go."""

    weight: Array | None
    n_terms: int


def sample_weights(f2: Weighted) -> Array | None:
    """Return the weights of the terms, of mean one over the rows, in float64."""
    if f2.weight is None:
        return None
    q = f2.weight.astype(np.float64)
    return q * (f2.n_terms / q.sum()) if q.ndim == 1 else q


def weights_in(f2: Weighted, dtype: np.dtype[Any]) -> Array | None:
    """Return the weights for sums in a type: those at hand, or `sample_weights`."""
    if f2.weight is None or f2.weight.dtype == dtype:
        return f2.weight
    return sample_weights(f2)


def weighted(q: Array | None, u: Array) -> Array:
    """Return ``u`` times the weights of its rows or entries."""
    if q is None:
        return u
    return np.asarray(u * (q[:, None] if u.ndim > q.ndim else q))
