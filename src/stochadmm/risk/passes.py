"""Passes over blocks of rows: a pure function of a block, whose results are joined in one order.

    over_source(source, of_block, join) = join over all blocks of all shards

A pass runs on the engine in use, and what it returns is as long as the coefficients, or shorter,
but for the rows of a sample: row i belongs to it when ``hash(seed, i) < p_i``, which is the same
on every worker, at every try and for every size of block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from .. import cluster
from ..base.capabilities import Has, has_members, offers
from ..base.immutable import field_values
from ..base.protocols import Array
from ..data import (
    Block,
    Reads,
    Rows,
    Scratch,
    Shard,
    Source,
    check_block,
    check_origins,
    is_numeric,
)
from .sampling import Coin
from .targets import weighted

_reads: ContextVar[Reads | None] = ContextVar("stochadmm_reads", default=None)


@contextmanager
def counted_reads() -> Iterator[Reads]:
    """Count the rows that are read of sources inside the block, by this thread.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.risk.looks import column_means
    >>> from stochadmm.risk.passes import counted_reads
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


@dataclass(frozen=True)
class _OfShard:
    """The work on one shard, which travels to other processes: one read, a block at a time."""

    of_block: Callable[[Block], Any]
    join: Callable[[Any, Any], Any]
    block_bytes: int

    def __call__(self, shard: Shard) -> Any:
        return reduce(self.join, map(self.of_block, shard.blocks(self.block_bytes)))


def over_source(
    source: Source,
    of_block: Callable[[Block], T],
    join: Callable[[T, T], T] = add,  # type: ignore[assignment]
    block_bytes: int = 1 << 24,
) -> T:
    """Return what is found in all blocks of a source, joined in their order: one read.

    Both functions travel to other processes. Sums of files that have changed since they were
    opened belong to no rows, and are refused.
    """
    work = _OfShard(of_block, join, block_bytes)
    found: T = cluster.current(source).map_reduce(source.shards, work, join)
    check_origins(source)
    note_read(source.n_rows)
    return found


def predictions(rows: Rows, x: Array, intercept: bool) -> Array:
    """Return ``a_i' x`` of some rows, the intercept's part included."""
    z = rows.matvec(x[: rows.shape[1]])
    return z + x[-1] if intercept else z


def pulled_back(rows: Rows, u: Array, intercept: bool) -> Array:
    """Return ``sum_i u_i a_i`` of some rows, with the intercept's column of ones."""
    g = rows.rmatvec(u)
    return np.concatenate([g, u.sum(axis=0, keepdims=True)]) if intercept else g


@dataclass(frozen=True)
class Sample:
    """Some rows with all that belongs to them, in the order of their numbers."""

    rows: Rows
    """In the type in which they are stored: half the memory, and half the messages, of float32."""
    y: Array
    weight: Array
    offset: Array | None
    probability: Array

    @classmethod
    def joined(cls, parts: Sequence[Sample]) -> Sample:
        """Return the rows of several parts as one."""
        first, *others = parts
        if not others:
            return first
        offsets = [p.offset for p in parts if p.offset is not None]
        return cls(
            first.rows.followed_by(*(p.rows for p in others)),
            np.concatenate([p.y for p in parts]),
            np.concatenate([p.weight for p in parts]),
            np.concatenate(offsets) if offsets else None,
            np.concatenate([p.probability for p in parts]),
        )


@dataclass(frozen=True)
class Sums(Added):
    """What a pass leaves behind; weights are as given, not yet normalized."""

    n: int
    weight: float
    value: float
    """Weighted sum of the losses."""
    conjugate: float
    """Of their conjugates at the derivatives, less the offsets' part."""
    gradient: Array
    floor: float = 0.0
    """Of the conjugates at 0: minus the sum of the least losses (first pass)."""
    energy: Array | None = None
    """Of the squares of each column, unweighted (first pass)."""
    sample: tuple[Sample, ...] = ()
    along: Array | None = None
    """Values at several points of a line."""


@dataclass(frozen=True)
class Work:
    """What is done with every block.

    ``opening`` checks the numbers and finds what the first pass is for: no gradient, but the value
    and all else that is to be known of the rows, and a copy of them in ``scratch``. ``line`` asks
    for values at ``x + t * step`` only.
    """

    loss: Any
    x: Array
    intercept: bool
    coin: Coin | None = None
    opening: bool = False
    scratch: Scratch | None = None
    line: tuple[Array, tuple[float, ...]] | None = None

    def __call__(self, block: Block) -> Sums:
        """Return the sums of one block."""
        if self.scratch is not None:
            self.scratch.write(block)
        if self.opening:
            return self._first(block)
        total: Sums | None = None
        for part, stored, rows in block.rows.in_type(np.float64):
            sums = self._chunk(block, part, stored, rows)
            total = sums if total is None else total.add(sums)
        assert total is not None
        return total

    def _chunk(self, block: Block, part: slice, stored: Rows, rows: Rows) -> Sums:
        y = self._targets(block.y[part])
        q = np.ones(len(y)) if block.weight is None else block.weight[part].astype(np.float64)
        offset = None if block.offset is None else block.offset[part].astype(np.float64)
        own = predictions(rows, self.x, self.intercept)
        z = own if offset is None else own + offset
        if self.line is not None:
            return self._along(rows, y, q, z)
        losses, u = _each(self.loss, z, y), self.loss.derivative(z, y)
        qu, total = weighted(q, u), float(q @ losses)
        return Sums(
            len(y),
            float(q.sum()),
            total,
            float(np.vdot(qu, own)) - total,
            pulled_back(rows, qu, self.intercept),
            sample=self._drawn(block.first + part.start, Sample(rows, y, q, offset, q), stored),
        )

    def _first(self, block: Block) -> Sums:
        """Return what the first pass finds in a block, whose numbers are checked.

        Squares of the columns are finite where all entries are, so that no other look is needed.
        """
        q, stored = block.weights, block.rows
        zero, energy = np.zeros((len(block), *self.x.shape[1:])), stored.column_sums_of_squares()
        z = zero
        if self.x.any():
            z = np.empty_like(zero)
            for part, _, rows in stored.in_type(np.float64):
                z[part] = predictions(rows, self.x, self.intercept)
        offset = None if block.offset is None else block.offset.astype(np.float64)
        numbers = (energy, block.y, q) if offset is None else (energy, block.y, q, offset)
        if not is_numeric(block.y) or not all(np.isfinite(each).all() for each in numbers):
            check_block(block)
        if offers(self.loss, Has.CHECK_TARGETS):
            self.loss.check_targets(block.y)
        if (q < 0).any():
            raise ValueError(f"weights below zero after row {block.first}; use weights >= 0")
        check_offset(block, z.shape)
        y, z = self._targets(block.y), z if offset is None else z + offset
        return Sums(
            len(y),
            float(q.sum()),
            float(q @ _each(self.loss, z, y)),
            0.0,
            np.zeros(0),
            floor=float(q @ by_rows(self.loss.conjugate(zero, y))),
            energy=energy,
            sample=self._drawn(block.first, Sample(stored, y, q, offset, q), stored),
        )

    def _targets(self, y: Array) -> Array:
        """Return targets in float64, or the numbers of classes."""
        return np.asarray(y, dtype=np.intp if offers(self.loss, Has.BY_CLASS) else np.float64)

    def _along(self, rows: Rows, y: Array, q: Array, z: Array) -> Sums:
        assert self.line is not None
        step, lengths = self.line
        dz = predictions(rows, step, self.intercept)
        values = np.array([q @ _each(self.loss, z + t * dz, y) for t in lengths])
        return Sums(len(y), float(q.sum()), 0.0, 0.0, np.zeros(0), along=values)

    def _drawn(self, first: int, here: Sample, stored: Rows) -> tuple[Sample, ...]:
        """Return those of consecutive rows that belong to the sample, as they are stored."""
        if self.coin is None:
            return ()
        p = self.coin.probabilities(here.rows)
        taken = np.flatnonzero(self.coin.toss(first, len(p)) < p)
        if not taken.size:
            return ()
        offset = None if here.offset is None else here.offset[taken]
        rows = stored.take(taken)
        return (Sample(rows, here.y[taken], here.weight[taken], offset, p[taken]),)


def check_offset(block: Block, shape: tuple[int, ...]) -> None:
    """Raise unless the offsets of a block have the shape of its predictions."""
    if block.offset is not None and block.offset.shape != shape:
        raise ValueError(
            f"the offsets of {len(block)} rows have shape {block.offset.shape}, expected {shape}: "
            "one per prediction"
        )


def _each(loss: Any, z: Array, y: Array) -> Array:
    """Return the loss of every row."""
    return by_rows(loss.values(z, y))


def by_rows(numbers: Array) -> Array:
    """Return one number per row: the sum over the outputs where each has its own."""
    return np.asarray(numbers if numbers.ndim == 1 else numbers.sum(axis=1))
