"""What a user gives as X, as rows: checked once, copied only where the layout asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.validation import as_csr, is_sparse, refuse_masked
from ..kernels.passes import sparse_copy
from ._csr import CSRRows
from ._dense import DenseRows

Rows = DenseRows | CSRRows
"""A matrix of rows in float32 or float64."""


def as_rows(X: Any) -> Rows:
    """Return rows of a dense or CSR matrix of floats as it is: nothing is checked or copied."""
    if isinstance(X, Rows):
        return X
    return CSRRows(X) if is_sparse(X) else DenseRows(X)


def checked_rows(X: Any, notes: list[str]) -> Rows:
    """Return the rows that a user gave; what was converted or copied is noted.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Rows
        Row-major arrays and CSR matrices of floats are taken without a copy, read-only ones too.
    notes : list of str
        Grows by a sentence for every conversion.
    """
    if isinstance(X, Rows):
        return X
    by_entries = is_sparse(X)
    if by_entries:
        made = as_csr(X, "X")
        if X.format != "csr":
            notes.append(f"X converted from {X.format} to CSR")
        elif made.nnz < X.nnz:
            notes.append("duplicate entries of the CSR matrix X were summed in a copy")
        X = made
    else:
        refuse_masked(X, "X")
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension(s), expected 2 (rows, columns); reshape it, e.g. "
            "X.reshape(-1, 1) for one column"
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X has shape {X.shape}; pass at least one row and one column")
    X = _floats(X, notes)
    if by_entries:
        return CSRRows(X)
    if not X.flags.c_contiguous:
        notes.append("X copied to row-major order")
        X = np.ascontiguousarray(X)
    if X.nbytes <= 1 << 20:  # read in no time as it is
        return DenseRows(X)
    some = np.ascontiguousarray(X[:: max(1, len(X) // 500)])
    if np.count_nonzero(some) > 0.15 * some.size:  # a sparse copy would be slower to multiply with
        return DenseRows(X)
    X = sparse_copy(X)
    share = 1 - X.nnz / (X.shape[0] * X.shape[1])
    notes.append(f"{100 * share:.0f} % of X are zeros: a sparse copy is worked on")
    return CSRRows(X)


def _floats(X: Any, notes: list[str]) -> Any:
    if X.dtype in (np.float32, np.float64):
        return X
    if not np.issubdtype(X.dtype, np.number) and X.dtype != bool:
        raise ValueError(
            f"X has dtype {X.dtype}, expected numbers; encode text columns first, e.g. "
            "with sklearn.preprocessing.OneHotEncoder"
        )
    if np.issubdtype(X.dtype, np.complexfloating):
        raise ValueError("X is complex, expected real numbers; split it into two columns")
    notes.append(f"X converted from {X.dtype} to float64")
    return X.astype(np.float64)


def check_finite(norms2: Array) -> None:
    """Raise where a squared row norm is not finite, with the number of the row."""
    if not np.isfinite(norms2).all():
        bad = int(np.flatnonzero(~np.isfinite(norms2))[0])
        raise ValueError(
            f"X contains NaN, infinite or overflowing values (first in row {bad}); remove or "
            "impute them, e.g. with sklearn.impute.SimpleImputer, and rescale huge columns"
        )
