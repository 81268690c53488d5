"""Mini-batch gradients of a linear model: every row is read once.

A batch is a list of runs; run r covers the rows r * n // n_runs up to the start of run r + 1. For
each row the prediction, the slope and the step back happen while the row is in the first-level
cache, and the slope of the snapshot is one stored number per output, so a variance-reduced
gradient costs what a plain one does. With several outputs the rows of a dense batch are gathered
once and two matrix products do the work. The stored slopes may be renewed on the way.
"""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from ._prefetch import prefetch
from .algebra import clear, flat
from .scalar import slope, softmax_slope


@kernel
def sparse_dot(indptr, indices, data, i, x, z):
    """Return z plus row i of a CSR matrix times x."""
    for k in range(indptr[i], indptr[i + 1]):
        z += data[k] * x[indices[k]]
    return z


@kernel
def sparse_add(indptr, indices, data, i, step, out):
    """Add step times row i of a CSR matrix to out."""
    for k in range(indptr[i], indptr[i + 1]):
        out[indices[k]] += step * data[k]


@kernel
def row_slopes(f, i, z, u):
    """Write the weighted slopes of row i at predictions z, offset not yet added, into u."""
    if f.offset.size > 0:
        for c in range(z.size):
            z[c] += f.offset[i, c]
    if f.loss == codes.MULTINOMIAL:
        softmax_slope(z, f.y[i, 0], u)
    else:
        for c in range(z.size):
            u[c] = slope(f.loss, f.p0, f.p1, z[c], f.y[i, c])
    if f.weight.size > 0:
        last = f.weight.shape[1] - 1
        for c in range(z.size):
            u[c] *= f.weight[i, min(c, last)]


@kernel
def _dense_single(f, runs, following, n_runs, x, old, renew, scale, out):
    # Local names: a view handed to a function once per row or run would cost more than the rows.
    X, y, weight, offset = f.X, f.y, f.weight, f.offset
    loss, p0, p1, intercept = f.loss, f.p0, f.p1, f.intercept
    n, d = X.shape
    entries, targets, kept = flat(X), flat(y), flat(old)
    line = 64 // X.itemsize
    zero = X.dtype.type(0)  # a literal zero would widen the sums of float32 data
    for r in range(runs.size):
        lo, hi = runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs
        jump = (runs[r + 1] if r + 1 < runs.size else following) * n // n_runs - lo
        for i in range(lo, hi, line):
            ahead = min(i + jump, n - 1)
            prefetch(targets, ahead)
            if kept.size > 0:
                prefetch(kept, ahead)
        for i in range(lo, hi):
            ahead = min(i + jump, n - 1) * d
            for j in range(0, d, line):
                prefetch(entries, ahead + j)
            z = zero
            for j in range(d):
                z += X[i, j] * x[j]
            if intercept:
                z += x[d]
            if offset.size > 0:
                z += offset[i, 0]
            now = slope(loss, p0, p1, z, targets[i])
            if weight.size > 0:
                now *= weight[i, 0]
            change = now
            if kept.size > 0:
                change -= kept[i]
            if renew:
                kept[i] = now
            step = X.dtype.type(scale * change)
            for j in range(d):
                out[j] += step * X[i, j]
            if intercept:
                out[d] += step


@kernel
def _sparse_single(f, runs, following, n_runs, x, old, renew, scale, out):
    indptr, indices, data, y, weight, offset = f.indptr, f.indices, f.data, f.y, f.weight, f.offset
    loss, p0, p1, intercept = f.loss, f.p0, f.p1, f.intercept
    d = x.size - (1 if intercept else 0)
    n, last = indptr.size - 1, data.size - 1
    targets, kept = flat(y), flat(old)
    line = 64 // data.itemsize
    zero = data.dtype.type(0)
    for r in range(runs.size):
        lo, hi = runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs
        jump = (runs[r + 1] if r + 1 < runs.size else following) * n // n_runs - lo
        for i in range(lo, hi, line):
            ahead = min(i + jump, n - 1)
            prefetch(targets, ahead)
            if kept.size > 0:
                prefetch(kept, ahead)
        for i in range(lo, hi):
            first = min(np.int64(indptr[min(i + jump, n - 1)]), last)
            prefetch(data, first)
            prefetch(indices, first)
            z = sparse_dot(indptr, indices, data, i, x, zero)
            if intercept:
                z += x[d]
            if offset.size > 0:
                z += offset[i, 0]
            now = slope(loss, p0, p1, z, targets[i])
            if weight.size > 0:
                now *= weight[i, 0]
            change = now
            if kept.size > 0:
                change -= kept[i]
            if renew:
                kept[i] = now
            step = data.dtype.type(scale * change)
            sparse_add(indptr, indices, data, i, step, out)
            if intercept:
                out[d] += step


@kernel
def _sparse_rows(f, lo, hi, x, old, renew, scale, out, z, u):
    columns = x.shape[1]
    d = x.shape[0] - (1 if f.intercept else 0)
    for i in range(lo, hi):
        for c in range(columns):
            z[c] = 0
            if f.intercept:
                z[c] = x[d, c]
        for k in range(f.indptr[i], f.indptr[i + 1]):
            j, value = f.indices[k], f.data[k]
            for c in range(columns):
                z[c] += value * x[j, c]
        row_slopes(f, i, z, u)
        for c in range(columns):
            now = u[c]
            if old.size > 0:
                u[c] -= old[i, c]
            if renew:
                old[i, c] = now
            u[c] *= scale
        for k in range(f.indptr[i], f.indptr[i + 1]):
            j, value = f.indices[k], f.data[k]
            for c in range(columns):
                out[j, c] += value * u[c]
        if f.intercept:
            for c in range(columns):
                out[d, c] += u[c]


@kernel
def _sparse_multi(f, runs, n_runs, x, old, renew, scale, out):
    z, u = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
    n = f.y.shape[0]
    for r in range(runs.size):
        lo, hi = runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs
        _sparse_rows(f, lo, hi, x, old, renew, scale, out, z, u)


@kernel
def _dense_multi(f, runs, n_runs, x, old, renew, scale, out):
    n, d = f.X.shape
    u = np.empty(x.shape[1], x.dtype)
    size = 0
    for r in range(runs.size):
        size += (runs[r] + 1) * n // n_runs - runs[r] * n // n_runs
    rows = np.empty((size, d), f.X.dtype)
    k = 0
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            for j in range(d):
                rows[k, j] = f.X[i, j]
            k += 1
    z = np.dot(rows, x[:d])
    k = 0
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            if f.intercept:
                for c in range(z.shape[1]):
                    z[k, c] += x[d, c]
            row_slopes(f, i, z[k], u)
            for c in range(z.shape[1]):
                now = u[c]
                if old.size > 0:
                    u[c] -= old[i, c]
                if renew:
                    old[i, c] = now
                z[k, c] = scale * u[c]
            k += 1
    np.dot(rows.T, z, out[:d])
    if f.intercept:
        for c in range(z.shape[1]):
            out[d, c] = 0
        for k in range(size):
            for c in range(z.shape[1]):
                out[d, c] += z[k, c]


@kernel
def batch_gradient(f, runs, following, n_runs, x, old, scale, out):
    """Write scale * sum over the rows of the runs of (slope_i(x) - old_i) a_i into out.

    ``x`` and ``out`` are (d, C), ``old`` is (n, C) with the snapshot's slopes, or empty for a
    plain gradient. ``following`` is the first run of the next batch, to be fetched ahead.
    """
    _gradient(f, runs, following, n_runs, x, old, False, scale, out)


@kernel
def renewed_gradient(f, runs, following, n_runs, x, table, scale, out):
    """Do the same and write the new slopes into the table: a row drawn twice counts once."""
    _gradient(f, runs, following, n_runs, x, table, True, scale, out)


@kernel
def _gradient(f, runs, following, n_runs, x, old, renew, scale, out):
    columns = x.shape[1]
    if columns > 1 and not f.is_sparse:
        _dense_multi(f, runs, n_runs, x, old, renew, scale, out)
        return
    clear(out)
    if columns > 1:
        _sparse_multi(f, runs, n_runs, x, old, renew, scale, out)
    elif f.is_sparse:
        _sparse_single(f, runs, following, n_runs, flat(x), old, renew, scale, flat(out))
    else:
        _dense_single(f, runs, following, n_runs, flat(x), old, renew, scale, flat(out))
