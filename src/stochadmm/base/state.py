"""Copies of what changes while a method runs."""

from __future__ import annotations

from copy import copy
from typing import TypeVar

from .capabilities import has_members

T = TypeVar("T")
SIMPLE = (type(None), bool, int, float, str)


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
