"""Steps of the dual variables of rows: prox of a conjugate, and the change of the gradient.

The twin of ``data_step`` in ``solvers/_dual_blocks.py``: every row is read once.
"""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from ._prefetch import prefetch
from .algebra import clear, flat
from .rows import sparse_add, sparse_dot

SMALLEST_WEIGHT = 1e-12
MAX_NEWTON = 100


@kernel
def _logistic(u, z, step, y):
    """Solve step m + p(m) = p + step m_z for the margin m, p(m) = 1 / (1 + exp(-m)), u = -y p.

    The function is convex left of 0 and concave right of it, so Newton's method kept on the root's
    side of 0 is monotone after its first step, and its error is at most half the squared step. All
    in float64: in float32 the last steps would not get short enough.
    """
    margin = -float(y) * float(z)
    target = step * margin - float(y) * float(u)
    right = target > 0.5
    m = max(margin, 0.0) if right else min(margin, 0.0)
    p = 0.5
    for _ in range(MAX_NEWTON):
        p = 1 / (1 + np.exp(-m))
        curve = p * (1 - p)
        new = m + (target - step * m - p) / (step + curve)
        new = max(new, 0.0) if right else min(new, 0.0)
        move = new - m
        m = new
        if abs(move) <= 1e-6 * (1 + abs(m)):
            p += curve * move
            break
    return -y * p


@kernel
def _poisson(u, z, step, y, top):
    """Solve step m + slope(m) = u + step z; the left side is convex and increasing in m."""
    target, m = float(u) + step * z, float(z)
    for _ in range(MAX_NEWTON):
        inner = min(m, top)
        rate = np.exp(inner)
        move = (target + y - step * m - rate * (1 + m - inner)) / (step + rate)
        m += move
        if abs(move) <= 1e-14 * (1 + abs(m)):
            break
    inner = min(m, top)
    return np.exp(inner) * (1 + m - inner) - y


@kernel
def inverse_curvature(code, p0, p1):
    """Return 1 over the curvature of the losses whose slope is a clipped line."""
    if code == codes.QUANTILE:
        return p1
    return 1 / p0 if code == codes.SQUARED or code == codes.SQUARED_HINGE else 1.0


@kernel
def prox_conjugate(code, p0, inverse, u, z, step, y):
    """Return prox_{step loss*}(u + step z), which is the new slope of a row."""
    if code == codes.LOGISTIC:
        return _logistic(u, z, step, y)
    if code == codes.POISSON:
        return _poisson(u, z, step, y, p0)
    new = (u + step * (z - y)) / (1 + step * inverse)
    if code == codes.HUBER:
        return min(max(new, -p0), p0)
    if code == codes.QUANTILE:
        return min(max(new, -p0), 1 - p0)
    if code == codes.SQUARED_HINGE:
        return min(new, 0.0) if y > 0 else max(new, 0.0)
    return new


@kernel
def _softmax(m, p):
    """Write softmax(m) into p."""
    top, total = m[0], 0.0
    for c in range(1, m.size):
        top = max(top, m[c])
    for c in range(m.size):
        p[c] = np.exp(m[c] - top)
        total += p[c]
    for c in range(m.size):
        p[c] /= total


@kernel
def softmax_conjugate(u, z, label, step, work):
    """Step the slopes u of a row of the softmax loss at predictions z; z becomes their change.

    Newton's method for softmax(m) - e_label + step m = u + step z, whose matrix is diagonal plus
    rank one, damped by the range of the move, which bounds how fast the curvature changes.
    ``work`` holds 4 float64 vectors.
    """
    m, p, target, move = work[0], work[1], work[2], work[3]
    for c in range(z.size):
        m[c] = z[c]
        target[c] = u[c] + step * m[c] + (1.0 if c == label else 0.0)
    _softmax(m, p)
    for _ in range(MAX_NEWTON):
        slope, room = 0.0, 0.0
        for c in range(z.size):
            move[c] = (target[c] - step * m[c] - p[c]) / (p[c] + step)
            slope += p[c] * move[c]
            room += p[c] * step / (p[c] + step)
        low, high = np.inf, -np.inf
        for c in range(z.size):
            move[c] += p[c] / (p[c] + step) * slope / room
            low, high = min(low, move[c]), max(high, move[c])
        length = high - low
        damp = np.log(1 + length) / length if length > 1e-3 else 1 - length / 2
        for c in range(z.size):
            m[c] += damp * move[c]
        _softmax(m, p)
        if length <= 1e-6:
            break
    for c in range(z.size):
        new = p[c] - (1.0 if c == label else 0.0)
        z[c] = new - u[c]
        u[c] = new


@kernel
def _dense_single(f, lo, hi, jump, x, sigma, slopes, out, zero):
    # Local names: a view handed to a function once per row would cost more than the row.
    X, weight, offset, intercept = f.X, f.weight, f.offset, f.intercept
    loss, p0, inverse = f.loss, f.p0, inverse_curvature(f.loss, f.p0, f.p1)
    targets, entries = flat(f.y), flat(X)
    n, d = X.shape
    step, share = sigma * n, 1 / n
    for i in range(lo, hi):
        ahead = min(i + jump, n - 1)
        for j in range(0, d, 8):
            prefetch(entries, ahead * d + j)
        prefetch(slopes, ahead)
        prefetch(targets, ahead)
        z = zero
        for j in range(d):
            z += X[i, j] * x[j]
        if intercept:
            z += x[d]
        if offset.size > 0:
            z += offset[i, 0]
        if weight.size > 0:
            step = sigma * n / max(weight[i, 0], SMALLEST_WEIGHT)
            share = weight[i, 0] / n
        old = slopes[i]
        slopes[i] = prox_conjugate(loss, p0, inverse, old, z, step, targets[i])
        change = zero + share * (slopes[i] - old)
        for j in range(d):
            out[j] += change * X[i, j]
        if intercept:
            out[d] += change


@kernel
def _sparse_single(f, lo, hi, jump, x, sigma, slopes, out, zero):
    indptr, indices, data = f.indptr, f.indices, f.data
    weight, offset, intercept = f.weight, f.offset, f.intercept
    loss, p0, inverse = f.loss, f.p0, inverse_curvature(f.loss, f.p0, f.p1)
    targets = flat(f.y)
    n, last = targets.size, data.size - 1
    d = x.size - (1 if intercept else 0)
    step, share = sigma * n, 1 / n
    for i in range(lo, hi):
        ahead = min(i + jump, n - 1)
        first = min(np.int64(indptr[ahead]), last)
        prefetch(data, first)
        prefetch(indices, first)
        prefetch(slopes, ahead)
        prefetch(targets, ahead)
        z = sparse_dot(indptr, indices, data, i, x, zero)
        if intercept:
            z += x[d]
        if offset.size > 0:
            z += offset[i, 0]
        if weight.size > 0:
            step = sigma * n / max(weight[i, 0], SMALLEST_WEIGHT)
            share = weight[i, 0] / n
        old = slopes[i]
        slopes[i] = prox_conjugate(loss, p0, inverse, old, z, step, targets[i])
        change = zero + share * (slopes[i] - old)
        sparse_add(indptr, indices, data, i, change, out)
        if intercept:
            out[d] += change


@kernel
def _multi(f, lo, hi, x, sigma, slopes, out, z, work):
    X, indptr, indices, data = f.X, f.indptr, f.indices, f.data
    weight, offset, intercept, is_sparse, y = f.weight, f.offset, f.intercept, f.is_sparse, f.y
    loss, p0, inverse = f.loss, f.p0, inverse_curvature(f.loss, f.p0, f.p1)
    n, columns = slopes.shape
    d = x.shape[0] - (1 if intercept else 0)
    last = weight.shape[1] - 1
    for i in range(lo, hi):
        for c in range(columns):
            z[c] = x[d, c] if intercept else 0.0
            if offset.size > 0:
                z[c] += offset[i, c]
        if is_sparse:
            for k in range(indptr[i], indptr[i + 1]):
                j, value = indices[k], data[k]
                for c in range(columns):
                    z[c] += value * x[j, c]
        else:
            for j in range(d):
                value = X[i, j]
                for c in range(columns):
                    z[c] += value * x[j, c]
        q = weight[i, 0] if weight.size > 0 else 1.0
        step = sigma * n / max(q, SMALLEST_WEIGHT)
        if loss == codes.MULTINOMIAL:
            softmax_conjugate(slopes[i], z, int(y[i, 0]), step, work)
        for c in range(columns):
            if loss != codes.MULTINOMIAL:
                if last > 0:
                    q = weight[i, c]
                    step = sigma * n / max(q, SMALLEST_WEIGHT)
                old = slopes[i, c]
                slopes[i, c] = prox_conjugate(loss, p0, inverse, old, z[c], step, y[i, c])
                z[c] = slopes[i, c] - old
            z[c] *= q / n
            if intercept:
                out[d, c] += z[c]
        if is_sparse:
            for k in range(indptr[i], indptr[i + 1]):
                j, value = indices[k], data[k]
                for c in range(columns):
                    out[j, c] += value * z[c]
        else:
            for j in range(d):
                value = X[i, j]
                for c in range(columns):
                    out[j, c] += value * z[c]


@kernel
def data_step(f, block, following, n_blocks, x, sigma, slopes, out):
    """Step the slopes of a block of rows at x, in place; out is the change of their gradient.

    ``following`` is a block to be fetched ahead.
    """
    n = f.y.shape[0]
    lo, hi = block * n // n_blocks, (block + 1) * n // n_blocks
    jump = following * n // n_blocks - lo
    clear(out)
    z = np.empty(x.shape[1], x.dtype)
    z[0] = 0
    if x.shape[1] > 1:
        _multi(f, lo, hi, x, sigma, slopes, out, z, np.empty((4, x.shape[1])))
    elif f.is_sparse:
        _sparse_single(f, lo, hi, jump, flat(x), sigma, flat(slopes), flat(out), z[0])
    else:
        _dense_single(f, lo, hi, jump, flat(x), sigma, flat(slopes), flat(out), z[0])
