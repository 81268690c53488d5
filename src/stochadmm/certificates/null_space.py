"""Directions that no penalty sees: there the gradient of the data term must vanish by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..data import CSR, cut
from ..linear_algebra.dense import weighted_gram
from ..risk import Evaluation, FiniteSum
from ..risk.dual import pull_back
from ..risk.targets import sample_weights, weighted
from .rounding import TINY, UNIT

LIVE = 1e-13
"""Share of the largest below which eigenvalues of the equilibrated Hessian say nothing."""
BLOCK_BYTES = 1 << 22
"""Rows of moves that are weighted at a time: a copy of all would double the memory."""


class FreeSpace:
    """Steps ``x + N c`` with the predictions ``X N`` of the directions at hand."""

    def __init__(self, f2: FiniteSum, directions: list[tuple[Any, Any]]) -> None:
        self.f2, self.directions = f2, directions
        self.q = sample_weights(f2)
        self.loss: Any = f2.loss
        self.active: Array | None = None
        """Rows whose derivatives may be bent; None for all."""
        # every (output, direction) pair is one coordinate of c
        self.moves = [self._predictions(basis) for _, basis in directions]
        self.size = sum(basis.shape[1] * self.outputs(index).size for index, basis in directions)

    def turned(self) -> tuple[FreeSpace, list[Array | None]]:
        """Return directions N R whose predictions are nearly orthogonal, and R^-1 of each basis.

        Of columns that nearly depend on each other squares lose twice the digits that their
        difference has; here the difference is a column of its own, computed from the data. R^-1
        is None where nothing is to be gained, or directions are too many.
        """
        inverses, directions = list[Array | None](), list[tuple[Any, Any]]()
        weight = self.f2.row_weight
        for (index, basis), move in zip(self.directions, self.moves, strict=True):
            inverse = None
            if 1 < basis.shape[1] <= 100:
                G = weighted_gram(
                    move, np.ones(len(self.f2.y)) if weight is None else weight, False
                )
                size = np.sqrt(np.diag(G))
                size = np.where(size > 0, size, 1.0)
                values, V = np.linalg.eigh(G / np.outer(size, size))
                if values[0] <= 1e-6 * values[-1]:
                    inverse = V.T * size
                    basis = sparse.csc_array(basis @ (V / size[:, None]))
            inverses.append(inverse)
            directions.append((index, basis))
        same = all(inverse is None for inverse in inverses)
        return self if same else FreeSpace(self.f2, directions), inverses

    def outputs(self, index: Any) -> Array:
        """Return the outputs of an index of directions."""
        count = 1 if self.f2.n_outputs is None else self.f2.n_outputs
        chosen = index[1] if isinstance(index, tuple) else slice(None)
        return np.atleast_1d(np.arange(count)[chosen])

    def _predictions(self, basis: Any) -> Any:
        """Return ``X N``; a CSR array where sparse rows leave most of it empty."""
        d, f2 = self.f2.n_features, self.f2
        top, count = sparse.csr_array(basis[:d]), basis.shape[1]
        if top.nnz and f2.rows.storage == CSR and count >= 10:
            X: Any = f2.rows.X
            N = top
            if f2.intercept:
                ones: Any = np.ones((f2.n_terms, 1))
                X = sparse.hstack([X, ones], format="csr")
                N = sparse.csr_array(basis)
            moves = sparse.csr_array(X @ N)
            return moves if 5 * moves.nnz < moves.shape[0] * count else moves.toarray()
        if top.nnz == 0:
            out = np.zeros((f2.n_terms, count))
        else:
            dense = np.asarray(top.toarray())
            kind = np.result_type(dense, f2.rows.dtype)
            out = np.empty((f2.n_terms, count), kind)
            for part, block in f2.rows.blocks():
                out[part] = block.matvec(dense)
        if f2.intercept:
            out = out + basis[[d]].toarray()
        return np.asarray(out)

    def _spread(self, c: Array, steps: list[Any]) -> Array:
        """Return ``sum_k steps_k c_k`` in the shape of predictions or of x."""
        rows = steps[0].shape[0]
        outputs = 1 if self.f2.n_outputs is None else self.f2.n_outputs
        out, start = np.zeros((rows, outputs)), 0
        for (index, _), step in zip(self.directions, steps, strict=True):
            chosen = self.outputs(index)
            stop = start + step.shape[1] * chosen.size
            out[:, chosen] += step @ c[start:stop].reshape(step.shape[1], chosen.size)
            start = stop
        return out[:, 0] if self.f2.n_outputs is None else out

    def predictions(self, c: Array) -> Array:
        """Return ``X N c``."""
        return self._spread(c, self.moves)

    def sizes(self) -> Array:
        """Return the root mean square of the predictions along each coordinate of c."""
        weight = self.f2.row_weight
        weight = np.ones(self.f2.n_terms) if weight is None else weight / weight.mean()
        sums = [
            cast(Any, move).power(2).T @ weight
            if sparse.issparse(move)
            else weight @ np.square(move, dtype=np.float64)
            for move in self.moves
        ]
        return self._by_coordinate([np.sqrt(total / self.f2.n_terms) for total in sums])

    def error(self, columns: Array) -> Array:
        """Return the rounding of the predictions along each coordinate; columns have these sizes.

        Columns that cancel leave the rounding of what is added.
        """
        return UNIT * self._by_coordinate([abs(N).T @ columns for _, N in self.directions])

    def _by_coordinate(self, per_column: list[Array]) -> Array:
        return np.concatenate(
            [
                np.repeat(own, self.outputs(index).size)
                for (index, _), own in zip(self.directions, per_column, strict=True)
            ]
        )

    @property
    def coupled(self) -> bool:
        """Whether the derivative of an output depends on the predictions of others."""
        if self.f2.n_outputs is None:
            return False
        few = slice(0, 1)
        zero = np.zeros((1, self.f2.n_outputs))
        return self.loss.curvature_parts(zero, self.f2.y[few])[1] is not None

    def spread(self, z: Array, T: Array) -> Array:
        """Return ``sum_l |W X N T_l|``, by entries: how far derivatives move along T."""
        if offers(self.loss, Has.CURVATURE_PARTS) and self.f2.n_outputs is not None:
            a, b = self.loss.curvature_parts(z, self.f2.y)
        else:
            a, b = self.loss.curvature(z, self.f2.y), None
        if T.shape[1] * a.size <= 3e6:  # numbers: some hundredths of a second
            total = np.zeros_like(z)
            for column in T.T:
                v = self.predictions(column)
                v = a * v if b is None else a * v - b * (b * v).sum(axis=1, keepdims=True)
                total += np.abs(v)
        else:  # two bounds, in one product
            v = self._spread(np.abs(T).sum(axis=1), [abs(move) for move in self.moves])
            total = a * v if b is None else a * v + b * (b * v).sum(axis=1, keepdims=True)
            # as T' H T is the identity, no row has more of it than q_i |W_i^(1/2) x_i' N T|^2 <= n
            share = np.maximum(
                np.ones_like(a) if self.q is None else weighted(self.q, np.ones_like(a)), TINY
            )
            own = a if b is None else a - b * b
            most = np.sqrt(T.shape[1] * self.f2.n_terms * np.maximum(own, 0.0) / share)
            total = np.minimum(total, most)
        return total if self.active is None else weighted(self.active, total)

    def step(self, c: Array) -> Array:
        """Return ``N c``."""
        return self._spread(c, [basis for _, basis in self.directions])

    def gradient(self, u: Array) -> Array:
        """Return ``N' X'(q u) / n``."""
        qu = weighted(self.q, u).reshape(self.f2.n_terms, -1)
        parts = [
            (move.T @ qu[:, self.outputs(index)]).ravel()
            for (index, _), move in zip(self.directions, self.moves, strict=True)
        ]
        return np.asarray(np.concatenate(parts) / self.f2.n_terms)

    def derivative_along(self, z: Array, c: Array) -> float:
        """Return the derivative of f2 along c at predictions z."""
        return float(self.gradient(self.loss.derivative(z, self.f2.y)) @ c)

    def derivative_change(self, z: Array, c: Array) -> Array:
        """Return the change of the derivatives at z along c, to first order."""
        change = self.loss.curvature_apply(z, self.f2.y, self.predictions(c))
        return np.asarray(change if self.active is None else weighted(self.active, change))

    def hessian(self, z: Array, reach: float | None = None) -> Array:
        """Return ``N' X' (q W) X N / n``.

        With a ``reach`` it is one for steps: the curvature of a row is its mean over predictions
        so far from z, both ways, and at least a small share of the largest one. Losses that tie
        outputs are smooth, and have theirs at z.
        """
        if self.f2.n_outputs is None:
            curve = self.loss.curvature(z, self.f2.y)
            if reach is not None:
                curve = self._lifted(curve, z, self.f2.y, reach)
            curve = weighted(self.q, curve)
            root = np.sqrt(curve if self.active is None else self.active * curve)
            return self._weighted_gram(root) / self.f2.n_terms
        if not offers(self.loss, Has.CURVATURE_PARTS):
            columns = [
                self.gradient(self.derivative_change(z, unit)) for unit in np.eye(self.size)
            ]
            H = np.stack(columns, axis=1)
            return np.asarray(0.5 * (H + H.T))
        H = np.zeros((self.size, self.size))
        for rows in cut(0, self.f2.n_terms, 1 << 16):
            H += self._curvature_of(rows, z, reach)
        # rows that are sure of their class leave differences of equal numbers
        np.fill_diagonal(H, np.maximum(np.diag(H), 0.0))
        return H / self.f2.n_terms

    def _lifted(self, curve: Array, z: Array, y: Array, reach: float) -> Array:
        """Return curvatures that a step can rely on where the loss happens to be straight."""
        # else differences would be rounding
        if reach > 1e-6 * np.abs(z).max(initial=0.0):
            mean = (self.loss.derivative(z + reach, y) - self.loss.derivative(z - reach, y)) / (
                2.0 * reach
            )
            curve = mean if np.isfinite(mean).all() else curve
        top = float(curve.max(initial=0.0)) or min(float(self.loss.curvature_bound), 1.0)
        # where all rows are straight steps still have a length, which a line search corrects
        return curve + 1e-6 * top

    def _weighted_gram(self, root: Array) -> Array:
        """Return ``sum_i root_i^2 m_i m_i'`` of one output's moves, some rows at a time."""
        move = self.moves[0]
        if sparse.issparse(move):
            return weighted_gram(move, np.square(root), False)
        length = max(1, BLOCK_BYTES // (8 * max(1, move.shape[1])))
        total = np.zeros((move.shape[1], move.shape[1]))
        for first in range(0, len(move), length):
            scaled = move[first : first + length] * root[first : first + length, None]
            total += scaled.T @ scaled
        return total

    def _curvature_of(self, rows: slice, z: Array, reach: float | None) -> Array:
        """Return the sum over some rows of the Hessian ``diag(a) - b b'`` in the predictions."""
        a, b = self.loss.curvature_parts(z[rows], self.f2.y[rows])
        if b is None and reach is not None:
            a = self._lifted(a, z[rows], self.f2.y[rows], reach)
        q = np.ones(len(a)) if self.q is None else self.q[rows]
        q = q if self.active is None else weighted(self.active[rows], q)
        moves, outputs = self._coordinates(rows)
        a = weighted(q, a)
        H = np.zeros((self.size, self.size))
        for c in range(a.shape[1]):
            own = np.flatnonzero(outputs == c)
            H[np.ix_(own, own)] = moves[:, own].T @ (a[:, [c]] * moves[:, own])
        if b is not None:
            tied = weighted(np.sqrt(q), b)[:, outputs] * moves
            H -= tied.T @ tied
        return H

    def _coordinates(self, rows: slice) -> tuple[Array, Array]:
        """Return, for every coordinate of c, what it adds to predictions, and to which output."""
        moves, outputs = [], []
        for (index, _), move in zip(self.directions, self.moves, strict=True):
            chosen = self.outputs(index)
            is_sparse: bool = sparse.issparse(move)
            own = move[rows].toarray() if is_sparse else move[rows]
            moves.append(np.repeat(own, chosen.size, axis=1))
            outputs.append(np.tile(chosen, move.shape[1]))
        return np.concatenate(moves, axis=1), np.concatenate(outputs)


def only_intercept(f2: FiniteSum, directions: list[tuple[Any, Any]]) -> bool:
    """Say whether no coefficient moves along the free directions."""
    return not any(basis[: f2.n_features].nnz for _, basis in directions)


def clear_free_directions(
    f2: FiniteSum, at: Evaluation, directions: list[tuple[Any, Any]], *, deadline: Deadline = NEVER
) -> tuple[Evaluation, Evaluation] | None:
    """Minimize f2 over the free directions.

    Returns
    -------
    moved, exact : Evaluation
        The point reached, and the same with derivatives and gradient corrected to first order, so
        that the gradient vanishes along the free directions up to rounding. None when they are
        too many, or the loss has no curvature.
    """
    if not directions or not offers(f2.loss, Has.CURVATURE_APPLY):
        return None if directions else (at, at)
    space = FreeSpace(f2, directions)
    if space.size > 400:
        return None
    u, z, total = at.derivative, at.predictions, np.zeros(space.size)
    scale = np.abs(space.gradient(np.abs(u))).max() + np.finfo(float).tiny
    reach = 0.0
    for _ in range(100):  # more than a few only for losses that are straight but for a few rows
        derivative = space.gradient(u)
        if np.abs(derivative).max() <= 1e-9 * scale or deadline.passed():
            break
        move = -(_inverse(space.hessian(z, reach)) @ derivative)
        if not move.any():
            break
        ahead = space.predictions(move)
        step = _step(lambda t, z=z, m=move, a=ahead: space.derivative_along(z + t * a, m))
        # where most rows are straight the few that bend say little: curvature is taken over as far
        # as steps go, farther where they go nowhere, which is the one at z near the minimum
        went = 2.0 * step * float(np.abs(ahead).max(initial=0.0))
        start = 1e-3 * float(np.abs(z).max(initial=1.0))
        reach = went if went > 0 else 8.0 * max(reach, start)
        total += step * move
        z = z + step * ahead
        u = f2.loss.derivative(z, f2.y)
    moved = replace(
        at, x=at.x + space.step(total), predictions=z, derivative=u, value=f2.value_at(z)
    )
    exact = _exact_derivatives(space, z, u)
    if exact is u and not total.any():
        return moved, moved
    gradient, passes = pull_back(f2, exact), at.n_passes + 1.0
    return moved, replace(moved, derivative=exact, gradient=gradient, n_passes=passes)


def exact_derivatives(
    f2: FiniteSum, directions: list[tuple[Any, Any]], z: Array, u: Array
) -> Array:
    """Return derivatives near u at predictions z without gradient along free directions.

    They are u itself where there are none, or too many.
    """
    space = FreeSpace(f2, directions) if directions else None
    return u if space is None or space.size > 400 else _exact_derivatives(space, z, u)


def _exact_derivatives(space: FreeSpace, z: Array, u: Array) -> Array:
    """Return derivatives near u without gradient along the free directions, up to rounding."""
    if not space.gradient(u).any():
        return u
    y, loss = space.f2.y, space.loss
    for _ in range(3):
        inverse, change = _inverse(space.hessian(z)), np.zeros_like(u)
        for _ in range(2):  # the second time removes what rounding left
            change = change - space.derivative_change(z, inverse @ space.gradient(u + change))
        if not offers(loss, Has.DUAL_STEP_LIMIT):
            return u + change
        inside = loss.dual_step_limit(u, change, y) >= 1
        if inside.all():
            return u + change
        # saturated rows change no more: the others take their part
        space.active = inside if space.active is None else space.active & inside
    return u


def _step(derivative: Any) -> float:
    """Return a step at which the derivative along a descent direction has lost most of its size.

    Where none is found it is one at which f2 still falls, and so is lower than at the start: f2
    is convex.
    """
    first = derivative(0.0)
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(60):
        now = derivative(step)
        if abs(now) <= 0.3 * abs(first):
            return step
        low, high = (step, high) if now < 0 else (low, step)
        step = 2.0 * step if high == np.inf else 0.5 * (low + high)
    return low


def _inverse(H: Array) -> Array:
    """Return the pseudo-inverse of a Hessian; units of directions do not decide about the rank."""
    size = np.sqrt(np.diag(H))
    top = float(size.max(initial=0.0))
    if not np.finfo(float).tiny ** 0.25 < top < np.inf:  # no curvature that could be inverted
        return np.zeros_like(H)
    size = np.where(size > 1e-12 * top, size, top)  # rounding of what no row sees has no unit
    units = np.outer(size, size)
    return np.asarray(linalg.pinvh(H / units, rtol=LIVE) / units)
