"""The kernels that have no other NumPy form: what runs without the extension, and its twins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from ..base.terms import KINDS, Elementwise, GroupNorms, Slots, TotalVariation
from . import codes

if TYPE_CHECKING:
    from .quadratic import Augmented
    from .views import OperatorView, PenaltyView


def beside(columns: list[Array], out: Array, first: int) -> None:
    """Write columns into those of ``out``, some rows at a time: a tile stays in the cache."""
    rows = 4096
    for start in range(0, len(out), rows):
        tile = slice(start, start + rows)
        for k, column in enumerate(columns, first):
            out[tile, k] = column[tile]


def prox(h: PenaltyView, v: Array, step: float, out: Array) -> None:
    """Write argmin_u h(u) + |u - v|^2 / (2 step) into out; blocks are (rows, outputs)."""
    if h.kinds.size == 0:
        out[...] = v
    for t, kind in enumerate(h.kinds):
        rows = slice(h.starts[t], h.starts[t + 1])
        if kind == TotalVariation.kind:
            fuse_columns(v[rows], step * float(h.variation[t]), out[rows])
        else:
            out[rows] = KINDS[kind].prox(_slots(h, t, v), v[rows], step)


def _slots(h: PenaltyView, t: int, v: Array) -> Slots:
    """Return the numbers of one term of a view; groups are counted from its first row."""
    start = h.starts[t]
    rows = slice(start, h.starts[t + 1])
    own = range(h.first_group[t], h.first_group[t + 1])
    groups = [
        (slice(h.group_starts[g] - start, h.group_stops[g] - start), h.group_weights[g])
        for g in own
    ]
    l1, l2, lo, hi = (_spread(h, numbers, v)[rows] for numbers in (h.l1, h.l2, h.lo, h.hi))
    return Slots(l1, l2, lo, hi, groups, float(h.variation[t]))


def _spread(h: PenaltyView, numbers: Array, v: Array) -> Array:
    """Return the numbers of an elementwise term per entry, or per row in one column."""
    return numbers.reshape(v.shape) if h.per_entry else numbers.reshape(-1, 1)


def multiply(A: OperatorView, x: Array) -> Array:
    """Return A x for an operator that is an identity or a matrix."""
    if A.kind == codes.SCALED_IDENTITY:
        return np.asarray(A.scale * x)
    return np.asarray(_matrix(A) @ x)


def _matrix(A: OperatorView) -> Any:
    if A.kind == codes.SCALED_IDENTITY:
        return sparse.csr_array(A.scale * sparse.eye_array(A.n_rows))
    return sparse.csr_array((A.data, A.indices, A.indptr), shape=(A.n_rows, A.n_columns))


def augmented(at: Augmented) -> None:
    """Evaluate the prox side of the augmented Lagrangian at w."""
    h, penalty = at.h, at.penalty
    at.shifted[...] = multiply(at.S, at.w) + (at.dual / penalty - at.b)
    prox(h, at.shifted, 1 / penalty, at.z)
    at.new_dual[...] = penalty * (at.shifted - at.z)
    for t, kind in enumerate(h.kinds):
        rows = slice(h.starts[t], h.starts[t + 1])
        if kind == Elementwise.kind:
            l1, l2, lo, hi = (_spread(h, k, at.shifted)[rows] for k in (h.l1, h.l2, h.lo, h.hi))
            held = (np.abs(at.shifted[rows]) * penalty <= l1) & (l1 > 0)
            held |= (at.z[rows] <= lo) | (at.z[rows] >= hi)
            at.weight[rows] = penalty * (1 - np.where(held, 0.0, penalty / (penalty + l2)))
        else:
            for g in range(h.first_group[t], h.first_group[t + 1]):
                group = slice(h.group_starts[g], h.group_stops[g])
                norm, limit = penalty * np.linalg.norm(at.shifted[group]), h.group_weights[g]
                at.weight[group] = penalty * (1.0 if norm <= limit else limit / norm)


def newton_matrix(
    H: Array, S: OperatorView, h: PenaltyView, shifted: Array, weight: Array, out: Array
) -> None:
    """Write ``H + S' D S``, D from ``augmented``; one output."""
    matrix = _matrix(S)
    out[...] = H + (matrix.T @ (sparse.diags_array(weight[:, 0]) @ matrix)).toarray()
    for t in np.flatnonzero(h.kinds == GroupNorms.kind):
        for g in range(h.first_group[t], h.first_group[t + 1]):
            group = slice(h.group_starts[g], h.group_stops[g])
            limit, part = h.group_weights[g], shifted[group, 0]
            norm2, top = float(part @ part), float(weight[group, 0].max(initial=0.0))
            # the direction of a group that is on, along which its norm is straight
            if limit > 0 and norm2 > 0 and top * np.sqrt(norm2) >= limit * (1 - 1e-14):
                along = matrix[group].T @ part
                out -= top / norm2 * np.outer(along, along)


def fuse_columns(v: Array, threshold: float, out: Array) -> None:
    """Write the prox of the total variation of every column of ``v`` (n, C) into ``out``."""
    for c in range(v.shape[1]):
        out[:, c] = _fuse(v[:, c].tolist(), threshold)


def _fuse(v: list[float], t: float) -> list[float]:
    """Return the prox of a line; ``tv`` says what the names mean."""
    n = len(v)
    if n <= 1 or t == 0.0:
        return v
    knots, derivatives, offsets = [0.0] * (2 * n), [0.0] * (2 * n), [0.0] * (2 * n)
    low, high = [v[0] - t] + [0.0] * (n - 1), [v[0] + t] + [0.0] * (n - 1)
    left, right = n - 1, n
    knots[left], derivatives[left], offsets[left] = low[0], 1.0, t - v[0]
    knots[right], derivatives[right], offsets[right] = high[0], -1.0, t + v[0]

    def from_left(entry: float, limit: float) -> tuple[float, float, int]:
        derivative, offset, first = 1.0, -t - entry, left
        while first <= right and derivative * knots[first] + offset <= limit:
            derivative += derivatives[first]
            offset += offsets[first]
            first += 1
        return derivative, offset, first

    # the derivative is -t left of all knots, +t right of them, plus the new entry's (b - v_j)
    for j in range(1, n - 1):
        derivative_low, offset_low, first = from_left(v[j], -t)
        low[j] = (-t - offset_low) / derivative_low
        derivative, offset, last = 1.0, t - v[j], right
        while last >= first and derivative * knots[last] + offset >= t:
            derivative -= derivatives[last]
            offset -= offsets[last]
            last -= 1
        high[j] = (t - offset) / derivative
        left, right = first - 1, last + 1
        knots[left], derivatives[left], offsets[left] = low[j], derivative_low, offset_low + t
        knots[right], derivatives[right], offsets[right] = high[j], -derivative, t - offset
    derivative, offset, _ = from_left(v[n - 1], 0.0)
    x = -offset / derivative
    out = [x] * n
    for j in range(n - 2, -1, -1):
        x = min(max(x, low[j]), high[j])
        out[j] = x
    return out
