"""Columns of a table side by side, as rows in row-major order."""

from __future__ import annotations

import numpy as np

from ..base.protocols import Array
from . import _numpy
from .extension import available, core


def beside(columns: list[Array], out: Array, first: int = 0) -> None:
    """Write columns of numbers into those of ``out``, from number ``first`` on.

    Columns of other types than that of ``out``, float32 or float64, are converted on the way.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.kernels.columns import beside
    >>> out = np.zeros((2, 3))
    >>> beside([np.array([1, 2]), np.array([3.0, 4.0])], out, 1)
    >>> out
    array([[0., 1., 3.],
           [0., 2., 4.]])
    """
    if available():
        core().beside([_plain(column) for column in columns], out, first)
    else:
        _numpy.beside(columns, out, first)


def _plain(column: Array) -> Array:
    """Return a column as the extension reads it: no numbers of 16 bits, no truth values."""
    if column.dtype == np.float16:
        column = column.astype(np.float32)
    return np.ascontiguousarray(column.view(np.uint8) if column.dtype == np.bool_ else column)


def is_plain(X: Array) -> bool:
    """Say whether rows are such as `squares` takes: float32 or float64, in C order."""
    return X.dtype in (np.float32, np.float64) and bool(X.flags.c_contiguous)


def squares(X: Array) -> Array:
    """Return ``sum_i x_ij^2`` of each column in float64; only with the extension, of plain rows.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.kernels.columns import squares
    >>> squares(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([10., 20.])
    """
    out = np.zeros(X.shape[1])
    core().column_squares(X, out)
    return out
