"""Products with two groups of columns in float64: those under a penalty, and free ones.

The free columns (an intercept's ones among them) are few and kept as a dense matrix; the others
are multiplied with, rows in float32 by small wide copies. Free columns that nearly depend on each
other, or differ in their units, are replaced by a basis of their space.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ..base.protocols import Array
from ..data import CSR
from ..linear_algebra.dense import weighted_gram
from .finite_sum import FiniteSum


class SplitColumns:
    """The rows of a mean loss, cut into the columns of a penalty and free ones.

    Parameters
    ----------
    f2 : FiniteSum
        The mean loss.
    own, free : array of int
        Indices of both groups among the coefficients, the intercept's the last.
    """

    def __init__(self, f2: FiniteSum, own: NDArray[np.intp], free: NDArray[np.intp]) -> None:
        self.f2, self.n, self.n_own = f2, f2.n_terms, own.size
        self._groups = own, free
        X = f2.X
        if own.size != f2.n_features or not np.array_equal(own, np.arange(own.size)):
            X = X[:, own]
        self._narrow = f2.storage != CSR and f2.dtype != np.float64
        self._X, self._XT = X, sparse.csr_array(X.T) if f2.storage == CSR else X.T
        inside = free[free < f2.n_features]
        chosen = f2.X[:, inside]
        dense = chosen.toarray() if f2.storage == CSR else chosen
        ones = np.ones((self.n, free.size - inside.size))
        columns = np.hstack([dense.astype(np.float64), ones])
        self.basis = free_basis(columns)
        """Of the free columns, None where they serve as they are."""
        self.free: Array = columns if self.basis is None else self.basis.columns
        """The free columns, or the basis in their place."""

    def inner_free(self, V: Array) -> Array:
        """Return coefficients of the free columns as those of their basis."""
        return V if self.basis is None else self.basis.into @ V

    def outer_free(self, V: Array) -> Array:
        """Return coefficients of the basis as those of the free columns."""
        return V if self.basis is None else self.basis.out @ V

    def outer_gradient(self, gradient: Array) -> Array:
        """Return a gradient in the coefficients of the basis as one in those of the columns."""
        return gradient if self.basis is None else self.basis.into.T @ gradient

    def __recipe__(self) -> tuple[Any, ...]:
        return self.f2, *self._groups

    @classmethod
    def __made__(cls, *given: Any, **_: Any) -> SplitColumns:
        return cls(*given)

    def matvec(self, W: Array) -> Array:
        """Return the own columns times W."""
        if not self._narrow:
            return np.asarray(self._X @ W)
        out = np.empty((self.n, W.shape[1]))
        for rows in self.f2.chunks():  # wide copies of float32 rows stay small
            out[rows] = self._X[rows].astype(np.float64) @ W
        return out

    def rmatvec(self, u: Array) -> Array:
        """Return the transpose of the own columns times u."""
        if not self._narrow:
            return np.asarray(self._XT @ u)
        total = np.zeros((self.n_own, u.shape[1]))
        for rows in self.f2.chunks():
            total += self._X[rows].T.astype(np.float64) @ u[rows]
        return total

    def some_rows(self, rows: slice, dtype: Any) -> Array:
        """Return a range of dense rows in a type."""
        return np.asarray(self._X[rows], dtype=dtype)

    def by_column(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
        """Return the own columns and then the free ones in CSC form: pointers, rows, entries."""
        both = sparse.csr_array(self._XT)
        if self.free.shape[1]:
            both = sparse.csr_array(sparse.vstack([both, sparse.csr_array(self.free.T)]))
        rows = both.indices.astype(np.int32, copy=False)
        return both.indptr.astype(np.int64), rows, both.data.astype(np.float64, copy=False)

    def gram(self, weights: Array) -> Array:
        """Return the own columns' Gram matrix with weights of the rows, in float32 products."""
        return weighted_gram(self._X, weights, False, single=True)

    def largest_gram_eigenvalue(self, steps: int = 5) -> float:
        """Return about the largest eigenvalue of ``X'X``, by a few power steps."""
        v, size = np.ones((self.n_own, 1)) / np.sqrt(self.n_own), 1.0
        for _ in range(steps):
            v = self.rmatvec(self.matvec(v))
            size = float(np.linalg.norm(v))
            v = v / max(size, 1e-300)
        return size

    def largest_entry(self) -> float:
        """Return the largest size of an entry of the own columns."""
        X: Any = self._X.data if self.f2.storage == CSR else self._X
        return max(float(X.max(initial=0.0)), -float(X.min(initial=0.0)))

    def squares(self) -> Any:
        """Return the squared entries of the own columns, transposed."""
        if self.f2.storage != CSR:
            return self._XT**2
        XT = self._XT
        return sparse.csr_array((XT.data**2, XT.indices, XT.indptr), shape=XT.shape)

    def blocks(self, held: Array, curvature: Array) -> list[Array]:
        """Return the Hessian of the held coefficients of every output (sparse rows)."""
        columns, found = sparse.csc_array(self._X), []
        for k in range(held.shape[1]):
            own = columns[:, np.flatnonzero(held[:, k])]
            curved = sparse.csr_array(own.multiply(curvature[:, [k]]))
            found.append(np.asarray((own.T @ curved).toarray()) / self.n)
        return found


class SquaredColumns:
    """The squared entries of the own columns, transposed; a checkpoint does not hold them."""

    def __init__(self, columns: SplitColumns) -> None:
        self.columns, self.matrix = columns, columns.squares()

    def __recipe__(self) -> tuple[Any, ...]:
        return (self.columns,)

    @classmethod
    def __made__(cls, columns: SplitColumns, **_: Any) -> SquaredColumns:
        return cls(columns)

    def __matmul__(self, entries: Array) -> Array:
        """Return their product with one number per row and output."""
        return np.asarray(self.matrix @ entries)


@dataclass(frozen=True)
class FreeBasis:
    """Columns ``Q = X T`` of mean square one, as many as before: zeros for those that depend."""

    columns: Array
    """Q."""
    out: Array
    """T: coefficients of X are T times those of Q."""
    into: Array
    """Coefficients of Q from those of X."""


def free_basis(X: Array) -> FreeBasis | None:
    """Return an orthonormal basis of columns, None where they serve as they are.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, -1.0, 2.0, 0.0])
    >>> free_basis(np.column_stack([x, np.ones(4)])) is None
    True
    >>> basis = free_basis(np.column_stack([x, 1e-9 * np.arange(4)]))
    >>> np.allclose(basis.columns.T @ basis.columns / 4, np.eye(2))
    True
    """
    if not X.size:
        return None
    values = linalg.eigvalsh(X.T @ X)
    if values[0] > 1e-2**2 * values[-1]:  # squares of these columns lose four digits of sixteen
        return None
    size = np.sqrt(np.einsum("ij,ij->j", X, X))
    size = np.where(size > 0, size, 1.0)
    U, s, Wt = linalg.svd(X / size, full_matrices=False)
    n, f = X.shape
    Q, out, into = np.zeros((n, f)), np.zeros((f, f)), np.zeros((f, f))
    k = int(np.count_nonzero(s > 1e-13 * s[0]))  # some hundred units of rounding
    root = np.sqrt(float(n))
    Q[:, :k] = root * U[:, :k]
    out[:, :k] = root * (Wt[:k].T / s[:k]) / size[:, None]
    into[:k] = s[:k, None] * Wt[:k] * size / root
    return FreeBasis(Q, out, into)
