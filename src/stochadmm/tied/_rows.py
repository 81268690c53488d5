"""Few rows as a correction of the structure's factor (Sherman, Morrison, Woodbury)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..finite_sum import FiniteSum
from ..protocols import Array
from ._structure import Structure


@dataclass(frozen=True)
class FewRows:
    """``B = X L^-1`` and ``K = X L^-1 X'``, with the intercept's column of ones in X.

    For curvatures D of the rows and a penalty rho of the splitting,

        (X'D X + rho L)^-1 r = (L^-1 r - B' G B r) / rho,     G = (rho D^-1 + K)^-1

    and the predictions of that are ``(B r - K G B r) / rho``: the data itself is not read again.
    """

    structure: Structure
    B: Array = field(repr=False)
    K: Array = field(repr=False)

    @classmethod
    def of(cls, f2: FiniteSum, structure: Structure) -> FewRows:
        """Solve with the factor once per row."""
        X = wide_rows(f2)
        B = np.ascontiguousarray(structure.solve(np.ascontiguousarray(X.T)).T)
        K = X @ B.T
        return cls(structure, B, 0.5 * (K + K.T))

    @property
    def n_bytes(self) -> int:
        """Bytes of both matrices."""
        return self.B.nbytes + self.K.nbytes

    def at(self, curvature: Array, rho: float) -> System:
        """Return the solver for curvatures of the rows, weights and 1/n included."""
        root = np.sqrt(curvature)
        inner = root[:, None] * self.K * root
        # rounding must not take what the penalty adds
        inner.flat[:: len(root) + 1] += max(rho, 1e-14 * float(np.trace(inner)) / len(root))
        return System(self, root, rho, cho_factor(inner, lower=True, overwrite_a=True))


@dataclass(frozen=True)
class System:
    """Solves ``(X'D X + rho L) x = r`` for one D and rho."""

    rows: FewRows
    root: Array
    rho: float
    factor: Any = field(repr=False)

    def solve(self, right: Array) -> tuple[Array, Array]:
        """Return the solution and its predictions."""
        B, K, root = self.rows.B, self.rows.K, self.root
        seen = B @ right
        c = root * cho_solve(self.factor, root * seen, check_finite=False)
        x = self.rows.structure.solve(right) - B.T @ c
        return x / self.rho, (seen - K @ c) / self.rho


def wide_rows(f2: FiniteSum) -> Array:
    """Return the rows in float64 as a dense matrix, with the intercept's column of ones."""
    X: Any = f2.X
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    dense = dense.astype(np.float64, copy=False)
    if f2.intercept:
        dense = np.hstack([dense, np.ones((f2.n_terms, 1))])
    return cast(Array, dense)
