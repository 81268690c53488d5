"""The inner loop of SAG-ADMM, compiled; step by step the loop of ``solvers/_reduced.py``.

``refresh`` sees the rows of a batch and writes their new slopes into the table as it goes, so a
row that is drawn twice counts once.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from ._prefetch import prefetch
from .algebra import clear, flat, multiply
from .blocks import add, move_x1, move_x2, set_force
from .rows import row_slopes
from .scalar import slope


@kernel
def _dense_single(f, runs, following, n_runs, x, table, out):
    # Local names: a view handed to a function once per row would cost more than the row.
    X, y, weight, offset = f.X, f.y, f.weight, f.offset
    loss, p0, p1, intercept = f.loss, f.p0, f.p1, f.intercept
    n, d = X.shape
    entries, targets, kept = flat(X), flat(y), flat(table)
    line = 64 // X.itemsize
    zero = X.dtype.type(0)  # a literal zero would widen the sums of float32 data
    for r in range(runs.size):
        lo, hi = runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs
        then = runs[r + 1] if r + 1 < runs.size else following
        jump = then * n // n_runs - lo
        for i in range(lo, hi):
            ahead = min(i + jump, n - 1)
            for j in range(0, d, line):
                prefetch(entries, ahead * d + j)
            prefetch(targets, ahead)
            prefetch(kept, ahead)
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
            change = X.dtype.type(now - kept[i])
            kept[i] = now
            for j in range(d):
                out[j] += change * X[i, j]
            if intercept:
                out[d] += change


@kernel
def _dense_multi(f, runs, n_runs, x, table, out):
    n, d = f.X.shape
    columns, k = x.shape[1], 0
    for r in range(runs.size):
        k += (runs[r] + 1) * n // n_runs - runs[r] * n // n_runs
    rows, now = np.empty((k, d), x.dtype), np.empty(columns, x.dtype)
    k = 0
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            for j in range(d):
                rows[k, j] = f.X[i, j]
            k += 1
    change = np.dot(rows, x[:d])
    k = 0
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            if f.intercept:
                for c in range(columns):
                    change[k, c] += x[d, c]
            row_slopes(f, i, change[k], now)
            for c in range(columns):
                change[k, c] = now[c] - table[i, c]
                table[i, c] = now[c]
                if f.intercept:
                    out[d, c] += change[k, c]
            k += 1
    np.dot(rows.T, change, out[:d])


@kernel
def _sparse(f, runs, n_runs, x, table, out):
    n, columns = f.y.shape[0], x.shape[1]
    d = x.shape[0] - (1 if f.intercept else 0)
    z, u = np.empty(columns, x.dtype), np.empty(columns, x.dtype)
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            for c in range(columns):
                z[c] = x[d, c] if f.intercept else 0
            for k in range(f.indptr[i], f.indptr[i + 1]):
                for c in range(columns):
                    z[c] += f.data[k] * x[f.indices[k], c]
            row_slopes(f, i, z, u)
            for c in range(columns):
                z[c] = u[c] - table[i, c]
                table[i, c] = u[c]
                if f.intercept:
                    out[d, c] += z[c]
            for k in range(f.indptr[i], f.indptr[i + 1]):
                for c in range(columns):
                    out[f.indices[k], c] += f.data[k] * z[c]


@kernel
def refresh(f, runs, following, n_runs, x, table, out):
    """Write the sum over the rows of (slope_i(x) - table_i) a_i into out; renew the table."""
    clear(out)
    if f.is_sparse:
        _sparse(f, runs, n_runs, x, table, out)
    elif x.shape[1] > 1:
        _dense_multi(f, runs, n_runs, x, table, out)
    else:
        _dense_single(f, runs, following, n_runs, flat(x), table, flat(out))


@kernel
def _remember(n, runs, n_runs, x, points, mean, share):
    """Set the points of the rows of the runs to x, and keep the mean of all points."""
    f_x, f_mean = flat(x), flat(mean)
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            for j in range(f_x.size):
                f_mean[j] += share * (f_x[j] - points[i, j])
                points[i, j] = f_x[j]


@kernel
def inner_loop(
    p, batches, n_runs, share, table, mean_gradient, points, mean_point, curvature, beta, step1,
    step2, x1, x2, dual, total1, total2, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place; with ``points``, x2 steps start between x2 and the mean point.

    The ``work`` arrays hold 3 vectors of the multiplier's shape, 1 of x1's and 3 of x2's.
    """
    force, a1x, a2x = work[0], work[1], work[2]
    back1, back2, change, center = work1[0], work2[0], work2[1], work2[2]
    f_mean, f_change = flat(mean_gradient), flat(change)
    f_x2, f_center, f_point = flat(x2), flat(center), flat(mean_point)
    n_inner = batches.shape[0]
    multiply(p.A1, x1, a1x)
    multiply(p.A2, x2, a2x)
    for k in range(n_inner):
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x1(p, force, step1, x1, a1x, back1)

        following = batches[min(k + 1, n_inner - 1), 0]
        refresh(p.f, batches[k], following, n_runs, x2, table, change)
        for j in range(f_mean.size):
            f_mean[j] += share * f_change[j]
        if points.size > 0:
            _remember(p.f.y.shape[0], batches[k], n_runs, x2, points, mean_point, share)
        for j in range(f_x2.size):
            f_center[j] = f_x2[j]
            if points.size > 0:
                f_center[j] += curvature * step2 * (f_point[j] - f_x2[j])
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x2(p, force, mean_gradient, step2, center, x2, a2x, back2)

        set_force(p.b, dual, beta, a1x, a2x, dual)
        add(x1, total1)
        add(x2, total2)
