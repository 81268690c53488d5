"""Passes over a source: what blocks and shards add up to, in one order, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

from .. import cluster
from ..base.capabilities import has_members
from ..base.immutable import field_values
from ..data import Block, Reads, Shard, Source, check_origins

_reads: ContextVar[Reads | None] = ContextVar("stochadmm_reads", default=None)


@contextmanager
def counted_reads() -> Iterator[Reads]:
    """Count the rows that are read of sources inside the block, by this thread.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.streaming import column_means, counted_reads
    >>> with counted_reads() as reads:
    ...     means = column_means(sa.data.ArraySource(np.eye(4), np.zeros(4)))
    >>> reads.rows
    4
    """
    found = Reads()
    token = _reads.set(found)
    try:
        yield found
    finally:
        _reads.reset(token)


def note_read(rows: int) -> None:
    """Count rows that were read of a source."""
    reads = _reads.get()
    if reads is not None:
        reads.add(rows)


class Addable(Protocol):
    """What a pass finds in some rows."""

    def add(self, other: Self) -> Self:
        """Return the sums of two ranges of rows, this one first."""


@dataclass(frozen=True)
class Added:
    """Sums of a pass that add up field by field; a field that one side lacks is None."""

    def add(self, other: Self) -> Self:
        """Return the sums of two ranges of rows, this one first."""
        pairs = zip(field_values(self).values(), field_values(other).values(), strict=True)
        return type(self)(*(_plus(a, b) for a, b in pairs))


def _plus(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    return a.add(b) if has_members(a, "add") else a + b


A = TypeVar("A", bound=Addable)
T = TypeVar("T")


def add(a: A, b: A) -> A:
    """Add two sums; a function, so that it travels to other processes."""
    return a.add(b)


def over_source(source: Source, work: Callable[[Shard], T], join: Callable[[T, T], T]) -> T:
    """Return what all shards add up to on the engine in use: one read.

    Sums of files that have changed since they were opened belong to no rows, and are refused.
    """
    found: T = cluster.current(source).map_reduce(source.shards, work, join)
    check_origins(source)
    note_read(source.n_rows)
    return found


def over_blocks(
    shard: Shard, max_bytes: int, of: Callable[[Block], T], join: Callable[[T, T], T]
) -> T:
    """Read a shard once, a block at a time, and join what is found in each, in their order.

    A shard has at least one row.
    """
    return reduce(join, map(of, shard.blocks(max_bytes)))
