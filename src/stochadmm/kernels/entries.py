"""Loops over entries of a loss: a prediction or a derivative with its target each, in float64.

Only with the extension; ``losses`` has the NumPy forms, which say what is computed.
"""

from __future__ import annotations

import numpy as np

from ..base.protocols import Array
from .extension import core

Kernel = tuple[str, float, float]
"""Name and numbers of a loss."""


def curvatures(loss: Kernel, z: Array, y: Array) -> Array:
    """Return the second derivatives in z."""
    out = np.empty(z.shape)
    core().loss_curvatures(loss, _flat(z), _flat(y), out.reshape(-1))
    return out


def conjugates(loss: Kernel, u: Array, y: Array, guard: float) -> Array:
    """Return the conjugates at u, ``inf`` beyond ``guard`` of their intervals."""
    out = np.empty(u.shape)
    core().loss_conjugates(loss, _flat(u), _flat(y), guard, out.reshape(-1))
    return out


def largest_conjugates(loss: Kernel, u: Array, size: Array, y: Array, guard: float) -> Array:
    """Return the largest conjugates between ``u - size`` and ``u + size``."""
    out = np.empty(u.shape)
    core().loss_largest_conjugates(loss, _flat(u), _flat(size), _flat(y), guard, out.reshape(-1))
    return out


def rooms(loss: Kernel, u: Array, du: Array, y: Array) -> Array:
    """Return the largest t in [0, 1] that keep ``u + t du`` in the intervals, rounded down."""
    out = np.empty(u.shape)
    core().loss_rooms(loss, _flat(u), _flat(du), _flat(y), out.reshape(-1))
    return out


def _flat(array: Array) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64).reshape(-1)
