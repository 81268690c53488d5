"""The dual side of the data term, in float64 whatever the type of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import cut
from ..kernels.extension import available
from .finite_sum import FiniteSum
from .targets import sample_weights, weighted

BYTES_AT_A_TIME = 1 << 19
"""Of derivatives whose conjugates are made together: what comes between stays in a cache."""


def mean_conjugate(f2: FiniteSum, u: Array, size: Array | None = None) -> float:
    """Return ``(1/n) sum_i q_i (loss_i*(u_i) - <u_i, offset_i>)``.

    It is the conjugate in the predictions without the offset, ``sup_z <u, z> - loss(z + offset)``.
    Rows of weight zero count nothing. With ``size`` it is the largest such number over all
    derivatives that differ from u by at most that much, or a bound on it.
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
    total = 0.0
    for part in cut(0, f2.n_terms, max(256, BYTES_AT_A_TIME // (8 * (f2.n_outputs or 1)))):
        own, y = u[part], f2.y[part]
        if q is None:
            total += float(np.sum(loss.conjugate(own, y)))
            continue
        if q.ndim == 1:
            terms = loss.conjugate(own, y)
        else:
            columns = range(q.shape[1])
            terms = np.stack([loss.conjugate(own[:, c], y[:, c]) for c in columns], axis=1)
        counted = q[part] > 0
        total += float((q[part][counted] * terms[counted]).sum())
    return total / f2.n_terms - shift


def least_conjugate(f2: FiniteSum) -> float:
    """Return the mean conjugate of derivatives zero: minus the least mean loss there may be."""
    shape = (f2.n_terms,) if f2.n_outputs is None else (f2.n_terms, f2.n_outputs)
    return mean_conjugate(f2, np.broadcast_to(0.0, shape))


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


def add_compensated(f2: FiniteSum, u: Array, high: Array, low: Array) -> bool:
    """Add ``X'(q u)`` to ``high + low`` in about twice the precision of float64.

    It costs about what `pull_back` does. False where compiled loops do not read the rows.
    """
    if not available() or not f2.rows.has_view:
        return False
    from ..kernels.passes import compensated_adjoint

    d, q, outputs = f2.n_features, sample_weights(f2), f2.n_outputs or 1
    if q is None:
        parts = [u.reshape(-1, outputs)]
    else:
        parts = list(two_product(q if q.ndim == 2 else q[:, None], u.reshape(-1, outputs)))
    for part in parts:
        for c in range(outputs):
            v, hi, lo = np.ascontiguousarray(part[:, c]), high[:, c].copy(), low[:, c].copy()
            for rows, block in f2.rows.blocks():
                compensated_adjoint(block.X, v[rows], hi[:d], lo[:d])
            if f2.intercept:
                compensated_adjoint(np.ones((len(v), 1)), v, hi[d:], lo[d:])
            high[:, c], low[:, c] = hi, lo
    return True


def two_product(a: Any, b: Array) -> tuple[Array, Array]:
    """Return the product and its rounding error, which is a number of float64 (Dekker 1971)."""
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, rest


def _upper_half(x: Any) -> Any:
    """Return the upper 26 bits, whose products are exact."""
    c = 134217729.0 * x  # 2^27 + 1
    return c - (c - x)


def has_margins(loss: Any, u: Array) -> bool:
    """Say whether the domain of a loss around dual numbers is known: offered, or of one number."""
    offered = offers(loss, Has.DUAL_MARGIN, Has.LARGEST_CONJUGATE)
    return offered or (u.ndim == 1 and offers(loss, Has.DUAL_STEP_LIMIT))


def dual_margin(loss: Any, u: Array, size: Array, y: Array) -> Array:
    """Return the largest t in [0, 1], row by row, with ``u +- t size`` in the domain."""
    if offers(loss, Has.DUAL_MARGIN):
        return np.asarray(loss.dual_margin(u, size, y))
    return np.asarray(
        np.minimum(loss.dual_step_limit(u, size, y), loss.dual_step_limit(u, -size, y))
    )


def largest_conjugate(loss: Any, u: Array, size: Array, y: Array) -> Array:
    """Return the largest conjugate within ``size`` of ``u``: a convex function's is at an end."""
    if offers(loss, Has.LARGEST_CONJUGATE):
        return np.asarray(loss.largest_conjugate(u, size, y))
    return np.asarray(np.maximum(loss.conjugate(u - size, y), loss.conjugate(u + size, y)))
