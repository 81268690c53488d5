"""The rows' part of the systems ``(X'D X + rho L) x = r``, L the structure's own matrix.

Few rows are a correction of the factor of L (Sherman, Morrison, Woodbury). With many rows the
matrix is made and factored as a whole; it only shapes the splitting, so that it may be that of an
earlier point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrs

from ..base.protocols import Array
from ..forms.structure import Structure as StructureMatrix
from ..risk import FiniteSum
from ..risk.parts import dense_rows
from ._structure import Structure
from .options import TiedOptions


class System(Protocol):
    """One matrix, ready to be solved with."""

    def solve(self, right: Array) -> Array:
        """Return the solution."""


class Model(Protocol):
    """The Hessian of the data term for one D."""

    def product(self, w: Array, predictions: Array) -> Array:
        """Return it times w, whose predictions (without offset) are known."""

    def at(self, rho: float) -> System:
        """Return the system of a penalty of the splitting."""


class Rows(Protocol):
    """What the splitting needs of the rows."""

    costly: ClassVar[bool]
    """Whether a model is worth keeping."""

    @property
    def structure(self) -> Structure:
        """The factored structure."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrices."""

    def model(self, curvature: Array) -> Model:
        """Return the model for curvatures of the rows, weights and 1/n included."""


# ---------------------------------------------------------------- few rows


@dataclass(frozen=True)
class FewRows:
    """``B = X L^-1`` and ``K = X L^-1 X'``, with the intercept's column of ones in X.

    For curvatures D of the rows and a penalty rho of the splitting,

        (X'D X + rho L)^-1 r = (L^-1 r - B' G B r) / rho,     G = (rho D^-1 + K)^-1

    so that the data itself is not read again.
    """

    costly: ClassVar[bool] = False
    f2: FiniteSum = field(repr=False)
    structure: Structure
    B: Array = field(repr=False)
    K: Array = field(repr=False)

    @classmethod
    def of(cls, f2: FiniteSum, structure: Structure) -> FewRows:
        """Solve with the factor once per row."""
        X = dense_rows(f2)
        B = np.ascontiguousarray(structure.solve(np.ascontiguousarray(X.T)).T)
        K = X @ B.T
        return cls(f2, structure, B, 0.5 * (K + K.T))

    def __recipe__(self) -> tuple[Any, ...]:
        return self.f2, self.structure

    @classmethod
    def __made__(cls, *given: Any, **_: Any) -> FewRows:
        return cls.of(*given)

    @property
    def n_bytes(self) -> int:
        """Bytes of both matrices."""
        return self.B.nbytes + self.K.nbytes

    def model(self, curvature: Array) -> FewModel:
        """Return the model for curvatures of the rows, weights and 1/n included."""
        return FewModel(self, curvature)


@dataclass(frozen=True)
class FewModel:
    """The model of few rows."""

    rows: FewRows
    curvature: Array

    def product(self, w: Array, predictions: Array) -> Array:
        """Return ``X'D X w``."""
        return self.rows.f2.pull_back(self.curvature * predictions)

    def at(self, rho: float) -> FewSystem:
        """Return the system of a penalty of the splitting."""
        root = np.sqrt(self.curvature)
        inner = root[:, None] * self.rows.K * root
        # rounding must not take what the penalty adds
        inner.flat[:: len(root) + 1] += max(rho, 1e-14 * float(np.trace(inner)) / len(root))
        return FewSystem(self.rows, root, rho, cho_factor(inner, lower=True, overwrite_a=True))


@dataclass(frozen=True)
class FewSystem:
    """A correction of the factor of L."""

    rows: FewRows
    root: Array
    rho: float
    factor: Any = field(repr=False)

    def solve(self, right: Array) -> Array:
        """Return the solution."""
        B, root = self.rows.B, self.root
        # without the checks of cho_solve, which cost as much as a few hundred rows
        c = root * dpotrs(self.factor[0], root * (B @ right), lower=self.factor[1])[0]
        return np.asarray((self.rows.structure.solve(right) - B.T @ c) / self.rho)


# ---------------------------------------------------------------- many rows


@dataclass(frozen=True)
class ManyRows:
    """Rows whose square matrix is made, in float32 products: one read, n d^2 operations."""

    costly: ClassVar[bool] = True
    f2: FiniteSum = field(repr=False)
    structure: Structure

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix and of its factor."""
        return 2 * 8 * self.f2.n_columns**2

    def model(self, curvature: Array) -> ManyModel:
        """Return the model for curvatures of the rows, weights and 1/n included."""
        H = self.f2.rows.sandwich(curvature, ones=self.f2.intercept, single=True)
        # makes up for the rounding of products in float32
        H.flat[:: len(H) + 1] += 1e-6 * float(np.trace(H)) / len(H)
        return ManyModel(self, H)


@dataclass(frozen=True)
class ManyModel:
    """The square matrix of many rows."""

    rows: ManyRows
    H: Array = field(repr=False)

    def product(self, w: Array, predictions: Array) -> Array:
        """Return the matrix times w."""
        return self.H @ w

    def at(self, rho: float) -> ManySystem:
        """Return the system of a penalty of the splitting."""
        structure = self.rows.structure
        L = sparse.coo_array(structure.gram)
        matrix = self.H.copy()
        matrix[L.coords] += rho * L.data
        if structure.shift is not None:
            matrix.flat[:: len(matrix) + 1] += rho * structure.shift
        return ManySystem(cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False))


@dataclass(frozen=True)
class ManySystem:
    """A dense factor."""

    factor: Any = field(repr=False)

    def solve(self, right: Array) -> Array:
        """Return the solution."""
        return np.asarray(cho_solve(self.factor, right, check_finite=False))


def factored_rows(
    f2: FiniteSum,
    energy: Array,
    of: StructureMatrix,
    seen: bytes,
    sigma: bytes,
    share: float,
    few: bool,
    options: TiedOptions,
) -> Rows:
    """Return the rows with the factor of their structure, of the rows of it that are seen.

    ``energy`` are the means of squares of the columns. Masks and weights are bytes, so
    that a workspace knows them by value.
    """
    mask, weights = np.frombuffer(seen, dtype=bool), np.frombuffer(sigma)
    structure = Structure.of(of.S, mask, weights, energy, share, options)
    return FewRows.of(f2, structure) if few else ManyRows(f2, structure)
