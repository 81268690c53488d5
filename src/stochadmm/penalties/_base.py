"""Small helpers shared by the penalties."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from ..base.capabilities import Capabilities, Has, offers
from ..base.immutable import ByValue, Floats, frozen
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
    """Equality by value, and a clear answer to ``+`` where the prox of a sum is not known.

    A subclass declares what it offers beyond `ALWAYS`.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the penalty offers."""
        return ALWAYS

    def __add__(self, other: object) -> Any:
        if not offers(other, Has.PROX):
            return NotImplemented
        _refuse(self, other)

    __radd__ = __add__


def _refuse(a: object, b: object) -> NoReturn:
    raise TypeError(
        f"{type(a).__name__} + {type(b).__name__} has no simple prox; put one of them on the "
        "coefficients and one on the structure, or stack the structures: "
        "VStack([A, Identity(d)]) with Stacked([(a, p), (b, d)])"
    )


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


def check_weights(weights: ArrayLike | None) -> Floats | None:
    """Return a read-only float64 copy of non-negative weights."""
    if weights is None:
        return None
    array = frozen(real_array(weights, "weights"))
    if array.ndim == 0 or not ((array >= 0) & (array < np.inf)).all():
        raise ValueError("weights must be an array of non-negative numbers; 0 leaves a row free")
    return array


def check_factor(factor: float) -> None:
    """Refuse factors that would make a penalty concave or undefined."""
    check_alpha(factor, "factor")


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


def store(result: Array, out: Array | None) -> Array:
    """Return ``result``, in ``out`` when given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


def as_float(x: Array) -> Array:
    """Return ``x`` as it is when float32 or float64, as float64 otherwise."""
    x = np.asarray(x)
    return x if x.dtype == np.float64 or x.dtype == np.float32 else x.astype(np.float64)
