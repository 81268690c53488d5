"""The structure's own matrix L = S' sigma S, factored once.

Sigma puts the rows of different penalties into the same units (``_pieces``). Only the rows of S
count that a penalty sees. Where they leave directions free (an intercept, the mean of a graph) a
small multiple of the data's own diagonal makes L definite; the splitting treats it as further rows
of S without a penalty, so that nothing is changed by it but the way there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ..base.protocols import Array
from .options import OPTIONS, TiedOptions


class Factor(Protocol):
    """An inverse, ready to be multiplied with."""

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes."""

    def solve(self, right: Array) -> Array:
        """Return it times one or several right-hand sides."""


@dataclass(frozen=True)
class DiagonalFactor:
    """The inverse of a diagonal."""

    inverse: Array

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes."""
        return self.inverse.nbytes

    def solve(self, right: Array) -> Array:
        """Return it times one or several right-hand sides."""
        return right * (self.inverse if right.ndim == 1 else self.inverse[:, None])


@dataclass(frozen=True)
class SparseFactor:
    """A sparse factor with a symmetric ordering."""

    factor: Any = field(repr=False)

    @property
    def n_bytes(self) -> int:
        """Bytes that it takes."""
        return 12 * int(self.factor.nnz)

    def solve(self, right: Array) -> Array:
        """Return it times one or several right-hand sides."""
        return np.asarray(self.factor.solve(right))


@dataclass(frozen=True)
class Structure:
    """Rows of S that a penalty sees, and the factor of ``L = S' sigma S + diag(shift)``."""

    S: Any
    St: Any
    sigma: Array
    """Weights of the rows."""
    gram: Any = field(repr=False)
    shift: Array | None
    """What makes L definite, None where S'S is."""
    factor: Factor = field(repr=False)
    options: TiedOptions = OPTIONS

    @classmethod
    def of(
        cls,
        S: Any,
        seen: Array,
        sigma: Array,
        diagonal: Array,
        share: float,
        options: TiedOptions = OPTIONS,
    ) -> Structure:
        """Factor the rows of S that are seen.

        ``diagonal`` is that of the data's Hessian; ``share`` times it, in units of L, is added
        where S'S may be singular.
        """
        rows = sparse.csr_array(sparse.diags_array(seen.astype(np.float64)) @ S)
        rows.eliminate_zeros()
        turned = sparse.csr_array(rows.T)
        gram = sparse.csr_array(turned @ (sparse.diags_array(sigma) @ rows))
        free = free_columns(rows, gram)
        shift = _shift(gram.diagonal(), diagonal, share, free) if free.any() else None
        factor = _factor(_whole(gram, shift))
        return cls(rows, turned, sigma, gram, shift, factor, options)

    def __recipe__(self) -> tuple[Any, ...]:
        return self.S, self.St, self.sigma, self.gram, self.shift, self.options

    @classmethod
    def __made__(
        cls,
        S: Any,
        St: Any,
        sigma: Array,
        gram: Any,
        shift: Array | None,
        options: TiedOptions,
        **_: Any,
    ) -> Structure:
        return cls(S, St, sigma, gram, shift, _factor(_whole(gram, shift)), options)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__made__, self.__recipe__()  # a factor can only be made again

    @property
    def n_bytes(self) -> int:
        """Bytes of the factor and of the sparse matrices."""
        own = sum(int(m.data.nbytes + m.indices.nbytes) for m in (self.S, self.St, self.gram))
        return own + self.factor.n_bytes

    def solve(self, right: Array) -> Array:
        """Return ``L^-1 right`` for one or several right-hand sides."""
        return self.factor.solve(right)

    def absorb(self, residual: Array, exact: bool = True) -> Array:
        """Return the smallest change of the multiplier with ``S' change = residual``.

        Smallest in units of sigma. Conjugate gradients with L in front take back what the shift,
        or rounding, has left; one step of them where there is no shift. What rounding leaves stays
        unless it is to be ``exact``.
        """
        y = self.solve(residual)
        if not exact and self.shift is None:
            return np.asarray(self.sigma * (self.S @ y))
        left = residual - self.gram @ y
        best, least = y, _norm(left)
        done = 1e-13 * _norm(residual)  # a few hundred units of rounding
        step, before, stalled = np.zeros_like(y), np.inf, 0
        for _ in range(1 if self.shift is None else self.options.corrections):
            if least <= done:
                break
            ahead = self.solve(left)
            now = float(left @ ahead)
            step = ahead + (now / before) * step
            bent = self.gram @ step
            curvature = float(step @ bent)
            if not curvature > 0:
                break
            y, left = y + (now / curvature) * step, left - (now / curvature) * bent
            size, before, stalled = _norm(left), now, stalled + 1
            if size < least:
                best, least, stalled = y, size, 0
            if stalled > self.options.stalled:
                break
        return np.asarray(self.sigma * (self.S @ best))


def free_columns(rows: Any, gram: Any) -> Array:
    """Return the columns along which a direction may be free.

    Those of a component in which no row has one entry only; where rows have three entries or
    more, all columns without such a row.
    """
    sizes = np.diff(rows.indptr)
    own = np.zeros(rows.shape[1], dtype=bool)
    own[rows.indices[rows.indptr[:-1][sizes == 1]]] = True
    if own.all() or sizes.max(initial=0) > 2:
        return ~own
    count, label = connected_components(gram, directed=False)
    held = np.zeros(count, dtype=bool)
    held[label[own]] = True
    return ~held[label]


def _shift(structure: Array, data: Array, share: float, free: Array) -> Array:
    """Return a share of the data's diagonal in units of the structure's, on free columns."""
    touched = structure > 0
    mean = float(data[touched].mean()) if touched.any() else 0.0
    if mean <= 0:
        return np.where(free, share, 0.0)
    unit = float(structure[touched].mean()) / mean
    return np.where(free, share * unit * np.maximum(data, 1e-3 * mean), 0.0)


def _whole(gram: Any, shift: Array | None) -> Any:
    """Return L."""
    return sparse.csc_array(gram if shift is None else gram + sparse.diags_array(shift))


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))


def _factor(L: Any) -> Factor:
    """Return the inverse of a diagonal as it is, else a factor."""
    diagonal = L.diagonal()
    if L.nnz == np.count_nonzero(diagonal):
        return DiagonalFactor(1.0 / diagonal)
    options = {"SymmetricMode": True}
    return SparseFactor(
        splu(L, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    )
