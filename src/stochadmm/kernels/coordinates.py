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
    holds the coefficients; it is changed in place.
    """

    indptr: Indices
    """Of the columns of the data, with the rows that each of them touches,"""
    indices: NDArray[np.int32]
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
    tol: float
    """Largest change of a derivative at which sweeps end."""
    most: int
    """Sweeps at most,"""
    inner: int
    """and those over coefficients other than zero between two over all."""


class Swept(NamedTuple):
    """What sweeps have left."""

    worst: float
    """Largest change of a derivative in the last sweep over all."""
    sweeps: int
    square: float
    """The Hessian's product with the step, times the step."""


def coordinate_sweeps(model: Coordinates) -> Swept:
    """Minimize over one coefficient after the other."""
    return Swept(*core().coordinate_sweeps(model))
