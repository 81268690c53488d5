"""Mean losses of some rows, or of some columns, of another one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .finite_sum import CSR, FiniteSum


def as_finite_sum(f2: object) -> FiniteSum:
    """Return a data term that is a mean loss over rows in memory; raise for any other."""
    if not isinstance(f2, FiniteSum):
        raise TypeError(
            f"f2 is {type(f2).__name__}, expected a FiniteSum of rows in memory; use 'auto'"
        )
    return f2


def some_rows(f2: FiniteSum, rows: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss over some rows."""
    weight = None if f2.weight is None else f2.weight[rows]
    offset = None if f2.offset is None else f2.offset[rows]
    return FiniteSum(
        f2.loss, f2.X[rows], f2.y[rows], weight, intercept=f2.intercept, offset=offset
    )


def some_columns(f2: FiniteSum, columns: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss where all coefficients but those of some columns are zero.

    An intercept stays, whether its column is named or not.
    """
    own = columns[columns < f2.n_features]
    X = f2.X[:, own] if f2.storage == CSR else np.take(f2.X, own, axis=1)
    return FiniteSum(f2.loss, X, f2.y, f2.weight, intercept=f2.intercept, offset=f2.offset)


def row_products(f2: FiniteSum, scattered: float) -> float:
    """Return the multiplications that a row's part of a Gram matrix is worth.

    One of sparse rows, which write to scattered places, takes as long as ``scattered`` of dense.
    """
    d = f2.n_columns
    if f2.storage != CSR:
        return float(d * d)
    filled = np.diff(f2.X.indptr).astype(np.float64) + f2.intercept
    return float(min(d * d, 1 + scattered * np.mean(filled**2)))
