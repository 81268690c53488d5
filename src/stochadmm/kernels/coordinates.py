"""Coordinate descent on the second-order model of a loss with several outputs.

Only with the extension.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from .extension import core

Indices = NDArray[np.int64]


class Coordinates(NamedTuple):
    """A model of some coefficients, those of an output one after the other.

    The Hessian in the predictions of row i is ``diag(c_i) - s_i s_i'``, weights included. ``w``
    holds the coefficients, ``V`` the predictions of what they have moved by, output by output,
    ``m`` the products of their rows with those of s; all three are changed in place.
    """

    indptr: Indices
    """Of the columns of the data, with the rows that each of them touches,"""
    indices: Indices
    data: Array
    """and their entries."""
    c: Array
    s: Array | None
    starts: Indices
    """First coefficient of every output, and how many there are."""
    columns: Indices
    """Column of every coefficient."""
    gradient: Array
    bend: Array
    """Second derivatives, positive."""
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    w: Array
    V: Array
    m: Array
    tol: float
    """Largest change of a derivative at which sweeps end."""
    most: int
    """Sweeps at most,"""
    inner: int
    """and those over coefficients other than zero between two over all."""


def coordinate_sweeps(model: Coordinates) -> tuple[float, int]:
    """Minimize over one coefficient after the other; return what is left, and the sweeps."""
    worst, sweeps = core().coordinate_sweeps(model)
    return float(worst), int(sweeps)
