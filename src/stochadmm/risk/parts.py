"""Mean losses of some rows, or of some columns, of another one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import CSR, Rows
from .evaluation import Evaluation
from .finite_sum import FiniteSum


def loss_of_rows(f2: object, *wanted: Has) -> FiniteSum | None:
    """Return a data term that is a mean loss over rows in memory; None for any other.

    None also where its loss does not offer all that is wanted.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.base.capabilities import Has
    >>> from stochadmm.losses import Squared
    >>> from stochadmm.risk import FiniteSum, loss_of_rows
    >>> f2 = FiniteSum(Squared(), np.eye(2), np.ones(2))
    >>> loss_of_rows(f2, Has.CONJUGATE) is f2, loss_of_rows(f2, Has.BY_CLASS), loss_of_rows(None)
    (True, None, None)
    """
    return f2 if isinstance(f2, FiniteSum) and offers(f2.loss, *wanted) else None


def as_finite_sum(f2: object) -> FiniteSum:
    """Return a data term that is a mean loss over rows in memory; raise for any other."""
    found = loss_of_rows(f2)
    if found is None:
        raise TypeError(
            f"f2 is {type(f2).__name__}, expected a FiniteSum of rows in memory; use 'auto'"
        )
    return found


def some_rows(f2: FiniteSum, rows: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss over some rows."""
    weight, offset = (None if a is None else a[rows] for a in (f2.weight, f2.offset))
    return FiniteSum(
        f2.loss, f2.rows.take(rows), f2.y[rows], weight, intercept=f2.intercept, offset=offset
    )


def as_matrix(f2: FiniteSum) -> FiniteSum:
    """Return the same mean loss of a matrix of coefficients: one column where it had a vector."""
    if f2.n_outputs is not None:
        return f2
    offset = None if f2.offset is None else f2.offset[:, None]
    return FiniteSum(
        f2.loss, f2.rows, f2.y[:, None], f2.weight, intercept=f2.intercept, offset=offset
    )


def some_columns(f2: FiniteSum, columns: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss where all coefficients but those of some columns are zero.

    An intercept stays, whether its column is named or not.
    """
    own = columns[columns < f2.n_features]
    return with_rows(f2, f2.rows.columns(own))


def with_rows(f2: FiniteSum, rows: Rows) -> FiniteSum:
    """Return the same loss, targets and weights with other rows."""
    return FiniteSum(f2.loss, rows, f2.y, f2.weight, intercept=f2.intercept, offset=f2.offset)


def row_products(f2: FiniteSum, scattered: float) -> float:
    """Return the multiplications that a row's part of a Gram matrix is worth.

    One of sparse rows, which write to scattered places, takes as long as ``scattered`` of dense.
    """
    d = f2.n_columns
    if f2.storage != CSR:
        return float(d * d)
    filled = f2.rows.entries_per_row() + f2.intercept
    return float(min(d * d, 1 + scattered * np.mean(filled**2)))


def at_predictions(f2: FiniteSum, x: Array, z: Array) -> Evaluation:
    """Return the evaluation at x, whose predictions are known: half a read of the rows."""
    u = f2.derivative(z)
    gradient = (f2.pull_back(f2.weighted(u)) / f2.n_terms).astype(f2.dtype, copy=False)
    return Evaluation(x, f2.value_at(z), gradient, z, u)


def dense_rows(f2: FiniteSum) -> Array:
    """Return the rows in float64 as a dense matrix, with the intercept's column of ones."""
    return (f2.rows.with_ones() if f2.intercept else f2.rows).dense()


def times_sparse(f2: FiniteSum, P: Any) -> Array:
    """Return the rows, intercept included, times a sparse matrix as a dense one in float64."""
    d = f2.n_features
    used = np.flatnonzero(np.diff(P.indptr[: d + 1]))
    turned = sparse.csr_array(P[used].T)
    out = np.empty((f2.n_terms, P.shape[1]))
    for rows, block in f2.rows.blocks():
        product: Any = (turned @ block.X[:, used].T).T
        out[rows] = product.toarray() if f2.storage == CSR else product
    return out + P[[d]].toarray() if f2.intercept else out
