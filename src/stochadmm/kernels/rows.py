"""Mini-batch gradients of a linear model: every row is read once.

A batch is a list of runs; run r covers the rows r * n // n_runs up to the start of run r + 1. For each
row the prediction, the slope and the step back happen while the row is in the first-level cache, and
the slope of the snapshot is one stored number per output, so a variance-reduced gradient costs what a
plain one does. With several outputs the rows of a dense batch are gathered once and two matrix
products do the work.
"""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from .algebra import clear
from .scalar import slope, softmax_slope


@kernel
def row_slopes(f, i, z, u):
    """Write the slopes of row i at predictions z (offset not yet added) into u, weight included."""
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
def _dense_single(f, lo, hi, x, old, scale, out, z, u):
    d = f.X.shape[1]
    for i in range(lo, hi):
        z[0] = 0
        total = z[0]  # of the data's type: a literal zero would widen the sum
        for j in range(d):
            total += f.X[i, j] * x[j]
        z[0] = total
        if f.intercept:
            z[0] += x[d]
        row_slopes(f, i, z, u)
        if old.size > 0:
            u[0] -= old[i, 0]
        u[0] *= scale
        change = u[0]
        for j in range(d):
            out[j] += change * f.X[i, j]
        if f.intercept:
            out[d] += change


@kernel
def _sparse_single(f, lo, hi, x, old, scale, out, z, u):
    d = x.size - (1 if f.intercept else 0)
    for i in range(lo, hi):
        z[0] = 0
        total = z[0]
        for k in range(f.indptr[i], f.indptr[i + 1]):
            total += f.data[k] * x[f.indices[k]]
        z[0] = total
        if f.intercept:
            z[0] += x[d]
        row_slopes(f, i, z, u)
        if old.size > 0:
            u[0] -= old[i, 0]
        u[0] *= scale
        change = u[0]
        for k in range(f.indptr[i], f.indptr[i + 1]):
            out[f.indices[k]] += change * f.data[k]
        if f.intercept:
            out[d] += change


@kernel
def _sparse_multi(f, lo, hi, x, old, scale, out, z, u):
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
            if old.size > 0:
                u[c] -= old[i, c]
            u[c] *= scale
        for k in range(f.indptr[i], f.indptr[i + 1]):
            j, value = f.indices[k], f.data[k]
            for c in range(columns):
                out[j, c] += value * u[c]
        if f.intercept:
            for c in range(columns):
                out[d, c] += u[c]


@kernel
def _dense_multi(f, runs, n_runs, x, old, scale, out, u):
    n, d = f.X.shape
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
                if old.size > 0:
                    u[c] -= old[i, c]
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
def batch_gradient(f, runs, n_runs, x, old, scale, out):
    """Write scale * sum over the rows of the runs of (slope_i(x) - old_i) a_i into out.

    ``x`` and ``out`` are (d, C), ``old`` is (n, C) with the snapshot's slopes, or empty for a plain
    gradient.
    """
    n = f.y.shape[0]
    columns = x.shape[1]
    z, u = np.empty(columns, x.dtype), np.empty(columns, x.dtype)
    if columns > 1 and not f.is_sparse:
        _dense_multi(f, runs, n_runs, x, old, scale, out, u)
        return
    clear(out)
    for r in range(runs.size):
        lo, hi = runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs
        if columns > 1:
            _sparse_multi(f, lo, hi, x, old, scale, out, z, u)
        elif f.is_sparse:
            _sparse_single(f, lo, hi, x.reshape(x.size), old, scale, out.reshape(out.size), z, u)
        else:
            _dense_single(f, lo, hi, x.reshape(x.size), old, scale, out.reshape(out.size), z, u)
