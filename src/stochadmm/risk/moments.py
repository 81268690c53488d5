"""A squared loss without its rows: one Gram matrix per pattern of weights.

    f2(W) = constant - <linear, W> + 1/2 sum_c <w_c, B_c w_c>

Outputs with the same weights share a matrix; missing targets (weight zero) make patterns. With an
intercept, rows and targets are first shifted towards their means: a mere change of the intercept,
after which nothing cancels when it is eliminated. Everything is added up in float64. Squares of
unpenalized columns that nearly depend on each other have no digits left: bases take their place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.protocols import Array
from ..data import CSR
from ..linear_algebra.dense import weighted_gram
from .finite_sum import FiniteSum
from .free_columns import free_basis
from .weights import sample_weights


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
        weighted = weight[:, None] * targets[:, those]
        linear[: f2.n_features, those] = X.T @ weighted
        if f2.intercept:
            linear[-1, those] = weighted.sum(axis=0)
    return matrices, linear
