"""Rows stored as float16, worked on as float32: wide copies of some at a time, never of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ._dense import DenseRows


def half_rows(X: Any) -> HalfRows | None:
    """Return a memory map of float16 as rows that are read in place, None for any other X."""
    mapped = isinstance(X, np.memmap) and X.dtype == np.float16 and X.ndim == 2
    return HalfRows(X) if mapped else None


@dataclass(frozen=True, eq=False)
class HalfRows(DenseRows):
    """An array or memory map of float16 of shape (n, d), read in place.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.data import HalfRows
    >>> rows = HalfRows(np.ones((3, 2), dtype=np.float16))
    >>> rows.dtype, rows.n_bytes, rows.matvec(np.array([1.0, 2.0]))
    (dtype('float32'), 12, array([3., 3., 3.]))
    """

    has_view: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.X.dtype != np.float16 or self.X.ndim != 2:
            raise ValueError(
                f"X has dtype {self.X.dtype} and {self.X.ndim} dimension(s), expected a matrix of "
                "float16; pass other rows as they are"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """What is worked in: float32, which holds every number of float16."""
        return np.dtype(np.float32)

    def take(self, rows: Any) -> DenseRows:
        """Return a wide copy of some rows."""
        taken = DenseRows(np.asarray(self.X[rows], dtype=np.float32))
        self.tally.add(len(taken.X))
        return taken

    def columns(self, index: NDArray[np.intp]) -> DenseRows:
        self.note_all()
        return HalfRows(np.take(self.X, index, axis=1))

    def matvec(self, v: Array) -> Array:
        out = np.empty((self.shape[0], *v.shape[1:]), dtype=np.result_type(self.dtype, v.dtype))
        for rows, block in self.blocks():
            out[rows] = block.X @ v
        return out

    def rmatvec(self, u: Array) -> Array:
        """Return ``X' u``, added up in float64."""
        total = np.zeros((self.shape[1], *u.shape[1:]))
        for rows, block in self.blocks():
            total += block.X.T @ u[rows]
        return total.astype(np.result_type(self.dtype, u.dtype), copy=False)

    def row_norms2(self) -> Array:
        out = np.empty(self.shape[0], dtype=np.float32)
        for rows, block in self.blocks():
            out[rows] = np.einsum("ij,ij->i", block.X, block.X)
        return out

    def dense(self, dtype: Any = np.float64) -> Array:
        """Return a wide copy of all rows."""
        self.note_all()
        return self.X.astype(dtype)

    def changed(self, shift: Array | None, scale: Array | None) -> DenseRows:
        """Return a copy with ``(x_ij - shift_j) scale_j``, in float32."""
        return DenseRows(self.dense(np.float32)).changed(shift, scale)

    def with_ones(self) -> DenseRows:
        return DenseRows(self.dense(np.float32)).with_ones()
