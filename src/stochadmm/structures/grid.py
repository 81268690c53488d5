"""Grids of pixels or voxels, whole or inside a mask, as graphs of features."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.immutable import ByValue, frozen, set_field
from ..base.protocols import Array
from ..base.validation import is_whole
from ..operators import GridDifferences


@dataclass(frozen=True, eq=False, repr=False)
class Grid(ByValue):
    """The pixels of an image, or the voxels of a volume, joined to their neighbors.

    Features are the cells inside the mask, in C order: ``X = images[:, mask]``.

    Parameters
    ----------
    shape : int or tuple of int
        Cells along each axis; one axis is a chain.
    mask : boolean array of that shape, optional
        Cells that are features; all by default. It may consist of several parts.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import Grid
    >>> grid = Grid((2, 3), mask=[[True, True, False], [True, True, True]])
    >>> grid, grid.n_nodes
    (Grid((2, 3), mask=<5 of 6 cells>), 5)
    >>> grid.operator.shape  # neighbors, features
    (5, 5)
    >>> grid.image([1.0, 2.0, 3.0, 4.0, 5.0])
    array([[ 1.,  2., nan],
           [ 3.,  4.,  5.]])
    """

    shape: Any
    mask: Any = None

    def __post_init__(self) -> None:
        shape = tuple(np.ravel(np.asarray(self.shape, dtype=object)))
        if not shape or not all(is_whole(k) and k >= 1 for k in shape):
            raise ValueError(
                f"shape is {self.shape!r}, expected integers >= 1, one per axis, as in (28, 28)"
            )
        set_field(self, "shape", tuple(int(k) for k in shape))
        if self.mask is None:
            return
        mask = np.asarray(self.mask)
        if mask.dtype != bool or mask.shape != self.shape or not mask.any():
            raise ValueError(
                f"mask has shape {mask.shape} and type {mask.dtype}, expected booleans of shape "
                f"{self.shape}, true at the cells that are features"
            )
        set_field(self, "mask", frozen(mask, bool))

    def __repr__(self) -> str:
        inside = (
            "" if self.mask is None else f", mask=<{self.n_nodes} of {prod(self.shape)} cells>"
        )
        return f"Grid({self.shape}{inside})"

    @property
    def n_nodes(self) -> int:
        """Cells inside the mask."""
        return prod(self.shape) if self.mask is None else int(np.count_nonzero(self.mask))

    @property
    def operator(self) -> GridDifferences:
        """Differences of neighbors, one row per pair along an axis."""
        return GridDifferences(self.shape, mask=self.mask)

    def image(self, values: ArrayLike, fill: float = np.nan) -> Array:
        """Return one value per feature at its place in the grid, ``fill`` outside the mask."""
        values = np.asarray(values)
        if values.shape != (self.n_nodes,):
            raise ValueError(f"values have shape {values.shape}, expected ({self.n_nodes},)")
        if self.mask is None:
            return values.reshape(self.shape)
        out = np.full(self.shape, fill, dtype=np.result_type(values, type(fill)))
        out[self.mask] = values
        return out
