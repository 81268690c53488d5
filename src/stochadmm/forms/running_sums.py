"""Differences along a line, undone by running sums.

With D the differences of order k, weighted row by row, ``D w = v`` has the solutions

    w = R v + N c,

R v the k-fold running sums of v, which begin with k zeros, and N the polynomials of degree below
k. R is never formed: ``R v`` and ``R' g`` take k sums of d numbers. Solving with D by elimination
would multiply rounding errors by d^k, and the Gram matrix of D looks singular from some hundred
columns on; running sums lose a factor of d.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from ..base.protocols import Array


@dataclass(frozen=True, eq=False)
class RunningSums:
    """A right inverse of differences of one order along some columns.

    Attributes
    ----------
    size : int
        Number of coefficients, those included that no difference sees.
    columns : array of int
        Coefficients along the line, in order.
    rows : array of int
        Rows of D that are not empty, in order along the line.
    order : int
        k, how many times differences are taken.
    scale : array
        What each of these rows is multiplied by.
    """

    size: int
    columns: Array
    rows: Array
    order: int
    scale: Array

    @classmethod
    def of(cls, D: Any) -> RunningSums | None:
        """Return the right inverse of a sparse matrix, None where it is no such difference.

        Examples
        --------
        >>> import numpy as np, stochadmm as sa
        >>> from stochadmm.forms.running_sums import RunningSums
        >>> D = sa.Differences(6, order=2).tosparse()
        >>> sums = RunningSums.of(D)
        >>> sums.apply_transposed(D.T @ np.array([1.0, 0.0, -2.0, 0.0]))
        array([ 1.,  0., -2.,  0.])
        """
        D = sparse.csr_array(D, copy=True)
        D.sum_duplicates()
        D.eliminate_zeros()
        widths = np.diff(D.indptr)
        rows = np.flatnonzero(widths)
        if not rows.size or (widths[rows] != widths[rows[0]]).any() or widths[rows[0]] < 2:
            return None
        order = int(widths[rows[0]]) - 1
        if order > 20:  # rounding of so many sums leaves nothing, and binomials overflow
            return None
        ends = D.indices.reshape(rows.size, order + 1)
        first = np.argsort(ends[:, 0], kind="stable")
        ends, values = ends[first], D.data.reshape(rows.size, order + 1)[first]
        columns = np.concatenate([ends[:, 0], ends[-1, 1:]])
        windows = np.lib.stride_tricks.sliding_window_view(columns, order + 1)
        stencil = np.array([(-1.0) ** (order - j) * comb(order, j) for j in range(order + 1)])
        scale = values[:, -1]
        if not (ends == windows).all() or not (values == scale[:, None] * stencil).all():
            return None
        return cls(D.shape[1], columns, rows[first], order, scale)

    def apply(self, v: Array) -> Array:
        """Return ``R v``: a solution of ``D w = v`` that begins with zeros.

        Examples
        --------
        >>> import numpy as np, stochadmm as sa
        >>> from stochadmm.forms.running_sums import RunningSums
        >>> RunningSums.of(sa.Differences(5, order=2).tosparse()).apply(np.array([1.0, 0.0, 2.0]))
        array([0., 0., 1., 2., 5.])
        """
        sums = (v.T / self.scale).T
        for _ in range(self.order):
            zero = np.zeros((1, *sums.shape[1:]))
            sums = np.concatenate([zero, np.cumsum(sums, axis=0)])
        out = np.zeros((self.size, *v.shape[1:]))
        out[self.columns] = sums
        return out

    def on_grid(self, w: Array, dtype: Any) -> Array:
        """Return w rounded so that ``D w`` is exact in a floating-point type.

        All sums are multiples of one power of two, as many as the type can count: where D w is
        nearly zero it is zero. Rounded differences add up, so that w moves by d^(k-1) units.

        Examples
        --------
        >>> import numpy as np, stochadmm as sa
        >>> from stochadmm.forms.running_sums import RunningSums
        >>> D, t = sa.Differences(1000, order=3).tosparse(), np.linspace(0, 1, 1000)
        >>> w = RunningSums.of(D).on_grid(t + t**2, np.float64)
        >>> bool(np.any(D @ (t + t**2))), bool(np.any(D @ w)), bool(np.ptp(w - t - t**2) < 1e-9)
        (True, False, True)
        """
        line = np.asarray(w[self.columns], dtype=np.float64)
        # the products with the binomials of D must be exact, too
        digits = np.finfo(dtype).nmant - self.order
        _, exponent = np.frexp(np.abs(line).max(axis=0, initial=0.0))
        unit = np.ldexp(1.0, exponent - digits)
        sums, firsts = np.asarray(line, np.longdouble), []
        for _ in range(self.order):
            firsts.append(np.rint(sums[:1] / unit))
            sums = np.diff(sums, axis=0)
        sums = np.rint(sums / unit)
        for first in reversed(firsts):
            sums = np.cumsum(np.concatenate([first, sums]), axis=0)
        out = np.array(w, dtype=dtype)
        out[self.columns] = sums * unit
        return out

    def apply_transposed(self, g: Array) -> Array:
        """Return ``R' g``: ``D' mu = g`` for this mu where g is orthogonal to N."""
        sums = g[self.columns]
        for _ in range(self.order):
            sums = np.cumsum(sums[:0:-1], axis=0)[::-1]
        return np.asarray((sums.T / self.scale).T)

    def largest_transposed(self, rho: Array) -> Array:
        """Return the most that ``|R' g|`` is for any ``|g| <= rho`` orthogonal to N.

        The sums may then begin at either end.
        """
        ends = []
        for sums in (rho[self.columns], rho[self.columns[::-1]]):
            for _ in range(self.order):
                sums = np.cumsum(sums[:0:-1], axis=0)[::-1]
            ends.append(sums)
        return np.asarray((np.minimum(ends[0], ends[1][::-1]).T / np.abs(self.scale)).T)

    def null_basis(self) -> Any:
        """Return N as sparse columns: coefficients of no difference, orthonormal polynomials."""
        alone = np.ones(self.size, dtype=bool)
        alone[self.columns] = False
        free = np.flatnonzero(alone)
        units = sparse.csc_array(
            (np.ones(free.size), (free, np.arange(free.size))), (self.size, free.size)
        )
        place = np.linspace(-1.0, 1.0, self.columns.size)
        lifted = np.zeros((self.size, self.order))
        powers = np.polynomial.legendre.legvander(place, self.order - 1)
        lifted[self.columns] = np.linalg.qr(powers)[0]
        return sparse.csc_array(sparse.hstack([units, sparse.csc_array(lifted)]))
