"""Weights of the terms of a mean loss, in float64 whatever the type of the data."""

from __future__ import annotations

import numpy as np

from ..base.protocols import Array
from .finite_sum import FiniteSum


def sample_weights(f2: FiniteSum) -> Array | None:
    """Return the weights of the terms, of mean one over the rows, in float64."""
    if f2.weight is None:
        return None
    q = f2.weight.astype(np.float64)
    return q * (f2.n_terms / q.sum()) if q.ndim == 1 else q


def weighted(q: Array | None, u: Array) -> Array:
    """Return ``u`` times the weights of its rows or entries."""
    if q is None:
        return u
    return u * (q[:, None] if u.ndim > q.ndim else q)
