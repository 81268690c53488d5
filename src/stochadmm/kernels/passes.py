"""Full passes over the rows of a single-output model, and over the entries of a loss.

Only with the extension; ``FiniteSum``, ``metrics`` and ``losses`` have the NumPy forms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from .extension import available, core
from .views import DataView, csr_parts

Kernel = tuple[str, float, float]
"""Name and numbers of a loss."""


def full_pass(
    f: DataView, lo: int, hi: int, x: Array, z: Array, u: Array, gradient: Array
) -> float:
    """Write predictions and derivatives of rows lo..hi, add to the gradient, return their losses.

    z and u have one number for each of these rows; sample weights are left out of u.
    Sums over the rows are kept in the data's type; the caller adds chunks up in float64.
    """
    return float(core().full_pass(f.native, lo, hi, np.ascontiguousarray(x), z, u, gradient))


def gram_pass(
    f: DataView, lo: int, hi: int, v: Array, weighted: bool, z: Array, out: Array
) -> None:
    """Add ``sum_i q_i (a_i'v) a_i`` over rows lo..hi to out; z is room for one number each."""
    core().gram_pass(f.native, lo, hi, np.ascontiguousarray(v), weighted, z, out)


def column_energies(f: DataView, n_runs: int, weighted: bool, mean: Array, largest: Array) -> None:
    """Write the mean square of each column, and the largest mean square over one run of rows.

    With ``weighted`` the squares of a row count with its sample weight.
    """
    core().column_energies(f.native, n_runs, weighted, mean, largest)


def row_scores(f: DataView, weighted: bool, inverse_energy: Array, out: Array) -> None:
    """Write sum_j x_ij^2 / energy_j for each row: how much a row matters to rare columns."""
    core().row_scores(f.native, weighted, inverse_energy, out)


def sparse_copy(X: Array) -> Any:
    """Return a sparse copy of a dense matrix, in two reads."""
    if not available():
        return sparse.csr_array(X)
    indptr = np.zeros(len(X) + 1, dtype=np.int64)
    counts = indptr[1:]
    core().count_nonzeros(X, counts)
    size = int(counts.sum())
    kind = np.int32 if max(size, X.shape[1]) < 2**31 else np.int64
    indices, data = np.empty(size + 1, dtype=kind), np.empty(size + 1, dtype=X.dtype)
    core().gather_nonzeros(X, counts, indices, data)
    np.cumsum(counts, out=counts)
    made = sparse.csr_array((data[:size], indices[:size], indptr.astype(kind)), shape=X.shape)
    made.has_canonical_format = True
    return made


class Rows(NamedTuple):
    """Rows of a CSR matrix as the extension reads them."""

    n_rows: int
    n_features: int
    is_sparse: bool
    X: Array
    indptr: Array
    indices: Array
    data: Array


def compensated_adjoint(X: Any, v: Array, high: Array, low: Array) -> None:
    """Add ``X' v`` to ``high + low`` in about twice the precision of float64.

    X is dense or CSR, in float32 or float64; v, high and low are vectors of float64.
    """
    n, d = X.shape
    if sparse.issparse(X):
        rows = Rows(n, d, True, *csr_parts(X))
    else:
        none = np.empty(0, np.int64)
        rows = Rows(n, d, False, np.ascontiguousarray(X), none, none, np.empty(0, X.dtype))
    core().compensated_adjoint(rows, np.ascontiguousarray(v, np.float64), high, low)


def sparse_gram(block: Any, numbers: Array, first: int, last: int, out: Array) -> None:
    """Add rows first..last of ``sum_i numbers_i a_i a_i'`` to the lower triangle of out.

    ``out`` may have more columns than the CSR matrix ``block``.
    """
    n, d = block.shape
    rows = Rows(n, d, True, *csr_parts(block))
    numbers = np.ascontiguousarray(numbers, dtype=np.float64)
    core().sparse_gram(rows, numbers, first, last, out)


# ---------------------------------------------------------------- entries, in float64


def curvatures(loss: Kernel, z: Array, y: Array) -> Array:
    """Return the second derivatives in z."""
    out = np.empty(z.shape)
    core().loss_curvatures(loss, _flat(z), _flat(y), out.reshape(-1))
    return out


def conjugates(loss: Kernel, u: Array, y: Array, guard: float) -> Array:
    """Return the conjugates at u, ``inf`` beyond ``guard`` of their intervals."""
    out = np.empty(u.shape)
    core().loss_conjugates(loss, _flat(u), _flat(y), guard, out.reshape(-1))
    return out


def largest_conjugates(loss: Kernel, u: Array, size: Array, y: Array, guard: float) -> Array:
    """Return the largest conjugates between ``u - size`` and ``u + size``."""
    out = np.empty(u.shape)
    core().loss_largest_conjugates(loss, _flat(u), _flat(size), _flat(y), guard, out.reshape(-1))
    return out


def rooms(loss: Kernel, u: Array, du: Array, y: Array) -> Array:
    """Return the largest t in [0, 1] that keep ``u + t du`` in the intervals, rounded down."""
    out = np.empty(u.shape)
    core().loss_rooms(loss, _flat(u), _flat(du), _flat(y), out.reshape(-1))
    return out


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64).reshape(-1)
