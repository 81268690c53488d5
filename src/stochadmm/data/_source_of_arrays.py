"""What a user gives as X, as rows: checked once, copied only where the layout asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.validation import as_csr, is_sparse, refuse_masked
from ..kernels.passes import sparse_copy
from ._csr import CSRRows
from ._dense import DenseRows
from .rows import Rows


@dataclass(frozen=True)
class Layout:
    """When a dense matrix is worked on as a sparse one.

    Parameters
    ----------
    large : int
        Bytes from which on a matrix is worth a look: smaller ones are read in no time.
    mostly_zero : float
        Share of numbers other than zero up to which a sparse copy is faster to multiply with.
    looks_at : int
        Rows that the decision looks at.
    """

    large: int = 1 << 20
    mostly_zero: float = 0.15
    looks_at: int = 500

    def is_sparse(self, X: Array) -> bool:
        """Say whether a sparse copy is made."""
        if X.nbytes <= self.large:
            return False
        some = np.ascontiguousarray(X[:: max(1, len(X) // self.looks_at)])
        return float(np.count_nonzero(some)) <= self.mostly_zero * some.size


def as_rows(X: Any) -> Rows:
    """Return rows of a dense or CSR matrix of floats as it is: nothing is checked or copied."""
    return _already(X) or (CSRRows(X) if is_sparse(X) else DenseRows(X))


def _already(X: Any) -> Rows | None:
    """Return X where it is rows and not a matrix."""
    return X if isinstance(X, (DenseRows, CSRRows)) else None


def checked_rows(X: Any, notes: list[str], layout: Layout | None = None) -> Rows:
    """Return the rows that a user gave; what was converted or copied is noted.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Rows
        Row-major arrays and CSR matrices of floats are taken without a copy, read-only ones too.
    notes : list of str
        Grows by a sentence for every conversion.
    layout : Layout, optional
        When a dense matrix is worked on as a sparse one.
    """
    rows = _already(X)
    if rows is not None:
        return rows
    by_entries = is_sparse(X)
    X = _from_sparse(X, notes) if by_entries else _from_dense(X)
    _check_shape(X)
    X = _floats(X, notes)
    if by_entries:
        return CSRRows(X)
    if not X.flags.c_contiguous:
        notes.append("X copied to row-major order")
        X = np.ascontiguousarray(X)
    if not (Layout() if layout is None else layout).is_sparse(X):
        return DenseRows(X)
    X = sparse_copy(X)
    share = 1 - X.nnz / (X.shape[0] * X.shape[1])
    notes.append(f"{100 * share:.0f} % of X are zeros: a sparse copy is worked on")
    return CSRRows(X)


def _from_sparse(X: Any, notes: list[str]) -> Any:
    if X.format != "csr":
        notes.append(f"X converted from {X.format} to CSR")
    made = as_csr(X, "X")
    if X.format == "csr" and made.nnz < X.nnz:
        notes.append("duplicate entries of the CSR matrix X were summed in a copy")
    return made


def _from_dense(X: Any) -> Any:
    refuse_masked(X, "X")
    return np.asarray(X)


def _check_shape(X: Any) -> None:
    if X.ndim != 2:
        raise ValueError(
            f"X has {X.ndim} dimension(s), expected 2 (rows, columns); reshape it, e.g. "
            "X.reshape(-1, 1) for one column"
        )
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X has shape {X.shape}; pass at least one row and one column")


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
