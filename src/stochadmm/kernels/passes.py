"""Full passes over the rows of a single-output model: each row is read once.

Sums over a chunk of rows are kept in the data's type where that is float64 anyway; the caller adds
chunks up in float64.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .algebra import flat
from .scalar import value_slope


@kernel
def _dense_predictions(X, lo, hi, d, x, z):
    for i in range(lo, hi):
        s = x.dtype.type(0)
        for j in range(d):
            s += X[i, j] * x[j]
        z[i] = s


@kernel
def _sparse_predictions(indptr, indices, data, lo, hi, x, z):
    for i in range(lo, hi):
        s = x.dtype.type(0)
        for k in range(indptr[i], indptr[i + 1]):
            s += data[k] * x[indices[k]]
        z[i] = s


@kernel
def _losses(f, lo, hi, shift, z, u):
    y, weight, offset = flat(f.y), flat(f.weight), flat(f.offset)
    loss, p0, p1 = f.loss, f.p0, f.p1
    total = 0.0
    for i in range(lo, hi):
        z[i] += shift
        if offset.size > 0:
            z[i] += offset[i]
        value, back = value_slope(loss, p0, p1, z[i], y[i])
        if weight.size > 0:
            value *= weight[i]
            back *= weight[i]
        total += value
        u[i] = back
    return total


@kernel
def _dense_back(X, lo, hi, d, u, gradient):
    for i in range(lo, hi):
        step = u[i]
        for j in range(d):
            gradient[j] += step * X[i, j]


@kernel
def _sparse_back(indptr, indices, data, lo, hi, u, gradient):
    for i in range(lo, hi):
        step = u[i]
        for k in range(indptr[i], indptr[i + 1]):
            gradient[indices[k]] += step * data[k]


@kernel
def _sum(u, lo, hi):
    # in memory it would be vectorized, and rounded, according to where the arrays happen to lie
    total = u.dtype.type(0)
    for i in range(lo, hi):
        total += u[i]
    return total


@kernel
def full_pass(f, lo, hi, x, z, u, gradient):
    """Write predictions and slopes of rows lo..hi, add to the gradient, return the sum of losses.

    Forward and back go over a few rows at a time, so that the second finds them in the cache.
    """
    total = 0.0
    d = x.size - (1 if f.intercept else 0)
    shift = x[d] if f.intercept else x.dtype.type(0)
    few = max(1, 4096 // max(d, 1))
    for start in range(lo, hi, few):
        stop = min(start + few, hi)
        if f.is_sparse:
            _sparse_predictions(f.indptr, f.indices, f.data, start, stop, x, z)
        else:
            _dense_predictions(f.X, start, stop, d, x, z)
        total += _losses(f, start, stop, shift, z, u)
        if f.is_sparse:
            _sparse_back(f.indptr, f.indices, f.data, start, stop, u, gradient)
        else:
            _dense_back(f.X, start, stop, d, u, gradient)
    if f.intercept:
        gradient[d] += _sum(u, lo, hi)
    return total


@kernel
def gram_pass(f, lo, hi, v, weighted, z, out):
    """Add ``sum_i q_i (a_i'v) a_i`` over rows lo..hi to out; z is room for one number per row."""
    d = v.size - (1 if f.intercept else 0)
    shift = v[d] if f.intercept else v.dtype.type(0)
    weight = flat(f.weight)
    few = max(1, 4096 // max(d, 1))
    for start in range(lo, hi, few):
        stop = min(start + few, hi)
        if f.is_sparse:
            _sparse_predictions(f.indptr, f.indices, f.data, start, stop, v, z)
        else:
            _dense_predictions(f.X, start, stop, d, v, z)
        for i in range(start, stop):
            z[i] += shift
            if weighted:
                z[i] *= weight[i]
        if f.is_sparse:
            _sparse_back(f.indptr, f.indices, f.data, start, stop, z, out)
        else:
            _dense_back(f.X, start, stop, d, z, out)
    if f.intercept:
        out[d] += _sum(z, lo, hi)


@kernel
def column_energies(f, n_runs, weighted, mean, largest):
    """Write the mean square of each column, and the largest mean square over one run of rows.

    With ``weighted`` the squares of a row count with its sample weight.
    """
    n, d = f.y.shape[0], mean.size
    part = np.zeros(d)
    for r in range(n_runs):
        lo, hi = r * n // n_runs, (r + 1) * n // n_runs
        for j in range(d):
            part[j] = 0.0
        for i in range(lo, hi):
            q = f.weight[i, 0] if weighted else 1.0
            if f.is_sparse:
                for k in range(f.indptr[i], f.indptr[i + 1]):
                    part[f.indices[k]] += q * f.data[k] * f.data[k]
            else:
                for j in range(f.X.shape[1]):
                    part[j] += q * f.X[i, j] * f.X[i, j]
            if f.intercept:
                part[d - 1] += q
        for j in range(d):
            mean[j] += part[j] / n
            largest[j] = max(largest[j], part[j] / (hi - lo))


@kernel
def row_scores(f, weighted, inverse_energy, out):
    """Write sum_j x_ij^2 / energy_j for each row: how much a row matters to rare columns."""
    n, d = f.y.shape[0], inverse_energy.size
    for i in range(n):
        total = 0.0
        if f.is_sparse:
            for k in range(f.indptr[i], f.indptr[i + 1]):
                total += f.data[k] * f.data[k] * inverse_energy[f.indices[k]]
        else:
            for j in range(f.X.shape[1]):
                total += f.X[i, j] * f.X[i, j] * inverse_energy[j]
        if f.intercept:
            total += inverse_energy[d - 1]
        out[i] = total * (f.weight[i, 0] if weighted else 1.0)


@kernel
def count_nonzeros(X, counts):
    """Write the numbers other than zero in each row to counts[1:]."""
    for i in range(X.shape[0]):
        total = 0
        for j in range(X.shape[1]):
            total += X[i, j] != 0
        counts[i + 1] = total


@kernel
def gather_nonzeros(X, indices, data):
    """Write columns and values of the numbers other than zero, row by row.

    Every number is written and zeros are written over, which needs one place more at the end and
    no branches.
    """
    k = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            indices[k] = j
            data[k] = X[i, j]
            k += X[i, j] != 0


@kernel
def sparse_gram(indptr, indices, data, numbers, first, last, out):
    """Add rows first..last of ``sum_i numbers_i a_i a_i'`` to the lower triangle of out."""
    for i in range(numbers.size):
        for k in range(indptr[i], indptr[i + 1]):
            row, value = indices[k], numbers[i] * data[k]
            if row < first or row >= last:
                continue
            for m in range(indptr[i], indptr[i + 1]):
                if indices[m] <= row:
                    out[row, indices[m]] += value * data[m]
