"""Quadratic losses: one read leaves sums of products behind, and the rows are needed no longer.

With A the rows (and a last column of ones for an intercept), weights q that add up to one, and
targets less their offsets y, the mean of half the squares is

    1/2 w' (A'qA) w - (A'qy)' w + 1/2 y'qy  =  1/2 |R w - t|^2 + c,      R'R = A'qA,  R't = A'qy,

so that as many rows as A'qA has rank, and one row of zeros whose target carries c, are the same
data term. Several targets share R. Rows are summed up with columns that are moved against a free
intercept, and targets less what a rough fit to the first rows predicts, which t gets back: squares
of numbers far from zero would have cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr

from ..base.protocols import Array
from ..data import DENSE, Block, Rows, Shard, check_block
from ..risk import FiniteSum
from ._passes import check_offset
from ._reading import add, note_read, over_blocks, over_source
from ._sum import StreamedSum

ROUGH = 30
"""Steps of the fit to the first rows: enough for levels, too few for the noise of many columns."""


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
    """Subtracted from the columns."""
    near: Array | None = None
    """Coefficients whose predictions are subtracted from the targets."""

    def __call__(self, shard: Shard) -> Products:
        """Read the shard once."""
        return over_blocks(shard, self.block_bytes, self._block, add)

    def _block(self, block: Block) -> Products:
        rows, y = self.moved(block)
        q = block.weights
        if (q < 0).any():
            raise ValueError(f"weights below zero after row {block.first}; use weights >= 0")
        qy = q * y if y.ndim == 1 else q[:, None] * y
        cross = rows.rmatvec(qy)
        if self.intercept:
            cross = np.concatenate([cross, qy.sum(axis=0, keepdims=True)])
        gram = rows.sandwich(q, ones=self.intercept)
        return Products(float(q.sum()), gram, cross, np.sum(qy * y, axis=0))

    def moved(self, block: Block) -> tuple[Rows, Array]:
        """Return the rows and the targets that are summed up, whose numbers are checked."""
        check_block(block)
        y = np.asarray(self.loss.check_targets(block.y), dtype=np.float64)
        check_offset(block, y.shape)
        if block.offset is not None:
            y = y - block.offset
        rows = block.rows.as_type(np.float64)
        if self.shift is not None:
            rows = rows.changed(self.shift, None)
        if self.near is not None:
            y = y - rows.matvec(self.near[: rows.shape[1]])
            y = y - self.near[-1] if self.intercept else y
        return rows, y


@dataclass(frozen=True)
class Summary:
    """A few rows in memory that make the same data term."""

    f2: FiniteSum
    """Without an intercept of its own: the last column takes its place."""
    shift: Array | None
    """What was subtracted from the columns."""
    level: Array
    """What was subtracted from the targets of each output."""
    weight: float


def summarize(f2: StreamedSum, centered: bool) -> Summary:
    """Return the data term of a squared loss in few rows; one read of the source.

    ``centered`` allows for columns and targets moved against a free intercept.
    """
    first = next(chain.from_iterable(s.blocks(1 << 16) for s in f2.source.shards[:1]))
    note_read(len(first))
    shift = _centers(first) if centered else None
    work = ProductsWork(f2.loss, f2.intercept, f2.block_bytes, shift)
    near = _rough_fit(*work.moved(first), f2.intercept)
    sums = over_source(f2.source, replace(work, near=near), add)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    R, t, rest = _rows(sums.gram / sums.weight, sums.cross / sums.weight,
                       sums.squares / sums.weight)  # fmt: skip
    level = np.zeros(near.shape[1:])
    if centered:  # a free intercept takes it up
        level, near = near[-1], np.concatenate([near[:-1], 0 * near[-1:]])
    t = t + R @ near
    # a mean over the rows, which are as many as there are and one more
    size = np.sqrt(len(R) + 1.0)
    X = size * np.vstack([R, np.zeros((1, R.shape[1]))])
    y = size * np.concatenate([t, np.sqrt(rest)[None, ...]])
    loss: Any = f2.loss
    return Summary(FiniteSum(loss, X, y), shift, np.asarray(level), sums.weight)


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


def _centers(block: Block) -> Array | None:
    """Return about where dense columns lie, from the first rows; None for sparse ones."""
    if block.rows.storage != DENSE:
        return None
    of = block.rows.column_moments()
    return of.unit * of.total / len(block)


def _rough_fit(rows: Rows, y: Array, intercept: bool) -> Array:
    """Return coefficients by a few conjugate gradient steps: most of a level, little of noise."""
    rows = rows.with_ones() if intercept else rows
    A = LinearOperator(rows.shape, matvec=rows.matvec, rmatvec=rows.rmatvec, dtype=np.float64)
    found = [
        lsqr(A, target, iter_lim=ROUGH, atol=0.0, btol=0.0)[0] for target in np.atleast_2d(y.T)
    ]
    return np.reshape(np.transpose(found), (rows.shape[1], *y.shape[1:]))
