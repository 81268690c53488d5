"""The pairs that satisfy a constraint: nearest points and directions inside, by linear algebra.

Both blocks stand on top of each other, ``z = (x1; x2)`` and ``A = [A1, A2]``. Rows are scaled to
length one first, so that their units do not decide about the rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, lsmr

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Operator


@dataclass(frozen=True)
class AffineOptions:
    """How a constraint is factorized.

    Parameters
    ----------
    most_work : float
        Multiplications of a dense factorization, up to which there is one (a few seconds).
    dense : int
        Columns of an operator without a matrix, up to which one is made from its products.
    fixed : float
        Share of a unit step below which a coordinate of z is taken to be the same in all points.
    rounds : int
        Projections one after the other: the second removes what rounding left of the first.
    """

    most_work: float = 4e9
    dense: int = 4000
    fixed: float = 1e-12
    rounds: int = 2


OPTIONS = AffineOptions()


@dataclass(frozen=True)
class AffineSet:
    """All z with ``A z = b``.

    Attributes
    ----------
    matrix : array, sparse array or LinearOperator
        ``A``.
    right : array
        ``b``, one column per output.
    inverse : array or None
        The pseudo-inverse of A; None where A is too large, and least squares is iterated.
    basis : array or None
        Orthonormal directions that leave ``A z`` alone.
    """

    matrix: Any
    right: Array
    inverse: Array | None
    basis: Array | None

    @classmethod
    def of(cls, A1: Operator, A2: Operator, right: Array) -> AffineSet:
        """Factorize the constraint of two blocks."""
        blocks = [as_sparse(A) for A in (A1, A2)]
        if any(block is None for block in blocks):
            return cls(_operator(A1, A2), right, None, None)
        matrix = sparse.csr_array(sparse.hstack(blocks))
        q, columns = matrix.shape
        if q * columns * columns > OPTIONS.most_work:
            return cls(matrix, right, None, None)
        inverse, basis = _factorized(matrix.toarray())
        return cls(matrix, right, inverse, basis)

    def residual(self, z: Array) -> Array:
        """Return ``A z - b``."""
        return cast(Array, self.matrix @ z - self.right)

    def project(self, z: Array) -> Array:
        """Return the nearest point; the nearest to feasible where the constraint has no point."""
        for _ in range(OPTIONS.rounds):
            r = self.residual(z)
            if not np.isfinite(r).all():
                return z
            z = z - (_least_squares(self.matrix, r) if self.inverse is None else self.inverse @ r)
        return z

    def multiplier(self, pull: Array) -> Array:
        """Return lambda with ``A' lambda = pull``, in least squares."""
        if self.inverse is None:
            return _least_squares(self.matrix.T, pull)
        return self.inverse.T @ pull


def as_sparse(A: Any) -> Any:
    """Return an operator as a CSR array, None where it has no matrix and is large."""
    if offers(A, Has.SPARSE):
        return sparse.csr_array(A.tosparse())
    if A.shape[1] > OPTIONS.dense:
        return None
    return sparse.csr_array(A.matvec(np.eye(A.shape[1])))


def _factorized(A: Array) -> tuple[Array, Array]:
    """Return the pseudo-inverse and an orthonormal basis of the null space."""
    length = np.linalg.norm(A, axis=1)
    length[length == 0] = 1.0
    left, values, right = linalg.svd(A / length[:, None], full_matrices=True)
    least = max(A.shape) * np.finfo(np.float64).eps * values.max(initial=0.0)
    rank = int((values > least).sum())
    inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T
    basis = np.ascontiguousarray(right[rank:].T)
    basis[np.linalg.norm(basis, axis=1) <= OPTIONS.fixed] = 0.0
    return inverse / length, basis


def _operator(A1: Any, A2: Any) -> LinearOperator:
    p, d = A1.shape[1], A2.shape[1]

    def apply(z: Array) -> Array:
        return cast(Array, A1.matvec(z[:p]) + A2.matvec(z[p:]))

    def back(u: Array) -> Array:
        return np.concatenate([A1.rmatvec(u), A2.rmatvec(u)])

    return LinearOperator(
        (A1.shape[0], p + d),
        matvec=apply,
        rmatvec=back,
        matmat=apply,
        rmatmat=back,
        dtype=np.float64,
    )


def _least_squares(matrix: Any, right: Array) -> Array:
    columns = right[:, None] if right.ndim == 1 else right
    found = [lsmr(matrix, c, atol=1e-15, btol=1e-15, maxiter=5000)[0] for c in columns.T]
    made = np.stack(found, axis=1)
    return cast(Array, made[:, 0] if right.ndim == 1 else made)
