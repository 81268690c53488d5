"""Products with small structured operators, (rows, outputs) arrays in and out."""

from __future__ import annotations

from . import codes
from ._jit import kernel


@kernel
def flat(array):
    """Return a one-dimensional view of a contiguous array."""
    return array.reshape(array.size)


@kernel
def copy(source, out):
    """Copy an array; far quicker to compile than a slice assignment, which checks shapes."""
    given, result = flat(source), flat(out)
    for j in range(given.size):
        result[j] = given[j]


@kernel
def clear(out):
    """Set an array to zero."""
    result = flat(out)
    for j in range(result.size):
        result[j] = 0


@kernel
def _csr_product(indptr, indices, data, x, out):
    rows, columns = out.shape
    if columns == 1:
        source, result = flat(x), flat(out)
        for i in range(rows):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += data[k] * source[indices[k]]
            result[i] = total
    else:
        for i in range(rows):
            for c in range(columns):
                out[i, c] = 0
            for k in range(indptr[i], indptr[i + 1]):
                j, value = indices[k], data[k]
                for c in range(columns):
                    out[i, c] += value * x[j, c]


@kernel
def multiply(A, x, out):
    """Write A x into out."""
    if A.kind == codes.SCALED_IDENTITY:
        source, result = flat(x), flat(out)
        for j in range(source.size):
            result[j] = A.scale * source[j]
    elif A.kind == codes.SPARSE:
        _csr_product(A.indptr, A.indices, A.data, x, out)


@kernel
def multiply_transposed(A, u, out):
    """Write A' u into out."""
    if A.kind == codes.SCALED_IDENTITY:
        source, result = flat(u), flat(out)
        for j in range(source.size):
            result[j] = A.scale * source[j]
    elif A.kind == codes.SPARSE:
        _csr_product(A.t_indptr, A.t_indices, A.t_data, u, out)
    else:
        clear(out)
