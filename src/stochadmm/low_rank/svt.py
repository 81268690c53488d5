"""Singular values: soft thresholding through the smaller Gram matrix, norms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from ..base.protocols import Array


@dataclass
class SingularValueThreshold:
    """The prox of the nuclear norm for a sequence of matrices that change little.

    Only the eigenpairs of the smaller Gram matrix above the threshold are needed; how many there
    were last time says which routine of LAPACK finds them sooner.
    """

    rank: int | None = None
    side: int = 64
    """Rows of a Gram matrix from which on a part of its eigenpairs is cheaper than all of them,"""
    few: float = 0.4
    """up to this share of them."""

    def __call__(self, V: Array, threshold: float) -> tuple[Array, Array]:
        """Return the prox of ``threshold |.|_*`` at V and its positive singular values."""
        tall = V.shape[0] >= V.shape[1]
        squares, vectors = self._above(V.T @ V if tall else V @ V.T, threshold)
        self.rank = squares.size
        if not squares.size:
            return np.zeros_like(V), squares
        values = np.sqrt(squares)
        kept = values - threshold
        factors = vectors * (kept / values)
        Z = (V @ factors) @ vectors.T if tall else factors @ (vectors.T @ V)
        return Z, kept

    def _above(self, gram: Array, threshold: float) -> tuple[Array, Array]:
        """Return the eigenpairs of a Gram matrix whose root is above a threshold."""
        side, least = len(gram), float(threshold) * float(threshold)  # may be infinite
        few = self.rank is not None and self.rank <= self.few * side
        if few and side >= self.side and least < np.inf:
            try:
                some = linalg.eigh(gram, subset_by_value=(least, np.inf), check_finite=False)
                return some[0], some[1]
            except linalg.LinAlgError:  # bisection gives up on clustered eigenvalues
                pass
        squares, vectors = np.linalg.eigh(gram)
        first = int(np.searchsorted(squares, least, side="right"))
        return squares[first:], vectors[:, first:]


@dataclass(frozen=True)
class NuclearProx:
    """The prox of a nuclear norm by eigenpairs of Gram matrices."""

    alpha: float
    threshold: SingularValueThreshold = field(default_factory=SingularValueThreshold)

    def __call__(self, V: Array, step: float) -> Array:
        """Return the prox of ``step alpha |.|_*`` at V."""
        return self.threshold(V, self.alpha * step)[0]


def spectral_norm(M: Array) -> float:
    """Return the largest singular value; the largest eigenvalue of a Gram matrix is accurate."""
    gram = M.T @ M if M.shape[0] >= M.shape[1] else M @ M.T
    return float(np.sqrt(max(np.linalg.eigvalsh(gram)[-1], 0.0)))


def nuclear_norm(M: Array) -> float:
    """Return the sum of the singular values, without squaring the matrix or its zero rows."""
    filled = M[M.any(axis=1)]
    return float(linalg.svdvals(filled, check_finite=False).sum()) if filled.size else 0.0


def nuclear_norm_by_gram(M: Array) -> float:
    """Return the sum of the singular values to about seven digits, in a fraction of the time."""
    short: Array = M.astype(np.float64) if M.shape[0] >= M.shape[1] else M.T.astype(np.float64)
    return float(np.sqrt(np.maximum(np.linalg.eigvalsh(short.T @ short), 0.0)).sum())
