"""What all operators share: algebra, a CSR form per dtype, safe bounds of the norm."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse

from ..base.capabilities import Capabilities, Has, has_members
from ..base.immutable import ByValue, as_float, set_field, store
from ..base.protocols import Array, Operator
from ..base.workspace import Workspace

EXACT_SIDE = 1000
"""Shorter side up to which a matrix is given to an eigenvalue routine: under a second."""
MARGIN = 1.0 + 1e-10
"""Keeps bounds above the norm whatever rounding does, at no cost to step lengths."""


class LinearMap(ByValue):
    """Base of the shipped operators: ``shape``, ``matvec``, ``rmatvec``, ``norm2`` and algebra.

    ``A @ x`` applies the operator, ``A @ B`` composes two, ``2.0 * A`` scales one.
    """

    # numpy arrays leave products with an operator to the operator
    __array_ufunc__ = None

    capabilities: ClassVar[Capabilities] = frozenset({Has.SPARSE})
    """What the operator offers."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        raise NotImplementedError

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        """Return ``A x`` for ``x`` of shape (d,) or (d, C)."""
        raise NotImplementedError

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        """Return ``A' u`` for ``u`` of shape (q,) or (q, C)."""
        raise NotImplementedError

    @property
    def norm2(self) -> float:
        """An upper bound on the squared spectral norm."""
        raise NotImplementedError

    def csr_parts(self) -> tuple[Array, Array, Array]:
        """Return row pointers, columns and values of the sparse form, where there is one.

        Operators that know them say so without making a sparse matrix.
        """
        own: Any = self
        matrix = own.tosparse()
        return matrix.indptr, matrix.indices, matrix.data

    def __matmul__(self, other: Any) -> Any:
        from ._algebra import Composed

        if has_members(other, "rmatvec"):
            return Composed(self, other)
        return self.matvec(other)

    def __mul__(self, factor: float) -> Any:
        from ._algebra import Scaled

        return Scaled(self, float(factor)) if np.ndim(factor) == 0 else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1.0


class SparseMap(LinearMap):
    """An operator applied through its CSR form, which its constructor hands to `_settle`.

    Products with float32 vectors are summed in float64 and rounded once.
    """

    _forward: Any
    _adjoint: Any

    def _settle(self, matrix: Any) -> None:
        set_field(self, "_forward", matrix)
        set_field(self, "_adjoint", matrix.T)

    @property
    def shape(self) -> tuple[int, int]:
        return self._forward.shape  # type: ignore[no-any-return]

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        x = as_float(x)
        return store((self._forward @ x).astype(x.dtype, copy=False), out)

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        u = as_float(u)
        return store((self._adjoint @ u).astype(u.dtype, copy=False), out)

    def tosparse(self) -> Any:
        """Return the operator as a CSR array in float64; it is shared, copy it to change it."""
        return self._forward

    @property
    def norm2(self) -> float:
        return sparse_norm2(self.tosparse())


def squared_norm(A: Operator | None, workspace: Workspace | None = None) -> float:
    """Return the bound ``A.norm2``, 0 without an operator; a run computes it once.

    Operators work it out on every call, which can take many products: whatever asks more than
    once gives its workspace.
    """
    return 0.0 if A is None else (workspace or Workspace()).shared.once(_norm2, A)


def _norm2(A: Operator) -> float:
    return float(A.norm2)


def csr_parts(A: Any) -> tuple[Array, Array, Array]:
    """Return row pointers, columns and values of any operator with a sparse form."""
    if has_members(A, "csr_parts"):
        found: tuple[Array, Array, Array] = A.csr_parts()
        return found
    matrix = sparse.csr_array(A.tosparse())
    return matrix.indptr, matrix.indices, matrix.data


def dense_norm2(matrix: Array) -> float:
    """Bound the squared spectral norm of an array: exact when small, estimated otherwise."""
    small, large = sorted(matrix.shape)
    if small == 0:
        return 0.0
    frobenius = float(np.einsum("ij,ij->", matrix, matrix, dtype=np.float64)) * MARGIN
    if small <= EXACT_SIDE and small * small * large <= 4e9:  # a second of one core
        wide = matrix.astype(np.float64)
        gram = wide @ wide.T if matrix.shape[0] == small else wide.T @ wide
        return min(frobenius, _largest_eigenvalue(gram))
    matvec = matrix.__matmul__
    return min(frobenius, estimated_norm2(matrix.shape, matvec, matrix.T.__matmul__))


def sparse_norm2(matrix: Any) -> float:
    """Bound the squared spectral norm of a CSR array, always from above.

    Exact up to rounding when one side is short. Otherwise the bound of Collatz and Wielandt: for
    any positive vector w, the largest entry of ``(|A|'|A| w) / w`` is at least the squared norm,
    and replacing w by ``|A|'|A| w`` never makes it worse. It is sharp for signs as in the
    incidence matrix of a grid.
    """
    if matrix.nnz == 0:
        return 0.0
    size = abs(matrix)
    columns = np.flatnonzero(size.sum(axis=0))
    if columns.size == 0:
        return 0.0
    size = size[:, columns]
    frobenius = float((size.data**2).sum())
    if min(matrix.shape) <= EXACT_SIDE:
        short = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        return min(frobenius * MARGIN, _largest_eigenvalue(short.toarray()))
    adjoint = size.T
    w = np.ones(columns.size)
    bound = frobenius
    for _ in range(30):
        image = adjoint @ (size @ w)
        bound = min(bound, float((image / w).max()))
        # a floor keeps the vector positive on parts of a graph where it would die out
        w = np.maximum(image / image.max(), 1e-8)
    return bound * MARGIN


def estimated_norm2(
    shape: tuple[int, int], matvec: Any, rmatvec: Any, n_starts: int = 3, safety: float = 1.02
) -> float:
    """Estimate the squared spectral norm from products alone, with a margin.

    Lanczos iterations from several random starts; the largest Ritz value plus its residual,
    times ``safety``. No method that sees only products can be certain; a random start misses the
    leading direction with negligible probability, and the margin covers early stopping. Small
    operators are turned into an array instead, and the bound is then certain.
    """
    if min(shape) == 0:
        return 0.0
    # on the shorter side: A A' or A' A
    first, second = (rmatvec, matvec) if shape[0] <= shape[1] else (matvec, rmatvec)
    n = min(shape)
    if n <= 256:
        image = np.column_stack([first(unit) for unit in np.eye(n)])
        return _largest_eigenvalue(image.T @ image)
    starts = (np.random.default_rng(seed).standard_normal(n) for seed in range(n_starts))
    return safety * max(_largest_ritz_value(lambda x: second(first(x)), x) for x in starts)


def _largest_ritz_value(gram: Any, start: Array) -> float:
    """Return the largest Ritz value and its residual, added up, of one Lanczos run.

    The vectors are not kept orthogonal: that costs memory, and rounding only repeats values that
    have converged.
    """
    v, before, beta = start / np.linalg.norm(start), np.zeros_like(start), 0.0
    diagonal, off = [], []
    for _ in range(100):  # Ritz values are then far closer than the margin
        w = gram(v) - beta * before
        diagonal.append(float(w @ v))
        w = w - diagonal[-1] * v
        beta = float(np.linalg.norm(w))
        off.append(beta)
        if beta <= 1e-12 * max(map(abs, diagonal)):
            break
        before, v = v, w / beta
    last = len(diagonal) - 1
    value, vector = linalg.eigh_tridiagonal(
        diagonal, off[:-1], select="i", select_range=(last, last)
    )
    return float(value[0]) + beta * abs(float(vector[-1, 0]))


def _largest_eigenvalue(gram: Array) -> float:
    last = len(gram) - 1
    try:
        top = linalg.eigvalsh(gram, subset_by_index=[last, last], check_finite=False)[0]
    except linalg.LinAlgError:  # the routine for few eigenvalues fails on some repeated ones
        top = np.linalg.eigvalsh(gram)[-1]
    return max(0.0, float(top)) * MARGIN


def csr(data: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Build a CSR array in float64, entries at the same place added up."""
    triple = (np.asarray(data, dtype=np.float64), (rows, columns))
    return sparse.csr_array(sparse.coo_array(triple, shape=shape))
