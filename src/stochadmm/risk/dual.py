"""The dual side of the data term, in float64 whatever the type of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import cut
from .finite_sum import FiniteSum
from .weights import sample_weights, weighted

BYTES_AT_A_TIME = 1 << 19
"""Of slopes whose conjugates are made together: what comes between stays in a cache."""


def mean_conjugate(f2: FiniteSum, u: Array, size: Array | None = None) -> float:
    """Return ``(1/n) sum_i q_i (loss_i*(u_i) - <u_i, offset_i>)``.

    It is the conjugate in the predictions without the offset, ``sup_z <u, z> - loss(z + offset)``.
    Rows of weight zero count nothing. With ``size`` it is the largest such number over all slopes
    that differ from u by at most that much, or a bound on it.
    """
    loss: Any = f2.loss
    q = sample_weights(f2)
    shift = 0.0
    if f2.offset is not None:
        shift = float(np.vdot(weighted(q, u), f2.offset)) / f2.n_terms
    if size is not None:
        if f2.offset is not None:
            shift -= float(np.vdot(weighted(q, size), np.abs(f2.offset))) / f2.n_terms
        return _largest_conjugate(loss, u, size, f2.y, q) / f2.n_terms - shift
    if q is None:
        parts = cut(0, f2.n_terms, max(256, BYTES_AT_A_TIME // (8 * (f2.n_outputs or 1))))
        total = sum(float(np.sum(loss.conjugate(u[part], f2.y[part]))) for part in parts)
        return total / f2.n_terms - shift
    if q.ndim == 1:
        terms = loss.conjugate(u, f2.y)
    else:
        columns = range(q.shape[1])
        terms = np.stack([loss.conjugate(u[:, c], f2.y[:, c]) for c in columns], axis=1)
    return float((q[q > 0] * terms[q > 0]).sum()) / f2.n_terms - shift


def least_conjugate(f2: FiniteSum) -> float:
    """Return the mean conjugate of slopes zero: minus the least mean loss there may be."""
    shape = (f2.n_terms,) if f2.n_outputs is None else (f2.n_terms, f2.n_outputs)
    return mean_conjugate(f2, np.zeros(shape))


def _largest_conjugate(loss: Any, u: Array, size: Array, y: Array, q: Array | None) -> float:
    if q is None:
        return float(np.sum(largest_conjugate(loss, u, size, y)))
    if q.ndim == 1:
        terms = largest_conjugate(loss, u, size, y)
    else:
        columns = range(q.shape[1])
        terms = np.stack(
            [largest_conjugate(loss, u[:, c], size[:, c], y[:, c]) for c in columns], axis=1
        )
    return float((q[q > 0] * terms[q > 0]).sum())


def pull_back(f2: FiniteSum, u: Array) -> Array:
    """Return ``X' (q u) / n`` in float64 for one dual number per prediction."""
    qu = weighted(sample_weights(f2), u)
    total = np.zeros(f2.shape)
    for rows in f2.chunks():
        total += f2.pull_back(qu[rows], rows)
    return total / f2.n_terms


def has_margins(loss: Any, u: Array) -> bool:
    """Say whether the domain of a loss around dual numbers is known: offered, or of one number."""
    offered = offers(loss, Has.DUAL_MARGIN, Has.LARGEST_CONJUGATE)
    return offered or (u.ndim == 1 and offers(loss, Has.DUAL_ROOM))


def dual_margin(loss: Any, u: Array, size: Array, y: Array) -> Array:
    """Return the largest t in [0, 1], row by row, with ``u +- t size`` in the domain."""
    if offers(loss, Has.DUAL_MARGIN):
        return np.asarray(loss.dual_margin(u, size, y))
    return np.asarray(np.minimum(loss.dual_room(u, size, y), loss.dual_room(u, -size, y)))


def largest_conjugate(loss: Any, u: Array, size: Array, y: Array) -> Array:
    """Return the largest conjugate within ``size`` of ``u``: a convex function's is at an end."""
    if offers(loss, Has.LARGEST_CONJUGATE):
        return np.asarray(loss.largest_conjugate(u, size, y))
    return np.asarray(np.maximum(loss.conjugate(u - size, y), loss.conjugate(u + size, y)))
