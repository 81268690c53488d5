"""Frozen dataclasses that hold arrays: read-only fields, equality by value."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class ByValue:
    """Equality and hash of a dataclass whose fields may be arrays."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            _same(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        )

    def __hash__(self) -> int:
        # arrays count by their shape: cheap, and equal objects still have equal hashes
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return hash((type(self), *(v.shape if _is_array(v) else v for v in values)))


def set_field(instance: object, name: str, value: Any) -> None:
    """Store a cleaned argument in ``__post_init__`` of a frozen dataclass."""
    object.__setattr__(instance, name, value)


def frozen(values: ArrayLike, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only copy."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def _is_array(value: object) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not (_is_array(a) and _is_array(b)):
        return bool(not (_is_array(a) or _is_array(b)) and a == b)
    if a.shape != b.shape:
        return False
    if hasattr(a, "nnz") or hasattr(b, "nnz"):
        return bool(abs(a - b).nnz == 0)
    return bool(np.array_equal(a, b))
