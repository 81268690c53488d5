"""Steps of the dual variables of rows: prox of a conjugate, and the change of the gradient.

The twin of ``data_step`` in ``solvers/_dual_blocks.py``: every row is read once.
"""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from .algebra import clear, flat

SMALLEST_WEIGHT = 1e-12
MAX_NEWTON = 100


@kernel
def _logistic(u, z, step, y):
    """Solve step m + p(m) = p + step m_z for the margin m, p(m) = 1 / (1 + exp(-m)), u = -y p.

    The function is convex left of 0 and concave right of it, so Newton's method kept on the root's
    side of 0 is monotone after its first step, and its error at most halves the squared step.
    """
    margin = -y * z
    target = -y * u + step * margin
    right = target > 0.5
    m = max(margin, 0.0) if right else min(margin, 0.0)
    for _ in range(MAX_NEWTON):
        p = 1 / (1 + np.exp(-m))
        move = (target - step * m - p) / (step + p * (1 - p))
        new = m + move
        new = max(new, 0.0) if right else min(new, 0.0)
        move = new - m
        m = new
        if abs(move) <= 1e-8 * (1 + abs(m)):
            break
    return -y / (1 + np.exp(-m))


@kernel
def _poisson(u, z, step, y, top):
    """Solve step m + slope(m) = u + step z; the left side is convex and increasing in m."""
    target = u + step * z
    m = z
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
def prox_conjugate(code, p0, p1, u, z, step, y):
    """Return prox_{step loss*}(u + step z), which is the new slope of a row."""
    if code == codes.LOGISTIC:
        return _logistic(u, z, step, y)
    if code == codes.POISSON:
        return _poisson(u, z, step, y, p0)
    curvature = 1 / p1 if code == codes.QUANTILE else (1.0 if code == codes.HUBER else p0)
    new = (u + step * (z - y)) / (1 + step / curvature)
    if code == codes.HUBER:
        return min(max(new, -p0), p0)
    if code == codes.QUANTILE:
        return min(max(new, -p0), 1 - p0)
    if code == codes.SQUARED_HINGE:
        return min(new, 0.0) if y > 0 else max(new, 0.0)
    return new


@kernel
def _single(f, lo, hi, x, sigma, slopes, out, zero):
    # Local names: a view handed to a function once per row would cost more than the row.
    X, indptr, indices, data = f.X, f.indptr, f.indices, f.data
    weight, offset, intercept, is_sparse = f.weight, f.offset, f.intercept, f.is_sparse
    loss, p0, p1 = f.loss, f.p0, f.p1
    targets = flat(f.y)
    n = targets.size
    d = x.size - (1 if intercept else 0)
    for i in range(lo, hi):
        z = zero
        if is_sparse:
            for k in range(indptr[i], indptr[i + 1]):
                z += data[k] * x[indices[k]]
        else:
            for j in range(d):
                z += X[i, j] * x[j]
        if intercept:
            z += x[d]
        if offset.size > 0:
            z += offset[i, 0]
        q = weight[i, 0] if weight.size > 0 else 1.0
        step = sigma * n / max(q, SMALLEST_WEIGHT)
        old = slopes[i]
        slopes[i] = prox_conjugate(loss, p0, p1, old, z, step, targets[i])
        change = zero + (slopes[i] - old) * q / n
        if is_sparse:
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += change * data[k]
        else:
            for j in range(d):
                out[j] += change * X[i, j]
        if intercept:
            out[d] += change


@kernel
def _multi(f, lo, hi, x, sigma, slopes, out, z):
    X, indptr, indices, data = f.X, f.indptr, f.indices, f.data
    weight, offset, intercept, is_sparse, y = f.weight, f.offset, f.intercept, f.is_sparse, f.y
    loss, p0, p1 = f.loss, f.p0, f.p1
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
        for c in range(columns):
            q = weight[i, min(c, last)] if weight.size > 0 else 1.0
            step = sigma * n / max(q, SMALLEST_WEIGHT)
            old = slopes[i, c]
            slopes[i, c] = prox_conjugate(loss, p0, p1, old, z[c], step, y[i, c])
            z[c] = (slopes[i, c] - old) * q / n
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
def data_step(f, block, n_blocks, x, sigma, slopes, out):
    """Step the slopes of a block of rows at x, in place; the change of the gradient goes to out."""
    n = f.y.shape[0]
    lo, hi = block * n // n_blocks, (block + 1) * n // n_blocks
    clear(out)
    z = np.empty(x.shape[1], x.dtype)
    z[0] = 0
    if x.shape[1] > 1:
        _multi(f, lo, hi, x, sigma, slopes, out, z)
    else:
        _single(f, lo, hi, flat(x), sigma, flat(slopes), flat(out), z[0])
