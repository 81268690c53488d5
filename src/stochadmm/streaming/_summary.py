"""Quadratic losses: one read leaves sums of products behind, and the rows are needed no longer.

With A the rows (and a last column of ones for an intercept), weights q that add up to one, and
targets less their offsets y, the mean of half the squares is

    1/2 w' (A'qA) w - (A'qy)' w + 1/2 y'qy  =  1/2 |R w - t|^2 + c,      R'R = A'qA,  R't = A'qy,

so that as many rows as A'qA has rank, and one row of zeros whose target carries c, are the same
data term. Several targets share R.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg

from ..base.protocols import Array
from ..data import DENSE, Block, Shard, check_block
from ..risk import FiniteSum
from ._reading import add, note_read, over_blocks, over_source
from ._sum import StreamedSum


@dataclass(frozen=True)
class Products:
    """Sums of products of rows and targets; weights as given."""

    weight: float
    gram: Array
    cross: Array
    squares: Array

    def add(self, other: Products) -> Products:
        """Return the sums of two ranges of rows, this one first."""
        return Products(
            self.weight + other.weight, self.gram + other.gram, self.cross + other.cross,
            self.squares + other.squares,
        )  # fmt: skip


@dataclass(frozen=True)
class ProductsWork:
    """What is done with every shard."""

    loss: Any
    intercept: bool
    block_bytes: int
    shift: Array | None
    """Subtracted from the columns: products of far columns would cancel."""

    def __call__(self, shard: Shard) -> Products:
        """Read the shard once."""
        return over_blocks(shard, self.block_bytes, self._block, add)

    def _block(self, block: Block) -> Products:
        check_block(block)
        y = np.asarray(self.loss.check_targets(block.y), dtype=np.float64)
        if block.offset is not None:
            y = y - block.offset
        q = block.weights
        if (q < 0).any():
            raise ValueError(f"weights below zero after row {block.first}; use weights >= 0")
        rows = block.rows.as_type(np.float64)
        if self.shift is not None:
            rows = rows.changed(self.shift, None)
        qy = q * y if y.ndim == 1 else q[:, None] * y
        cross = rows.rmatvec(qy)
        if self.intercept:
            cross = np.concatenate([cross, qy.sum(axis=0, keepdims=True)])
        gram = rows.sandwich(q, ones=self.intercept)
        return Products(float(q.sum()), gram, cross, np.sum(qy * y, axis=0))


@dataclass(frozen=True)
class Summary:
    """A few rows in memory that make the same data term."""

    f2: FiniteSum
    """Without an intercept of its own: the last column takes its place."""
    shift: Array | None
    """What was subtracted from the columns."""
    weight: float


def summarize(f2: StreamedSum, centered: bool) -> Summary:
    """Return the data term of a squared loss in few rows; one read of the source.

    ``centered`` allows for columns moved against a free intercept.
    """
    shift = _centers(f2) if centered else None
    work = ProductsWork(f2.loss, f2.intercept, f2.block_bytes, shift)
    sums = over_source(f2.source, work, add)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    R, t, rest = _rows(sums.gram / sums.weight, sums.cross / sums.weight,
                       sums.squares / sums.weight)  # fmt: skip
    # a mean over the rows, which are as many as there are and one more
    size = np.sqrt(len(R) + 1.0)
    X = size * np.vstack([R, np.zeros((1, R.shape[1]))])
    y = size * np.concatenate([t, np.sqrt(rest)[None, ...]])
    loss: Any = f2.loss
    return Summary(FiniteSum(loss, X, y), shift, sums.weight)


def _rows(gram: Array, cross: Array, squares: Array) -> tuple[Array, Array, Array]:
    """Return R, t and c: the square root of a Gram matrix without its null space."""
    size = np.sqrt(np.diagonal(gram))
    size = np.where(size > 0, size, 1.0)
    values, vectors = linalg.eigh(gram / size / size[:, None])
    kept = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 0.0)
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    R = (roots * vectors).T * size
    scaled = cross / (size if cross.ndim == 1 else size[:, None])
    t = (vectors / roots).T @ scaled
    return R, t, np.maximum(squares - np.sum(t * t, axis=0), 0.0)


def _centers(f2: StreamedSum) -> Array | None:
    """Return about where dense columns lie, from the first rows; None for sparse ones."""
    rows = next(chain.from_iterable(s.blocks(1 << 16) for s in f2.source.shards[:1])).rows
    note_read(rows.shape[0])
    if rows.storage != DENSE:
        return None
    of = rows.column_moments()
    return of.unit * of.total / rows.shape[0]
