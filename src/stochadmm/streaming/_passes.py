"""One pass over one shard: a pure function of the shard and a point, which returns sums.

Every sum is as long as the coefficients, or shorter, but for the rows of a sample: row i belongs
to it when ``hash(seed, i) < p_i``, which is the same on every worker, at every try and for every
size of block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import Block, Shard, check_block

CHUNK_BYTES = 1 << 19
"""Rows that are worked on at a time: they stay in the cache between the two products."""


@dataclass(frozen=True)
class Coin:
    """Which rows belong to the sample.

    ``rate`` is the expected share of the rows. With ``energy``, the mean square of each column,
    half of it goes to rows in proportion to ``sum_j x_ij^2 / (d energy_j)``, so that rare columns
    are seen.
    """

    seed: int
    rate: float
    energy: Array | None = field(default=None, repr=False)

    def probabilities(self, X: Any) -> Array:
        """Return p_i of each row."""
        n = X.shape[0]
        if self.energy is None or self.rate >= 1:
            return np.full(n, min(self.rate, 1.0))
        inverse = np.divide(
            1.0, self.energy, out=np.zeros_like(self.energy), where=self.energy > 0
        )
        score = np.asarray(_squares(X) @ inverse).ravel() / max(1, np.count_nonzero(inverse))
        return np.asarray(np.minimum(1.0, 0.5 * self.rate * (1.0 + score)))

    def toss(self, first: int, n: int) -> Array:
        """Return one number in [0, 1) per row, from the seed and its number alone.

        The finalizer of splitmix64 (Steele, Lea, Flood 2014) on a counter.
        """
        with np.errstate(over="ignore"):
            x = np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)
            x = x * np.uint64(0x9E3779B97F4A7C15)
            x = x + np.uint64(self.seed) * np.uint64(0xD1B54A32D192ED03)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
        return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Rows:
    """Rows of a sample, in the order of their numbers."""

    X: Any
    y: Array
    weight: Array
    offset: Array | None
    probability: Array

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of several parts as one."""
        if len(parts) == 1:
            return parts[0]
        dense = isinstance(parts[0].X, np.ndarray)
        X = np.concatenate([p.X for p in parts]) if dense else sparse.csr_array(
            sparse.vstack([p.X for p in parts])
        )  # fmt: skip
        offsets = [p.offset for p in parts if p.offset is not None]
        return cls(
            X, np.concatenate([p.y for p in parts]), np.concatenate([p.weight for p in parts]),
            np.concatenate(offsets) if offsets else None,
            np.concatenate([p.probability for p in parts]),
        )  # fmt: skip


@dataclass(frozen=True)
class Sums:
    """What a pass leaves behind; weights are as given, not yet normalized."""

    n: int
    weight: float
    value: float
    """Weighted sum of the losses."""
    conjugate: float
    """Of their conjugates at the derivatives, less the offsets' part."""
    gradient: Array
    at_zero: float = 0.0
    """Of the losses at the coefficients 0 (first pass)."""
    floor: float = 0.0
    """Of the conjugates at 0: minus the sum of the least losses (first pass)."""
    energy: Array | None = None
    """Of the squares of each column, unweighted (first pass)."""
    sample: tuple[Rows, ...] = ()
    along: Array | None = None
    """Values at several points of a line."""

    def add(self, other: Sums) -> Sums:
        """Return the sums of two ranges of rows, this one first."""
        return Sums(
            self.n + other.n, self.weight + other.weight, self.value + other.value,
            self.conjugate + other.conjugate, self.gradient + other.gradient,
            self.at_zero + other.at_zero, self.floor + other.floor,
            _plus(self.energy, other.energy), self.sample + other.sample,
            _plus(self.along, other.along),
        )  # fmt: skip


def add(a: Sums, b: Sums) -> Sums:
    """Add two sums; a function, so that it travels to other processes."""
    return a.add(b)


def _plus(a: Array | None, b: Array | None) -> Array | None:
    return None if a is None or b is None else a + b


@dataclass(frozen=True)
class Work:
    """What is done with every shard.

    ``opening`` checks the numbers and finds what the first pass is for; ``line`` asks for values
    at ``x + t * step`` only.
    """

    loss: Any
    x: Array
    intercept: bool
    block_bytes: int
    coin: Coin | None = None
    opening: bool = False
    line: tuple[Array, tuple[float, ...]] | None = None

    def __call__(self, shard: Shard) -> Sums:
        """Read the shard once."""
        total: Sums | None = None
        for block in shard.blocks(self.block_bytes):
            part = self._block(block)
            total = part if total is None else total.add(part)
        assert total is not None, "a shard has at least one row"
        if len(total.sample) > 1:
            total = replace(total, sample=(Rows.joined(total.sample),))
        return total

    def _block(self, block: Block) -> Sums:
        if self.opening:
            check_block(block, f"rows {block.first} to {block.first + len(block) - 1}")
            if offers(self.loss, Has.CHECK_TARGETS):
                self.loss.check_targets(block.y)
            if block.weight is not None and (block.weight < 0).any():
                raise ValueError(f"weights below zero after row {block.first}; use weights >= 0")
        d = block.X.shape[1]
        size = block.X.dtype.itemsize * d if isinstance(block.X, np.ndarray) else (
            12 * max(1, block.X.nnz // len(block))
        )  # fmt: skip
        step = max(256, CHUNK_BYTES // max(1, size))
        total: Sums | None = None
        for start in range(0, len(block), step):
            part = self._chunk(block, slice(start, min(start + step, len(block))))
            total = part if total is None else total.add(part)
        assert total is not None
        return total

    def _chunk(self, block: Block, rows: slice) -> Sums:
        X = block.X[rows]
        X = X if X.dtype == np.float64 else X.astype(np.float64)
        y = np.asarray(block.y[rows], dtype=np.float64)
        q = np.ones(len(y)) if block.weight is None else block.weight[rows].astype(np.float64)
        offset = None if block.offset is None else block.offset[rows].astype(np.float64)
        own = self._predict(X, self.x)
        z = own if offset is None else own + offset
        if self.line is not None:
            return self._along(X, y, q, z)
        losses, u = _each(self.loss, z, y), self.loss.slope(z, y)
        qu = q * u
        gradient = np.asarray(X.T @ qu)
        if self.intercept:
            gradient = np.append(gradient, qu.sum())
        sums = Sums(
            len(y), float(q.sum()), float(q @ losses), float(qu @ own - q @ losses), gradient,
            sample=self._drawn(block, rows, X, y, q, offset),
        )  # fmt: skip
        if not self.opening:
            return sums
        zero = np.zeros(len(y)) if offset is None else offset
        squares = _squares(X)
        return replace(
            sums, at_zero=float(q @ _each(self.loss, zero, y)),
            floor=float(q @ self.loss.conjugate(np.zeros(len(y)), y)),
            energy=np.asarray(squares.sum(axis=0)).ravel(),
        )  # fmt: skip

    def _predict(self, X: Any, x: Array) -> Array:
        z = np.asarray(X @ x[: X.shape[1]])
        return z + x[-1] if self.intercept else z

    def _along(self, X: Any, y: Array, q: Array, z: Array) -> Sums:
        assert self.line is not None
        step, lengths = self.line
        dz = self._predict(X, step)
        values = np.array([q @ _each(self.loss, z + t * dz, y) for t in lengths])
        return Sums(len(y), float(q.sum()), 0.0, 0.0, np.zeros(0), along=values)

    def _drawn(
        self, block: Block, rows: slice, X: Any, y: Array, q: Array, offset: Array | None
    ) -> tuple[Rows, ...]:
        if self.coin is None:
            return ()
        p = self.coin.probabilities(X)
        taken = np.flatnonzero(self.coin.toss(block.first + rows.start, len(y)) < p)
        if not taken.size:
            return ()
        kept = None if offset is None else offset[taken]
        return (Rows(X[taken], y[taken], q[taken], kept, p[taken]),)


def _each(loss: Any, z: Array, y: Array) -> Array:
    """Return the loss of every row."""
    return np.asarray(loss.values(z, y))


def _squares(X: Any) -> Any:
    return X * X if isinstance(X, np.ndarray) else X.multiply(X)
