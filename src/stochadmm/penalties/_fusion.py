"""Total variation along the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has
from ..base.immutable import as_float, store
from ..base.protocols import Array, Shape
from ..base.terms import Term, TotalVariation
from ._base import ALWAYS, GUARD, Part, check_alpha, eps
from ._elementwise import L1


@dataclass(frozen=True)
class TotalVariation1D(Part):
    """Total variation of every column, ``alpha sum_j |x_{j+1} - x_j|``.

    The prox is exact and takes time linear in the number of rows (see
    ``stochadmm.kernels.tv``).

    Parameters
    ----------
    alpha : float
        Strength.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import TotalVariation1D
    >>> TotalVariation1D(1.0).prox(np.array([0.0, 1.0, 8.0, 9.0]), 1.0)
    array([1., 1., 8., 8.])
    """

    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    capabilities = ALWAYS | {Has.TERMS, Has.UNFOLDED}

    def value(self, x: Array) -> float:
        """Return h(x) in float64."""
        return self.alpha * float(np.abs(np.diff(np.asarray(x, np.float64), axis=0)).sum())

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + |u - v|^2 / (2 step)``, with ``step`` one positive number."""
        if np.ndim(step) != 0 and np.ptp(step) != 0:
            raise ValueError("TotalVariation1D takes one step for the block, got different ones")
        from ..kernels.tv import fuse_columns

        v = as_float(v)
        result = np.empty_like(v, order="C")
        columns = (-1, 1) if v.ndim == 1 else v.shape
        threshold = float(np.max(step)) * self.alpha
        fuse_columns(np.ascontiguousarray(v).reshape(columns), threshold, result.reshape(columns))
        return store(result, out)

    def conjugate(self, u: Array) -> float:
        """Return 0 in the domain and ``inf`` outside.

        The domain holds the ``u`` whose columns sum to zero and whose running sums are at most
        ``alpha`` in size. The rounding of the entries (four units, in the dtype of ``u``) and of
        the running sums is forgiven.
        """
        u = as_float(u)
        sums, slack = self._running(u)
        if (np.abs(sums[-1:]) > slack).any():
            return np.inf
        return np.inf if (np.abs(sums[:-1]) > self.alpha + slack).any() else 0.0

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``: 0 off zero sums."""
        u = as_float(u)
        sums, slack = self._running(u)
        if (np.abs(sums[-1:]) > slack).any():
            return 0.0
        largest = float(np.abs(sums[:-1]).max(initial=0.0))
        return 1.0 if largest <= self.alpha else self.alpha / largest

    @staticmethod
    def _running(u: Array) -> tuple[Array, Array]:
        wide = u.astype(np.float64)
        sums = np.cumsum(wide, axis=0)
        spread = np.sqrt(len(u)) * np.abs(sums).max(axis=0, initial=0.0)
        return sums, eps(u) * (GUARD * np.abs(wide).sum(axis=0) + spread)

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate: ``u`` minus its prox.

        Rebuilt from its clipped running sums, which makes it sum to zero again after rounding.
        """
        u = as_float(u)
        wide = u.astype(np.float64)
        sums = np.cumsum(wide - self.prox(wide, 1.0), axis=0)
        np.clip(sums, -self.alpha, self.alpha, out=sums)
        sums[-1:] = 0.0
        return np.diff(sums, axis=0, prepend=0.0).astype(u.dtype, copy=False)

    def zeros(self, x: Array) -> Array:
        """Return no entry: fusion makes rows equal, not zero."""
        return np.zeros(np.shape(x), dtype=bool)

    def check(self, shape: Shape) -> None:
        """Accept any shape."""

    def unfolded(self, n_rows: int) -> tuple[Any, L1]:
        """Return differences and the l1 norm of them."""
        ones: Any = np.ones(max(n_rows - 1, 0))
        D = sparse.diags_array([-ones, ones], offsets=[0, 1], shape=(ones.size, n_rows))
        return sparse.csr_array(D), L1(self.alpha)

    def terms(self, n_rows: int) -> list[Term]:
        """Return the numbers for compiled loops."""
        return [TotalVariation(n_rows, float(self.alpha))]
