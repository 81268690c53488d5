"""Compiled parts of the small quadratic problem: the splitting loop, Newton's matrix.

The problem is ``min_w 1/2 w'Hw - a'w + h(S w - b)``; blocks are (rows, outputs) arrays.
"""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from .algebra import multiply, multiply_transposed
from .prox import prox


@kernel
def _largest(x):
    flat, top = x.reshape(x.size), 0.0
    for j in range(flat.size):
        top = max(top, abs(flat[j]))
    return top


@kernel
def splitting(
    inverse, a, S, h, b, penalty, relax, w, z, dual, max_iter, every, tol, length, force
):
    """Alternate between w, with ``inverse = (H + penalty S'S)^-1``, and z; update in place.

    Returns the iterations made and the residuals of ``S w - b = z`` and of stationarity, relative
    to the numbers themselves and at least to ``length`` and ``force``.
    ``dual`` is in the subdifferential of h at z, so inside the dual set, after every iteration.
    """
    rows, columns = z.shape
    pull, image, shifted = np.empty_like(z), np.empty_like(z), np.empty_like(z)
    before, moved, right = np.empty_like(z), np.empty_like(z), np.empty_like(w)
    primal, stationary, done = np.inf, np.inf, 0
    for k in range(max_iter):
        for i in range(rows):
            for c in range(columns):
                pull[i, c] = penalty * (z[i, c] + b[i, c]) - dual[i, c]
        multiply_transposed(S, pull, right)
        right += a
        if columns == 1:
            w.reshape(w.size)[:] = np.dot(inverse, right.reshape(right.size))
        else:
            w[:] = np.dot(inverse, right)
        multiply(S, w, image)
        for i in range(rows):
            for c in range(columns):
                image[i, c] -= b[i, c]
                before[i, c] = dual[i, c] + penalty * (image[i, c] - z[i, c])
                mixed = relax * image[i, c] + (1 - relax) * z[i, c]
                shifted[i, c] = mixed + dual[i, c] / penalty
        prox(h, shifted, 1 / penalty, z)
        for i in range(rows):
            for c in range(columns):
                dual[i, c] = penalty * (shifted[i, c] - z[i, c])
        done += 1
        if (k + 1) % every == 0 or k + 1 == max_iter:
            for i in range(rows):
                for c in range(columns):
                    before[i, c] = dual[i, c] - before[i, c]
                    moved[i, c] = image[i, c] - z[i, c]
            multiply_transposed(S, before, right)
            primal = _largest(moved) / max(_largest(z), length)
            stationary = _largest(right)
            multiply_transposed(S, dual, right)
            stationary /= max(_largest(right), force)
            if primal <= tol and stationary <= tol:
                break
    return done, primal, stationary


@kernel
def augmented(S, h, b, dual, penalty, w, shifted, z, new_dual, weight):
    """Evaluate the prox side of the augmented Lagrangian at w.

    Writes ``shifted = S w - b + dual / penalty``, its prox z, the multiplier ``new_dual`` and the
    derivative of new_dual in S w: ``weight``, and for groups minus a rank-one part.
    """
    multiply(S, w, shifted)
    rows, columns = shifted.shape
    for i in range(rows):
        for c in range(columns):
            shifted[i, c] += dual[i, c] / penalty - b[i, c]
    prox(h, shifted, 1 / penalty, z)
    for i in range(rows):
        for c in range(columns):
            new_dual[i, c] = penalty * (shifted[i, c] - z[i, c])
    for t in range(h.kinds.size):
        if h.kinds[t] == codes.ELEMENTWISE:
            _elementwise_weight(h, h.starts[t], h.starts[t + 1], penalty, shifted, z, weight)
        else:
            _group_weight(h, h.first_group[t], h.first_group[t + 1], penalty, shifted, weight)


@kernel
def _elementwise_weight(h, first, last, penalty, shifted, z, weight):
    columns = z.shape[1]
    for j in range(first, last):
        for c in range(columns):
            k = j * columns + c if h.per_entry else j
            held = abs(shifted[j, c]) * penalty <= h.l1[k] and h.l1[k] > 0
            held = held or z[j, c] <= h.lo[k] or z[j, c] >= h.hi[k]
            slope = 0.0 if held else penalty / (penalty + h.l2[k])
            weight[j, c] = penalty * (1 - slope)


@kernel
def _group_weight(h, first_group, last_group, penalty, shifted, weight):
    columns = shifted.shape[1]
    for g in range(first_group, last_group):
        start, stop = h.group_starts[g], h.group_stops[g]
        norm = 0.0
        for j in range(start, stop):
            for c in range(columns):
                norm += shifted[j, c] * shifted[j, c]
        norm = penalty * np.sqrt(norm)
        share = 1.0 if norm <= h.group_weights[g] else h.group_weights[g] / norm
        for j in range(start, stop):
            for c in range(columns):
                weight[j, c] = penalty * share


@kernel
def newton_matrix(H, S, h, shifted, weight, out):
    """Write ``H + S' D S`` into the lower triangle of out, D from ``augmented``; one output."""
    out[:] = H
    rows = weight.shape[0]
    for i in range(rows):
        if weight[i, 0] == 0:
            continue
        for k in range(S.indptr[i], S.indptr[i + 1]):
            row, value = S.indices[k], weight[i, 0] * S.data[k]
            for m in range(S.indptr[i], S.indptr[i + 1]):
                if S.indices[m] <= row:
                    out[row, S.indices[m]] += value * S.data[m]
    spread, touched = np.zeros(H.shape[0]), np.empty(H.shape[0], np.int64)
    seen = np.zeros(H.shape[0], np.bool_)
    for t in range(h.kinds.size):
        if h.kinds[t] != codes.GROUP_NORMS:
            continue
        for g in range(h.first_group[t], h.first_group[t + 1]):
            _subtract_direction(S, h, g, shifted, weight, spread, touched, seen, out)


@kernel
def _subtract_direction(S, h, g, shifted, weight, spread, touched, seen, out):
    """Take the direction of a group that is on, along which its norm is straight, out of D."""
    if h.group_weights[g] == 0:
        return
    start, stop = h.group_starts[g], h.group_stops[g]
    norm2, top = 0.0, 0.0
    for j in range(start, stop):
        norm2 += shifted[j, 0] * shifted[j, 0]
        top = max(top, weight[j, 0])
    if norm2 == 0 or top * np.sqrt(norm2) < h.group_weights[g] * (1 - 1e-14):
        return
    # off groups have top = penalty and penalty * norm below the weight: they left above
    count = 0
    for j in range(start, stop):
        for k in range(S.indptr[j], S.indptr[j + 1]):
            column = S.indices[k]
            if not seen[column]:
                seen[column] = True
                touched[count] = column
                count += 1
            spread[column] += S.data[k] * shifted[j, 0]
    for k in range(count):
        for m in range(count):
            if touched[m] <= touched[k]:
                change = top / norm2 * spread[touched[k]] * spread[touched[m]]
                out[touched[k], touched[m]] -= change
    for k in range(count):
        spread[touched[k]] = 0
        seen[touched[k]] = False
