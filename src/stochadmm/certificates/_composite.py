"""A problem seen as ``f2(x2) + H(S x2 - o)``, and the dual points that this form has.

With A1 a multiple of the identity, x1 follows from x2 and both penalties stack into one:
``S = [-A2 / s; I]``. Its dual is ``D(u, mu) = -mean conjugate(u) - H*(mu) - <mu, o>`` on
``X'(q u)/n + S' mu = 0``. Any other constraint is eliminated first
(`stochadmm.forms.elimination`); where that is too large, the first rows of S are A2 itself and
their penalty is reached through A1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import lsmr, splu, spsolve

from ..base.capabilities import Has, offers
from ..base.clock import out_of_time
from ..base.protocols import Array
from ..linear_algebra.dense import inverse
from ..operators import Identity
from ..penalties import Stacked, Zero
from ..problem import Problem
from ..quadratic import unfold

LARGEST_DENSE = 4000
MOST_ENTRIES = 30
"""Per column of S'S, for a sparse factor of large structures; of the rows, for their models."""
SETUP_SECONDS = 3e-10
"""Of the null space of a dense matrix, per cube of its side."""
NEGLIGIBLE = 1e-10
"""Squared pivots and eigenvalues below this share of the largest count as zero."""


@dataclass(frozen=True)
class Through:
    """The penalty h1 as a function of the multiplier: ``mu -> h1*(-A1' mu)``."""

    penalty: Any
    A1: Any

    def conjugate(self, mu: Array) -> float:
        """Return ``h1*(-A1' mu)``."""
        return float(self.penalty.conjugate(-self.A1.rmatvec(mu)))

    def dual_scale(self, mu: Array) -> float:
        """Return the largest t in [0, 1] that makes the conjugate of ``t mu`` finite."""
        return dual_scale(self.penalty, -self.A1.rmatvec(mu))


def dual_scale(part: Any, mu: Array) -> float:
    """Return the largest t in [0, 1] with a finite conjugate, by bisection if not offered."""
    if offers(part, Has.DUAL_SCALE):
        return float(part.dual_scale(mu))
    if np.isfinite(part.conjugate(mu)):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.isfinite(part.conjugate(middle * mu)) else (low, middle)
    return low


def project_dual(part: Any, mu: Array) -> Array:
    """Return the nearest point where the conjugate is finite; ``mu`` where that is not offered."""
    return cast(Array, part.project_dual(mu)) if offers(part, Has.PROJECT_DUAL) else mu


class Composite:
    """The stacked form of a problem, its dual set and least squares in its structure."""

    def __init__(self, problem: Problem) -> None:
        self.shape = problem.shape2
        d, outputs = self.shape[0], self.shape[1:]
        self.parts: list[tuple[Any, slice]] = []
        blocks, offsets, start = [], [], 0
        self.scale1: float | None = None
        self.unfold1: Any = None
        for matrix, offset, part in self._blocks(problem):
            stop = start + matrix.shape[0]
            self.parts.append((part, slice(start, stop)))
            blocks.append(matrix)
            offsets.append(offset)
            start = stop
        empty = sparse.csr_array((0, d))
        self.S = sparse.csr_array(sparse.vstack(blocks)) if blocks else empty
        self.St = sparse.csr_array(self.S.T)
        self.offset = np.concatenate(offsets) if offsets else np.zeros((0, *outputs))
        self.rows1 = self.parts[0][1] if problem.constrained else slice(0, 0)
        self.mask = self._movable()
        self.null_value: float | None = None
        """F of the null model, once it was asked for."""
        self._solvers: dict[bytes, StructureSolver] = {}

    @classmethod
    def of(cls, problem: Problem) -> Composite:
        """Return the form of a problem; it is kept with it."""
        kept = problem.__dict__.get("_composite")
        if kept is None:
            kept = problem.__dict__["_composite"] = cls(problem)
        return cast(Composite, kept)

    def _blocks(self, problem: Problem) -> list[tuple[Any, Array, Any]]:
        """Return (matrix, offset, penalty) of the first and of the second block."""
        d, outputs = self.shape[0], self.shape[1:]
        found = []
        if problem.f1 is not None:
            raise NotImplementedError("f1 beside a structure; eliminate the constraint first")
        if problem.constrained:
            A2 = as_matrix(problem.A2, d)
            b = np.zeros(problem.shape_dual) if problem.b is None else problem.b.astype(np.float64)
            h1: Any = Zero() if problem.h1 is None else problem.h1
            if isinstance(problem.A1, Identity) and problem.A1.scale != 0:
                self.scale1 = s = float(problem.A1.scale)
                T, h1 = unfold(h1, A2.shape[0], outputs)
                self.unfold1 = T
                found.append((-(T @ A2) / s, -(T @ b) / s, h1))
            else:
                found.append((A2, b, Through(h1, problem.A1)))
        if problem.h2 is not None:
            T, h2 = unfold(problem.h2, d, outputs)
            found.append((T, np.zeros((T.shape[0], *outputs)), h2))
        return found

    @cached_property
    def ties_columns(self) -> bool:
        """Whether a row of S has several columns."""
        return bool((np.diff(self.S.indptr) > 1).any())

    @property
    def stacked_penalty(self) -> Any:
        """The penalties of all rows as one."""
        if len(self.parts) == 1:
            return self.parts[0][0]
        return Stacked([(part, rows.stop - rows.start) for part, rows in self.parts])

    def _movable(self) -> Array:
        """Return which entries of mu may differ from zero; a free row of a penalty may not."""
        probe = np.random.default_rng(0).standard_normal((self.S.shape[0], *self.shape[1:]))
        return cast(Array, (self.project(probe) != 0) | (self.project(-probe) != 0))

    # ---------------------------------------------------------------- the dual set

    def project(self, mu: Array) -> Array:
        """Return the nearest point of the dual set, part by part."""
        out = mu.copy()
        for part, rows in self.parts:
            out[rows] = project_dual(part, mu[rows])
        return out

    def scale(self, mu: Array) -> float:
        """Return the largest t in [0, 1] with ``t mu`` in the dual set."""
        return min((dual_scale(part, mu[rows]) for part, rows in self.parts), default=1.0)

    def conjugate(self, mu: Array) -> float:
        """Return ``H*(mu) + <mu, o>``."""
        total = float(np.vdot(mu, self.offset))
        return total + sum(float(part.conjugate(mu[rows])) for part, rows in self.parts)

    def from_multiplier(self, dual: Array | None) -> Array:
        """Return mu for a multiplier of the constraint; zero where nothing is known."""
        mu = np.zeros((self.S.shape[0], *self.shape[1:]))
        if dual is None or dual.size == 0 or not np.isfinite(dual).all():
            return mu
        lam = dual.astype(np.float64)
        if self.scale1 is None:
            mu[self.rows1] = lam
        elif self.unfold1.shape[0] == lam.shape[0]:
            mu[self.rows1] = -self.scale1 * lam
        else:  # the running sums undo the differences of a total variation
            mu[self.rows1] = lsmr_columns(self.unfold1.T, -self.scale1 * lam)
        return mu

    def to_multiplier(self, mu: Array) -> Array:
        """Return the multiplier of the constraint that belongs to mu."""
        own = mu[self.rows1]
        if self.scale1 is None:
            return own
        return cast(Array, -(self.unfold1.T @ own) / self.scale1)

    # ---------------------------------------------------------------- least squares

    def _solver(self, column: Array) -> StructureSolver:
        key = column.tobytes()
        if key not in self._solvers:
            self._solvers[key] = StructureSolver.build(self.S, column)
        return self._solvers[key]

    @property
    def setup_seconds(self) -> float:
        """What the first least squares may take before it begins, at most."""
        d = self.shape[0]
        if d > LARGEST_DENSE or is_diagonal(self.St @ self.S):
            return 0.0
        new = sum(column.tobytes() not in self._solvers for _, column in self._columns())
        return SETUP_SECONDS * new * d**3

    def _columns(self) -> list[tuple[Any, Array]]:
        """Return groups of outputs that share their mask, as (index, mask)."""
        if self.mask.ndim == 1:
            return [(slice(None), self.mask)]
        if (self.mask == self.mask[:, :1]).all():
            return [(slice(None), self.mask[:, 0])]
        return [((slice(None), c), self.mask[:, c]) for c in range(self.mask.shape[1])]

    def absorb(self, residual: Array) -> Array:
        """Return the smallest change of mu with ``S' change = residual``, in least squares."""
        change = np.zeros((self.S.shape[0], *self.shape[1:]))
        for index, column in self._columns():
            change[index] = self._solver(column).absorb(residual[index])
        return change

    def null_directions(self) -> list[tuple[Any, Any]]:
        """Return (outputs, basis): directions of x2 that no penalty sees, as sparse columns."""
        found = [(index, self._solver(column).null) for index, column in self._columns()]
        return [(index, basis) for index, basis in found if basis.shape[1]]


@dataclass
class StructureSolver:
    """Least squares with some rows of S: a dense factor when small, iterations when large."""

    S: Any
    mask: Array
    pseudo_inverse: Any
    null: Any = field(repr=False)
    gram: Any = None
    factor: Any = None

    @classmethod
    def build(cls, S: Any, mask: Array) -> StructureSolver:
        """Factorize ``S' S`` on the rows of the mask and find its null space."""
        rows = sparse.csr_array(sparse.diags_array(mask.astype(np.float64)) @ S)
        rows.eliminate_zeros()
        d = S.shape[1]
        touched = np.zeros(d, dtype=bool)
        touched[rows.indices] = True
        free = np.flatnonzero(~touched)
        units = sparse.csc_array(
            (np.ones(free.size), (free, np.arange(free.size))), (d, free.size)
        )
        wide = sparse.csc_array(rows.T @ rows)
        if is_diagonal(wide):
            inverted = np.zeros(d)
            inverted[touched] = 1.0 / wide.diagonal()[touched]
            return cls(rows, mask, sparse.diags_array(inverted), units)
        if d > LARGEST_DENSE:
            null = sparse.hstack([units, _guesses(rows)]).tocsc()
            if wide.nnz > MOST_ENTRIES * d:
                return cls(rows, mask, None, null)
            ridge = 1e-10 * float(wide.diagonal().max(initial=1.0))
            shifted = sparse.csc_array(wide + ridge * sparse.eye_array(d))
            return cls(rows, mask, None, null, wide, splu(shifted))
        seen = np.flatnonzero(touched)
        gram = wide.toarray()[np.ix_(seen, seen)]
        solved, null = _inverse_and_null(gram)
        full = np.zeros((d, d))
        full[np.ix_(seen, seen)] = solved
        lifted = np.zeros((d, null.shape[1]))
        lifted[seen] = null
        basis = sparse.hstack([units, sparse.csc_array(lifted)]).tocsc()
        return cls(rows, mask, full, basis)

    def absorb(self, residual: Array) -> Array:
        """Return the smallest ``change`` on the masked rows with ``S' change = residual``."""
        if self.pseudo_inverse is not None:
            return cast(Array, self.S @ (self.pseudo_inverse @ residual))
        if self.factor is None:
            return lsmr_columns(self.S.T, residual)
        if self.null.shape[1]:  # the ridge would blow up what least squares leaves alone
            own = self.null.T @ self.null
            part = spsolve(sparse.csc_array(own), self.null.T @ residual)
            residual = residual - self.null @ part.reshape(own.shape[0], *residual.shape[1:])
        y = self.factor.solve(residual)
        for _ in range(3):
            y = y + self.factor.solve(residual - self.gram @ y)
        return cast(Array, self.S @ y)


def is_diagonal(matrix: Any) -> bool:
    """Say whether a sparse matrix has no entry beside its diagonal."""
    return int(matrix.count_nonzero()) == int(np.count_nonzero(matrix.diagonal()))


def _inverse_and_null(gram: Array) -> tuple[Array, Array]:
    size = gram.shape[0]
    if size == 0:
        return gram, np.zeros((0, 0))
    root = np.sqrt(np.diag(gram))
    scaled = gram / np.outer(root, root)
    found = inverse(scaled)
    if found is not None and 1 / np.diag(found).max() > NEGLIGIBLE:
        return found / np.outer(root, root), np.zeros((size, 0))
    # in units in which every column has length one: those of the columns must not decide the rank
    values, vectors = linalg.eigh(scaled)
    live = values > NEGLIGIBLE * values[-1]
    null = vectors[:, ~live] / root[:, None]
    solved = (vectors[:, live] / values[live]) @ vectors[:, live].T
    return solved / np.outer(root, root), null / np.linalg.norm(null, axis=0)


def _guesses(rows: Any) -> Any:
    """Return null directions of a large structure: constants on components, polynomials."""
    d = rows.shape[1]
    _, labels = connected_components(rows.T @ rows, directed=False)
    place = np.linspace(-1.0, 1.0, d)
    pieces = sparse.csc_array((np.ones(d), (np.arange(d), labels)))
    powers = sparse.csc_array(np.stack([place, place**2, place**3], axis=1))
    candidates = sparse.hstack([pieces, powers]).tocsc()
    size = np.asarray(abs(rows @ candidates).max(axis=0).todense()).ravel()
    scale = np.asarray((abs(rows) @ abs(candidates)).max(axis=0).todense()).ravel()
    touched = np.asarray(abs(rows).sum(axis=0)).ravel()[candidates.argmax(axis=0)] > 0
    return candidates[:, (size <= 1e-12 * scale) & touched]


def lsmr_columns(matrix: Any, right: Array) -> Array:
    """Solve ``matrix @ result = right`` in least squares, column by column while there is time."""
    columns = right[:, None] if right.ndim == 1 else right
    out = np.zeros((matrix.shape[1], columns.shape[1]))
    for k, column in enumerate(columns.T):
        if out_of_time():
            break
        out[:, k] = lsmr(matrix, column, atol=1e-15, btol=1e-15, maxiter=5000)[0]
    return cast(Array, out[:, 0] if right.ndim == 1 else out)


def as_matrix(A: Any, d: int) -> Any:
    """Return an operator as a CSR array, from products where it has no sparse form."""
    if offers(A, Has.SPARSE):
        return sparse.csr_array(A.tosparse())
    if d > LARGEST_DENSE:
        raise NotImplementedError(f"{type(A).__name__} has no sparse form and {d} columns")
    return sparse.csr_array(A.matvec(np.eye(d)))
