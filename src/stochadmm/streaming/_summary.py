"""Quadratic losses: one read leaves sums of products behind, and the rows are needed no longer.

With A the rows (and a last column of ones for an intercept), weights q that add up to one, and
targets less their offsets y, the mean of half the squares is

    1/2 w' (A'qA) w - (A'qy)' w + 1/2 y'qy  =  1/2 |R w - t|^2 + c,      R'R = A'qA,  R't = A'qy,

so that as many rows as A'qA has rank, and one row of zeros whose target carries c, are the same
data term. Several targets share R. Rows are summed up with columns that are moved against a free
intercept, and targets less what a rough fit to the first rows predicts, which t gets back: squares
of numbers far from zero would have cancelled.

A sum of products knows a direction along which columns nearly cancel only up to rounding: of two
columns that differ by 1e-8 of their size nothing is left. Such directions are measured by a second
read, of the rows times each of them, scaled to a size of about one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr

from ..base.protocols import Array
from ..data import DENSE, Block, Rows, Shard, check_block, cut
from ..risk import FiniteSum
from ._passes import check_offset
from ._reading import Added, add, note_read, over_blocks, over_source
from ._sum import StreamedSum

ROUGH = 30
"""Steps of the fit to the first rows: enough for levels, too few for the noise of many columns."""
UNIT = 16 * float(np.finfo(np.float64).eps)
"""Rounding of a sum over rows relative to the sum of sizes, which is added up in blocks."""
DOUBTFUL = 1e-4
"""Share of the largest eigenvalue, at a unit diagonal, below which directions are read again."""
FLAT = 1e-9
"""Size, squared and in units of what rounding hid, below which columns depend on each other: some
1e-12 of their own."""


@dataclass(frozen=True)
class Products(Added):
    """Sums of products of rows and targets; weights as given."""

    weight: float
    gram: Array
    cross: Array
    squares: Array


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
class Along(Added):
    """Sums of products of some directions with themselves, the columns and the targets."""

    own: Array
    columns: Array
    targets: Array


@dataclass(frozen=True)
class AlongWork:
    """What is done with every shard the second time."""

    first: ProductsWork
    directions: Array
    """One column for each, in coefficients of all columns."""

    def __call__(self, shard: Shard) -> Along:
        """Read the shard once."""
        return over_blocks(shard, self.first.block_bytes, self._block, add)

    def _block(self, block: Block) -> Along:
        rows, y = self.first.moved(block)
        few = max(1, self.first.block_bytes // (8 * self.directions.shape[1]))
        parts = [
            self._part(rows.take(part), y[part], block.weights[part])
            for part in cut(0, len(y), few)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.add(part)
        return total

    def _part(self, rows: Rows, y: Array, q: Array) -> Along:
        N, intercept = self.directions, self.first.intercept
        M = rows.matvec(N[: rows.shape[1]])
        M = M + N[-1] if intercept else M
        qM = q[:, None] * M
        columns = rows.rmatvec(qM)
        if intercept:
            columns = np.concatenate([columns, qM.sum(axis=0, keepdims=True)])
        return Along(M.T @ qM, columns, qM.T @ y)


@dataclass(frozen=True)
class Rounding:
    """How much a mean of squares and the one of its summary may differ.

    With y = R w, w beside the rough fit, both differ by at most ``error (|y| + |t| + s)^2 / 2``, s
    the root of the mean square of what the fit leaves; where the mean of squares is at most F, |y|
    is at most |t| more than the root of 2 F.
    """

    factor: float
    """What half a square is multiplied by."""
    error: float
    length: float
    """``|t| + s``."""
    moved: float
    """Rounding of t where it got back what the fit predicts."""

    def most(self, level: float) -> float:
        """Return the largest difference where the mean of squares is at most so much."""
        far = float(np.sqrt(2.0 * max(level, 0.0) / self.factor))
        return self.factor * (
            0.5 * self.error * (self.length + far) ** 2 + self.moved * (far + 0.5 * self.moved)
        )


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
    rounding: Rounding


def summarize(f2: StreamedSum, centered: bool) -> Summary:
    """Return the data term of a squared loss in few rows; one read of the source.

    ``centered`` allows for columns and targets moved against a free intercept.
    """
    first = next(chain.from_iterable(s.blocks(1 << 16) for s in f2.source.shards[:1]))
    note_read(len(first))
    shift = _centers(first) if centered else None
    work = ProductsWork(f2.loss, f2.intercept, f2.block_bytes, shift)
    near = _rough_fit(*work.moved(first), f2.intercept)
    work = replace(work, near=near)
    sums = over_source(f2.source, work, add)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    roots = _roots(sums, lambda N: over_source(f2.source, AlongWork(work, N), add))
    R, t, rest = roots.R, roots.t, roots.rest
    level = np.zeros(near.shape[1:])
    if centered:  # a free intercept takes it up
        level, near = near[-1], np.concatenate([near[:-1], 0 * near[-1:]])
    t, moved = t + R @ near, float(np.linalg.norm(UNIT * (np.abs(R) @ np.abs(near))))
    length = float(np.linalg.norm(roots.t) + np.sqrt(np.sum(sums.squares / sums.weight)))
    # a mean over the rows, which are as many as there are and one more
    size = np.sqrt(len(R) + 1.0)
    X = size * np.vstack([R, np.zeros((1, R.shape[1]))])
    y = size * np.concatenate([t, np.sqrt(rest)[None, ...]])
    loss: Any = f2.loss
    rounding = Rounding(float(loss.curvature_bound), roots.error, length, moved)
    return Summary(FiniteSum(loss, X, y), shift, np.asarray(level), sums.weight, rounding)


@dataclass(frozen=True)
class Roots:
    """R, t and c, and how much a quadratic of them may be off, relative to its own size."""

    R: Array
    t: Array
    rest: Array
    error: float


def _roots(sums: Products, again: Callable[[Array], Along]) -> Roots:
    """Return the square root of a Gram matrix without its null space.

    ``again`` reads the rows once more, for directions that the sums do not tell from nothing.
    """
    gram, cross = sums.gram / sums.weight, sums.cross / sums.weight
    squares = sums.squares / sums.weight
    seen = np.flatnonzero(np.diagonal(gram))
    size = np.sqrt(np.diagonal(gram)[seen])
    values, vectors = linalg.eigh(gram[np.ix_(seen, seen)] / size / size[:, None])
    unit = UNIT * np.sqrt(len(seen))
    top = float(values.max(initial=0.0))
    few = np.flatnonzero(values <= DOUBTFUL * top)
    root = np.sqrt(np.maximum(values, unit * top))
    turn, back = np.zeros((len(gram), len(seen))), np.zeros((len(seen), len(gram)))
    turn[seen], back[:, seen] = vectors / root / size[:, None], root[:, None] * vectors.T * size
    # in these directions the Gram matrix is the identity, as far as the sums can tell
    whole, c = np.eye(len(seen)), turn.T @ cross
    if few.size:
        found = again(turn[:, few])
        both = turn.T @ found.columns / sums.weight
        whole[:, few], whole[few] = both, both.T
        whole[np.ix_(few, few)] = found.own / sums.weight
        c[few] = found.targets / sums.weight
    sizes, turned = linalg.eigh(whole)
    kept = sizes > FLAT * float(sizes.max(initial=0.0))
    sizes, turned = np.sqrt(sizes[kept]), turned[:, kept]
    told = np.delete(values, few).min(initial=top) / top if top > 0 else 1.0
    error = unit / told / float(np.square(sizes).min(initial=1.0))
    t = (turned / sizes).T @ c
    rest = np.maximum(squares - np.sum(t * t, axis=0), 0.0)
    return Roots((sizes * turned).T @ back, t, rest, error)


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
