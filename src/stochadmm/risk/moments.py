"""A squared loss without its rows: one Gram matrix per pattern of weights.

    f2(W) = constant - <linear, W> + 1/2 sum_c <w_c, B_c w_c>

Outputs with the same weights share a matrix; missing targets (weight zero) make patterns. With an
intercept, rows and targets are first shifted towards their means: a mere change of the intercept,
after which nothing cancels when it is eliminated. Everything is added up in float64. Squares of
unpenalized columns that nearly depend on each other have no digits left: bases take their place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr

from ..base.protocols import Array
from ..data import CSR, DENSE, Block, Rows, check_block, cut
from ..linear_algebra.dense import weighted_gram
from .finite_sum import FiniteSum
from .passes import Added, add, check_offset, note_read, predictions, pulled_back
from .split_columns import free_basis
from .streamed import StreamedSum
from .targets import sample_weights, weighted


@dataclass(frozen=True)
class Moments:
    """The numbers of a quadratic data term in shifted coordinates."""

    matrices: list[Array]
    """B of each pattern."""
    outputs: list[Array]
    """The outputs that share it."""
    linear: Array
    constant: float
    origin: Array
    """What was subtracted from the rows, zero without an intercept."""
    level: Array
    """What was subtracted from the targets."""

    def restored(self, W: Array) -> Array:
        """Return coefficients of the shifted data as those of the data."""
        out = W.copy()
        if self.origin.any() or self.level.any():
            out[-1] += self.level - self.origin @ W[:-1]
        return out

    def shifted(self, W: Array) -> Array:
        """Return coefficients of the data as those of the shifted data."""
        out = W.copy()
        if self.origin.any() or self.level.any():
            out[-1] -= self.level - self.origin @ W[:-1]
        return out


def patterns(f2: FiniteSum) -> list[tuple[Array, Array]]:
    """Return the different columns of weights (of mean one over the rows) and their outputs."""
    outputs = np.arange(f2.n_outputs or 1)
    weight = sample_weights(f2)
    if weight is None:
        return [(np.ones(f2.n_terms), outputs)]
    if weight.ndim == 1:
        return [(weight, outputs)]
    known: dict[bytes, list[int]] = {}
    for c in outputs:
        known.setdefault(weight[:, c].tobytes(), []).append(int(c))
    return [(weight[:, those[0]].copy(), np.array(those)) for those in known.values()]


def moments(f2: FiniteSum) -> Moments:
    """Return the moments of all rows, in one read."""
    factor = float(f2.loss.curvature_bound)
    found, targets = patterns(f2), _targets(f2)
    origin, level = np.zeros(f2.n_features), np.zeros(targets.shape[1])
    if f2.intercept:
        for weight, those in found:
            if weight.any():
                level[those] = weight @ targets[:, those] / weight.sum()
        targets = targets - level
        if f2.storage != CSR:
            origin = f2.X[:: max(1, f2.n_terms // 1000)].mean(axis=0, dtype=np.float64)
    add_up = _sparse_moments if f2.storage == CSR else _dense_moments
    matrices, linear = add_up(f2, found, targets, origin)
    constant = 0.0
    for weight, those in found:
        constant += 0.5 * float(weight @ np.square(targets[:, those]).sum(axis=1))
    scale = factor / f2.n_terms
    return Moments(
        [scale * B for B in matrices],
        [those for _, those in found],
        scale * linear,
        scale * constant,
        origin,
        level,
    )


def _targets(f2: FiniteSum) -> Array:
    """Return what the predictions without offset are to be."""
    targets = f2.y.astype(np.float64)
    return targets if f2.offset is None else targets - f2.offset


def in_free_bases(f2: FiniteSum, of: Moments, free: Array) -> tuple[Moments, list[Array]] | None:
    """Return moments with bases in place of the free columns, and what leads back from them.

    The second are matrices T, one per pattern: the free rows of coefficients are T times those
    that belong to the bases. None where the columns serve as they are.
    """
    inside = free[free < f2.n_features]
    columns = np.hstack(
        [
            f2.rows.columns(inside).dense() - of.origin[inside],
            np.ones((f2.n_terms, free.size - inside.size)),
        ]
    )
    weights = [np.sqrt(weight)[:, None] for weight, _ in patterns(f2)]
    bases = [free_basis(root * columns) for root in weights]
    if all(basis is None for basis in bases):
        return None
    targets, scale = _targets(f2) - of.level, float(f2.loss.curvature_bound) / f2.n_terms
    matrices, linear, turns = list(of.matrices), of.linear.copy(), []
    for k, (root, basis, those) in enumerate(zip(weights, bases, of.outputs, strict=True)):
        turns.append(np.eye(free.size) if basis is None else basis.out)
        if basis is None:
            continue
        Q, B = basis.columns, of.matrices[k].copy()
        cross = scale * _pulled_back(f2, root * Q, of.origin)
        B[:, free], B[free] = cross, cross.T
        B[np.ix_(free, free)] = scale * (Q.T @ Q)
        matrices[k] = B
        linear[np.ix_(free, those)] = scale * (Q.T @ (root * targets[:, those]))
    return replace(of, matrices=matrices, linear=linear), turns


def _pulled_back(f2: FiniteSum, u: Array, origin: Array) -> Array:
    """Return the shifted columns, transposed, times u."""
    total = np.zeros((f2.n_columns, u.shape[1]))
    for rows in f2.chunks():
        total += f2.pull_back(u[rows], rows)
    if origin.any():  # only beside an intercept, whose row is the last
        total[:-1] -= origin[:, None] * total[-1]
    return total


def _dense_moments(
    f2: FiniteSum, found: list[tuple[Array, Array]], targets: Array, origin: Array
) -> tuple[list[Array], Array]:
    n, d = f2.n_terms, f2.n_columns
    matrices = [np.zeros((d, d)) for _ in found]
    linear = np.zeros((d, targets.shape[1]))
    length = max(256, (1 << 22) // (8 * d))  # copies of 4 MB stay in the cache
    block = np.ones((min(length, n), d))
    for start in range(0, n, length):
        rows = slice(start, min(start + length, n))
        part = block[: rows.stop - start]
        np.subtract(f2.X[rows], origin, out=part[:, : f2.n_features])
        for B, (weight, those) in zip(matrices, found, strict=True):
            here = weight[rows]
            used, y = part, targets[rows][:, those]
            if not here.all():  # missing targets: other rows say nothing
                kept = np.flatnonzero(here)
                used, y, here = part[kept], y[kept], here[kept]
            if not (here == 1).all():
                root = np.sqrt(here)[:, None]
                used, y = used * root, y * root
            B += used.T @ used
            linear[:, those] += used.T @ y
    return matrices, linear


def _sparse_moments(
    f2: FiniteSum, found: list[tuple[Array, Array]], targets: Array, origin: Array
) -> tuple[list[Array], Array]:
    matrices: list[Array] = []
    linear = np.zeros((f2.n_columns, targets.shape[1]))
    X: Any = f2.X
    for weight, those in found:
        rows = None if weight.all() else np.flatnonzero(weight)
        matrices.append(
            weighted_gram(X, weight if rows is None else weight[rows], f2.intercept, rows=rows)
        )
        qy = weight[:, None] * targets[:, those]
        linear[: f2.n_features, those] = X.T @ qy
        if f2.intercept:
            linear[-1, those] = qy.sum(axis=0)
    return matrices, linear


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
    """What is done with every block."""

    loss: Any
    intercept: bool
    shift: Array | None
    """Subtracted from the columns."""
    near: Array | None = None
    """Coefficients whose predictions are subtracted from the targets."""

    def __call__(self, block: Block) -> Products:
        """Return the sums of one block."""
        rows, y = self.moved(block)
        q = block.weights
        if (q < 0).any():
            raise ValueError(f"weights below zero after row {block.first}; use weights >= 0")
        qy = weighted(q, y)
        gram, cross = rows.sandwich(q, ones=self.intercept), pulled_back(rows, qy, self.intercept)
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
            y = y - predictions(rows, self.near, self.intercept)
        return rows, y


@dataclass(frozen=True)
class Along(Added):
    """Sums of products of some directions with themselves, the columns and the targets."""

    own: Array
    columns: Array
    targets: Array


@dataclass(frozen=True)
class AlongWork:
    """What is done with every block the second time."""

    first: ProductsWork
    directions: Array
    """One column for each, in coefficients of all columns."""
    few: int
    """Rows at a time: their products with many directions are larger than they."""

    def __call__(self, block: Block) -> Along:
        """Return the sums of one block."""
        rows, y = self.first.moved(block)
        parts = (
            self._part(rows.take(part), y[part], block.weights[part])
            for part in cut(0, len(y), self.few)
        )
        return reduce(add, parts)

    def _part(self, rows: Rows, y: Array, q: Array) -> Along:
        M = predictions(rows, self.directions, self.first.intercept)
        qM = q[:, None] * M
        return Along(M.T @ qM, pulled_back(rows, qM, self.first.intercept), qM.T @ y)


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
    work = ProductsWork(f2.loss, f2.intercept, shift)
    near = _rough_fit(*work.moved(first), f2.intercept)
    work = replace(work, near=near)
    sums = f2.over_blocks(work)
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")

    def again(N: Array) -> Along:
        return f2.over_blocks(AlongWork(work, N, max(1, f2.block_bytes // (8 * N.shape[1]))))

    roots = _roots(sums, again)
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
