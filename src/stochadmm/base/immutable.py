"""Objects that hold arrays: read-only fields, equality by value, copies, floats in and out."""

from __future__ import annotations

from copy import copy
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .capabilities import has_members

Floats = NDArray[np.float64]
T = TypeVar("T")
SIMPLE = (type(None), bool, int, float, str)


class ByValue:
    """Equality and hash of a dataclass whose fields may be arrays."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        own, others = field_values(self), field_values(other)
        return all(_same(own[name], others[name]) for name in own)

    def __hash__(self) -> int:
        # arrays count by their shape: cheap, and equal objects still have equal hashes
        values = field_values(self).values()
        return hash((type(self), *(v.shape if _is_array(v) else v for v in values)))


def field_values(instance: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, as they are: nothing is copied."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


def attributes(instance: Any) -> dict[str, Any] | None:
    """Return the attributes of an object by name, slots left out; None where it has only these."""
    try:
        held: dict[str, Any] = vars(instance)
    except TypeError:
        return None
    return held


def copied(state: T) -> T:
    """Return the same object with fields of its own; what two fields share is copied once.

    Fields with a method ``copy`` (arrays, pairs, other states) are copied by it, all others do not
    change and are shared.
    """
    other, made = copy(state), dict[int, object]()
    for name, value in vars(state).items():
        if type(value) not in SIMPLE and has_members(value, "copy"):
            if id(value) not in made:
                made[id(value)] = value.copy()
            setattr(other, name, made[id(value)])
    return other


def set_field(instance: object, name: str, value: Any) -> None:
    """Store a cleaned argument in ``__post_init__`` of a frozen dataclass."""
    object.__setattr__(instance, name, value)


def frozen(values: ArrayLike, dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only copy."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def as_float(given: Any) -> NDArray[Any]:
    """Return an array as it is when float32 or float64, as float64 otherwise."""
    x: NDArray[Any] = np.asarray(given)
    return x if x.dtype == np.float64 or x.dtype == np.float32 else x.astype(np.float64)


def store(result: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """Return ``result``, in ``out`` when given."""
    if out is None:
        return result
    np.copyto(out, result)
    return out


def _is_array(value: object) -> bool:
    return has_members(value, "shape", "dtype")


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not (_is_array(a) and _is_array(b)):
        return bool(not (_is_array(a) or _is_array(b)) and a == b)
    if a.shape != b.shape:
        return False
    if sparse.issparse(a) or sparse.issparse(b):
        return bool(abs(a - b).nnz == 0)
    return bool(np.array_equal(a, b))
