"""Differences of neighbors along a line and on grids."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.immutable import as_float, frozen, set_field, store
from ..base.protocols import Array
from ._base import LinearMap, SparseMap, csr, sparse_norm2


@dataclass(frozen=True, eq=False)
class Differences(LinearMap):
    """Differences of consecutive rows, ``np.diff(x, order, axis=0)``.

    Order 1 with an l1 penalty gives steps, order 2 broken lines, order 3 parabolas.

    Parameters
    ----------
    n : int
        Number of columns.
    order : int
        How many times differences are taken. There are no rows unless it is less than n.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Differences
    >>> Differences(4) @ np.array([0.0, 1.0, 4.0, 9.0])
    array([1., 3., 5.])
    >>> Differences(4, order=2) @ np.array([0.0, 1.0, 4.0, 9.0])
    array([2., 2.])
    """

    n: int
    order: int = 1

    def __post_init__(self) -> None:
        if self.n < 1 or self.order < 1:
            raise ValueError(
                f"n and order must be at least 1, got n={self.n} and order={self.order}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.n - self.order, 0), self.n

    @property
    def norm2(self) -> float:
        if not self.shape[0]:
            return 0.0
        norm2 = 1.0
        for n in range(self.n, self.n - self.order, -1):
            norm2 *= 2.0 + 2.0 * np.cos(np.pi / n)
        return norm2 * (1.0 + 1e-14)

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        x = as_float(x)
        for _ in range(self.order - 1):
            x = x[1:] - x[:-1]
        return np.subtract(x[1:], x[:-1], out=out)

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        u = as_float(u)
        if not len(u):
            return store(np.zeros((self.n, *u.shape[1:]), dtype=u.dtype), out)
        for _ in range(self.order - 1):
            u = _adjoint(u, None)
        return _adjoint(u, out)

    def csr_parts(self) -> tuple[Array, Array, Array]:
        rows, width = self.shape[0], self.order + 1
        values = [float((-1) ** (self.order - j) * comb(self.order, j)) for j in range(width)]
        columns = np.arange(rows, dtype=np.int32)[:, None] + np.arange(width, dtype=np.int32)
        pointers = np.arange(0, rows * width + 1, width, dtype=np.int32)
        return pointers, columns.ravel(), np.tile(values, rows)

    def tosparse(self) -> Any:
        """Return the operator as a CSR array in float64."""
        pointers, columns, values = self.csr_parts()
        return sparse.csr_array((values, columns, pointers), shape=self.shape)


def _adjoint(u: Array, out: Array | None) -> Array:
    out = np.empty((len(u) + 1, *u.shape[1:]), dtype=u.dtype) if out is None else out
    np.negative(u[0], out=out[:1] if u.ndim == 1 else out[0])
    np.subtract(u[:-1], u[1:], out=out[1:-1])
    out[-1] = u[-1]
    return out


@dataclass(frozen=True, eq=False)
class GridDifferences(SparseMap):
    """Differences of neighbors along every axis of a grid, one axis after the other.

    Cells are counted in C order, as in ``image.ravel()``.

    Parameters
    ----------
    grid : tuple of int
        Cells along each axis.
    order : int
        How many times differences are taken along an axis.
    mask : array of bool, optional
        Cells that exist. The columns are then the cells inside the mask, in C order, and a row
        exists only where all its cells do.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import GridDifferences
    >>> GridDifferences((2, 2)) @ np.array([0.0, 1.0, 10.0, 11.0])
    array([10., 10.,  1.,  1.])
    >>> GridDifferences((2, 2), mask=np.array([[True, True], [True, False]])).shape
    (2, 3)
    """

    grid: tuple[int, ...]
    order: int = 1
    mask: ArrayLike | None = None

    def __post_init__(self) -> None:
        grid = tuple(int(n) for n in self.grid)
        if not grid or min(grid) < 1:
            raise ValueError(f"a grid needs at least one cell along every axis, got {grid}")
        set_field(self, "grid", grid)
        if self.order < 1:
            raise ValueError(f"order must be at least 1, got {self.order}")
        if self.mask is not None:
            mask = np.asarray(self.mask)
            if mask.shape != grid or mask.dtype != bool:
                raise ValueError(
                    f"mask must be boolean of shape {grid}, got {mask.dtype} of shape {mask.shape}"
                )
            set_field(self, "mask", frozen(mask, bool))
        self._settle(self._build())

    def _cells(self) -> Array:
        """Column of every cell, -1 outside the mask."""
        if self.mask is None:
            return np.arange(int(np.prod(self.grid))).reshape(self.grid)
        mask = np.asarray(self.mask)
        return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)

    def _stencils(self, cells: Array) -> Array:
        """Columns of the cells of every row, ``order + 1`` each."""
        rows = []
        for axis, n in enumerate(self.grid):
            if n > self.order:
                moved = np.moveaxis(cells, axis, -1)
                windows = np.lib.stride_tricks.sliding_window_view(moved, self.order + 1, axis=-1)
                windows = np.moveaxis(windows, -2, axis)  # rows in C order of the cells
                rows.append(windows.reshape(-1, self.order + 1))
        stencils = np.concatenate(rows) if rows else np.empty((0, self.order + 1), dtype=np.intp)
        return stencils[(stencils >= 0).all(axis=1)]

    def _build(self) -> Any:
        cells, k = self._cells(), self.order
        stencils = self._stencils(cells)
        values = [float((-1) ** (k - j) * comb(k, j)) for j in range(k + 1)]
        data = np.tile(values, len(stencils))
        rows = np.repeat(np.arange(len(stencils)), k + 1)
        return csr(data, rows, stencils.ravel(), (len(stencils), int(cells.max()) + 1))

    @property
    def norm2(self) -> float:
        total = sum(Differences(n, self.order).norm2 for n in self.grid)
        if self.mask is None:
            return total
        return min(total, sparse_norm2(self.tosparse()))
