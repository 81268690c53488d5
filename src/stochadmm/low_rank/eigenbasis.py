"""The quadratic of the penalized coefficients, free ones eliminated, in its eigenbasis.

Minimizing over the free rows (an intercept, unpenalized columns) leaves a quadratic of the same
kind in the others: Schur complements. Its resolvent is diagonal in an orthonormal basis, one
per pattern of targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base.protocols import Array
from ..base.serialize import CACHE
from ..risk.moments import Moments


@dataclass
class EigenQuadratic:
    """``constant - <linear, W> + 1/2 sum_c <w_c, B_c w_c>`` of the penalized rows."""

    matrices: Array
    """B, one per pattern: (m, p, p)."""
    vectors: Array
    values: Array
    """Eigenvectors and eigenvalues >= 0 of each."""
    outputs: list[Array]
    linear: Array
    constant: float
    back: list[tuple[Array, Array]] = field(repr=False)
    """Free rows of each pattern as ``level - derivative @ W``."""
    doubt: float = 1.0
    """Times by which the elimination of the free rows may have enlarged rounding."""
    _inverse: tuple[float, Array] | None = field(default=None, repr=False, metadata=CACHE)

    @property
    def mean_eigenvalue(self) -> float:
        """The mean curvature over all outputs."""
        sizes = np.array([those.size for those in self.outputs], dtype=np.float64)
        return float(sizes @ self.values.mean(axis=1)) / float(sizes.sum())

    def value(self, W: Array) -> float:
        """Return the data term, minimized over the free rows."""
        return self.constant + float(np.vdot(W, 0.5 * self.apply(W) - self.linear))

    def apply(self, W: Array) -> Array:
        """Return B W."""
        return self._product(self.matrices, W)

    def solve(self, R: Array, shift: float) -> Array:
        """Return ``(B + shift)^-1 R``."""
        return self._product(self.inverse(shift), R)

    def inverse(self, shift: float) -> Array:
        """Return ``(B + shift)^-1``, one matrix per pattern; that of the last shift is kept."""
        if self._inverse is None or self._inverse[0] != shift:
            scaled = self.vectors / (self.values[:, None, :] + shift)
            self._inverse = shift, scaled @ self.vectors.transpose(0, 2, 1)
        return self._inverse[1]

    def squares(self, R: Array) -> Array:
        """Return the squared norms of R along the eigenvectors of each pattern: (m, p)."""
        out = np.empty(self.values.shape)
        for k, those in enumerate(self.outputs):
            rotated = self.vectors[k].T @ (R if len(self.outputs) == 1 else R[:, those])
            out[k] = np.einsum("ij,ij->i", rotated, rotated)
        return out

    def free(self, W: Array) -> Array:
        """Return the free rows that belong to W."""
        if len(self.outputs) == 1:
            return np.asarray(self.back[0][0] - self.back[0][1] @ W)
        out = np.empty((len(self.back[0][0]), W.shape[1]))
        for (level, derivative), those in zip(self.back, self.outputs, strict=True):
            out[:, those] = level - derivative @ W[:, those]
        return out

    def _product(self, matrices: Array, W: Array) -> Array:
        if len(matrices) == 1:
            whole: Array = matrices[0] @ W
            return whole
        out = np.empty_like(W)
        if len(matrices) == W.shape[1]:  # every output has its own
            order = np.concatenate(self.outputs)
            out[:, order] = (matrices @ W.T[order][:, :, None])[:, :, 0].T
            return out
        for matrix, those in zip(matrices, self.outputs, strict=True):
            out[:, those] = matrix @ W[:, those]
        return out


def reduced(
    moments: Moments, rows: Array, free: Array, turns: list[Array] | None = None
) -> EigenQuadratic:
    """Eliminate the free rows and diagonalize what is left.

    ``turns`` are the matrices, one per pattern, that the free rows are to be multiplied by
    (`risk.moments.in_free_bases`).
    """
    p, m = rows.size, len(moments.matrices)
    matrices, linear = np.empty((m, p, p)), moments.linear[rows].copy()
    constant = moments.constant
    back: list[tuple[Array, Array]] = []
    doubt = 1.0
    for k, (B, those) in enumerate(zip(moments.matrices, moments.outputs, strict=True)):
        matrices[k] = B[np.ix_(rows, rows)]
        own = moments.linear[np.ix_(free, those)]
        inverse, least = _pseudo_inverse(B[np.ix_(free, free)])
        doubt = max(doubt, 1 / least)
        level, derivative = inverse @ own, inverse @ B[np.ix_(free, rows)]
        matrices[k] -= B[np.ix_(rows, free)] @ derivative
        matrices[k] = 0.5 * (matrices[k] + matrices[k].T)
        linear[:, those] -= derivative.T @ own
        constant -= 0.5 * float(np.vdot(own, level))
        turn = np.eye(free.size) if turns is None else turns[k]
        back.append((turn @ level, turn @ derivative))
    values, vectors = np.linalg.eigh(matrices)
    return EigenQuadratic(
        matrices,
        vectors,
        np.maximum(values, 0.0),
        moments.outputs,
        linear,
        max(constant, 0.0),
        back,
        doubt,
    )


def _pseudo_inverse(matrix: Array) -> tuple[Array, float]:
    """Return the pseudo-inverse of a symmetric matrix, and its least eigenvalue above rounding.

    Eigenvalues are those at a unit diagonal.
    """
    if not matrix.size:
        return matrix, 1.0
    scale = 1 / np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    # of a unit diagonal, what is left of nothing by rounding is below this
    kept = values > 1e-13 * max(float(values[-1]), 0.0)
    half = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return half @ half.T, float(values[kept].min(initial=1.0))
