"""What blocks, shards and workers add up to: one order of sums for every pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Protocol, Self, TypeVar

from ..data import Block, Shard


class Addable(Protocol):
    """What a pass finds in some rows."""

    def add(self, other: Self) -> Self:
        """Return the sums of two ranges of rows, this one first."""


A = TypeVar("A", bound=Addable)
T = TypeVar("T")


def add(a: A, b: A) -> A:
    """Add two sums; a function, so that it travels to other processes."""
    return a.add(b)


def over_blocks(
    shard: Shard, max_bytes: int, of: Callable[[Block], T], join: Callable[[T, T], T]
) -> T:
    """Read a shard once, a block at a time, and join what is found in each, in their order.

    A shard has at least one row.
    """
    return reduce(join, map(of, shard.blocks(max_bytes)))
