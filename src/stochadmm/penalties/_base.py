"""Small helpers shared by the penalties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..base.capabilities import Capabilities, Has, offers
from ..base.immutable import ByValue, Floats, as_float, frozen
from ..base.protocols import Array, Shape
from ..base.validation import is_between, real_array

ALWAYS: Capabilities = frozenset(
    {
        Has.PROX,
        Has.CONJUGATE,
        Has.DUAL_SCALE,
        Has.PROJECT_DUAL,
        Has.PROJECT,
        Has.ZEROS,
        Has.SCALED,
        Has.CHECK,
    }
)
"""What every penalty of the library offers."""

GUARD = 4.0
"""Units of rounding by which a dual point may leave the domain and still count as on its edge."""


class Part(ByValue):
    """What most penalties are: finite everywhere, and multiplied by their field ``alpha``.

    A subclass declares what it offers beyond `ALWAYS`.
    """

    alpha: float
    capabilities: ClassVar[Capabilities] = ALWAYS
    """What the penalty offers."""

    def project(self, x: Array) -> Array:
        """Return the nearest point of the domain."""
        return as_float(x)

    def scaled(self, factor: float) -> Any:
        """Return the penalty times ``factor``."""
        check_alpha(factor, "factor")
        own: Any = self
        return replace(own, alpha=self.alpha * factor)

    def __add__(self, other: object) -> Any:
        if not offers(other, Has.PROX):
            return NotImplemented
        raise TypeError(
            f"{type(self).__name__} + {type(other).__name__} has no simple prox; put one of them "
            "on the coefficients and one on the structure, or stack the structures: "
            "VStack([A, Identity(d)]) with Stacked([(a, p), (b, d)])"
        )

    __radd__ = __add__


def eps(u: Array) -> float:
    """Return the unit of rounding of float32 or float64."""
    return float(np.finfo(u.dtype).eps) if u.dtype.kind == "f" else float(np.finfo(float).eps)


def exceeds(size: Array | float, bound: Array | float, u: Array) -> bool:
    """Tell whether a size is above its bound by more than rounding (of the dtype of u)."""
    return bool(np.any(np.asarray(size) > np.asarray(bound) * (1.0 + GUARD * eps(u))))


def shrink_to(size: Array, bound: Array, u: Array) -> float:
    """Return the largest t in [0, 1] with ``t * size <= bound`` everywhere, rounded down."""
    over = size > bound * (1.0 + GUARD * eps(u))
    if not over.any():
        return 1.0
    return float((bound[over] / size[over]).min()) * (1.0 - GUARD * eps(u))


def check_alpha(alpha: float, name: str = "alpha") -> None:
    """Refuse a strength that is negative, infinite or not a number."""
    if not is_between(alpha, 0, np.inf, below=True):
        raise ValueError(f"{name} must be a non-negative number, got {alpha!r}")


def check_weights(weights: ArrayLike | None, most: float = np.finfo(float).max) -> Floats | None:
    """Return a read-only float64 copy of non-negative weights."""
    if weights is None:
        return None
    array = frozen(real_array(weights, "weights"))
    if array.ndim == 0 or not ((array >= 0) & (array <= most)).all():
        raise ValueError("weights must be an array of non-negative numbers; 0 leaves a row free")
    return array


def per_row(numbers: Any, x: Array) -> Any:
    """Make one number per row broadcast against ``x`` of shape (p,) or (p, C)."""
    if x.ndim == 2 and np.ndim(numbers) == 1:
        return numbers[:, None]
    return numbers


def check_rows(numbers: Any, shape: Shape, name: str) -> None:
    """Refuse numbers that are neither one for all, one per row, nor one per entry."""
    found = np.shape(numbers)
    if found not in ((), shape[:1], shape):
        raise ValueError(
            f"{name} have shape {found} but the block has shape {shape}; "
            "give one number per row or one per entry"
        )
