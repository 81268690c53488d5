"""The structure matrix S of a one-block form, its Gram matrix and its factorizations.

They depend on the operator alone: a path, its folds, certificates and steps share them.
`structure` makes equal matrices one object of a workspace, whatever problem they come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee
from scipy.sparse.linalg import lsmr, splu, spsolve

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..linear_algebra.dense import inverse, weighted_gram
from .running_sums import RunningSums


@dataclass(frozen=True)
class Limits:
    """Sizes that decide how a structure is factorized.

    Parameters
    ----------
    dense : int
        Columns up to which matrices of their side are made: 128 MB, and a few seconds for the null
        space.
    entries : int
        Entries per column of S'S up to which a large structure has a sparse factor: chains and
        grids have a dozen, and beyond fill-in outgrows the dense matrix.
    seconds : float
        Of the null space of a dense matrix, per cube of its side, on a slow core.
    fill, full : float
        Entries that the factor of a large structure may have (2.4 GB, a minute), and their share
        of a full matrix above which it is as good as full. Graphs without small separators have
        more, and least squares with them need few iterations.
    negligible : float
        Share of the largest below which squared pivots and eigenvalues count as zero: what
        rounding leaves of a dependent column, squared, is far below.
    """

    dense: int = 4000
    entries: int = 30
    seconds: float = 3e-10
    fill: float = 2e8
    full: float = 0.1
    negligible: float = 1e-10


LIMITS = Limits()


class Structure:
    """A sparse matrix S, its transpose, and what is made of it once.

    A workspace owns it (`structure`), and with it everything that is found here.
    """

    def __init__(self, S: Any) -> None:
        self.S = S
        self.St = sparse.csr_array(S.T)
        self.ties_columns = bool((np.diff(S.indptr) > 1).any())
        """Whether a row of S has several columns."""
        self._solvers: dict[bytes, StructureSolver] = {}
        self._passing: tuple[bytes, StructureSolver] | None = None

    @cached_property
    def sparse_gram(self) -> Any:
        """S'S as a CSR array."""
        return gram(self.S)

    @cached_property
    def dense_gram(self) -> Array:
        """S'S as a dense matrix."""
        return np.asarray(self.sparse_gram.toarray())

    def has_sparse_gram(self, entries: int) -> bool:
        """Say whether S'S has at most so many entries per column, before it is made.

        A row of k entries alone makes k^2; more than 1e9 products (seconds) are not looked at.
        """
        lengths, most = np.diff(self.S.indptr).astype(np.float64), entries * self.S.shape[1]
        if lengths.max(initial=0.0) ** 2 > most or np.square(lengths).sum() > 1e9:
            return False
        return bool(self.sparse_gram.nnz <= most)

    def solver(self, mask: Array) -> StructureSolver:
        """Return least squares with the rows of a mask, factorized once."""
        key = mask.tobytes()
        if key not in self._solvers:
            self._solvers[key] = StructureSolver.build(self.S, mask.astype(bool))
        return self._solvers[key]

    def passing_solver(self, mask: Array) -> StructureSolver:
        """Return the same for rows that were chosen for the moment; only the last is kept."""
        key = mask.tobytes()
        if self._passing is None or self._passing[0] != key:
            self._passing = key, StructureSolver.build(self.S, mask.astype(bool))
        return self._passing[1]

    def is_factorized(self, mask: Array) -> bool:
        """Say whether the rows of a mask were factorized before."""
        return mask.tobytes() in self._solvers


def structure(S: Any, workspace: Workspace) -> Structure:
    """Return the structure of a matrix, the same object for equal matrices."""
    S = sparse.csr_array(S, dtype=np.float64)
    numbers = (S.data.tobytes(), S.indices.tobytes(), S.indptr.tobytes())
    return workspace.shared.once(_structure, S.shape, *numbers, S.indices.dtype)


def _structure(
    shape: tuple[int, int], data: bytes, indices: bytes, indptr: bytes, dtype: Any
) -> Structure:
    arrays = (
        np.frombuffer(data).copy(),
        np.frombuffer(indices, dtype).copy(),
        np.frombuffer(indptr, dtype).copy(),
    )
    return Structure(sparse.csr_array(arrays, shape))


def gram(S: Any) -> Any:
    """Return S'S as a CSR array.

    A row of k entries adds k^2 products, one by one; BLAS makes those of full rows at once, about
    twenty in the time of one.
    """
    m, d = S.shape
    products = float(np.square(np.diff(S.indptr), dtype=np.float64).sum())
    if d > LIMITS.dense or m * float(d) ** 2 > 20 * products:
        return sparse.csr_array(S.T @ S)
    return sparse.csr_array(weighted_gram(S, np.ones(m), False))


@dataclass(frozen=True)
class StructureSolver:
    """Least squares with some rows of S: a dense factor when small, iterations when large."""

    S: Any
    """The rows of the mask, all others empty."""
    mask: Array
    pseudo_inverse: Any
    """Of S'S, where that is diagonal or small."""
    null: Any = field(repr=False)
    """Directions that no row sees, as sparse columns."""
    gram: Any = None
    factor: Any = None
    """S'S of a large structure and its sparse factor, with a ridge; without one, iterations."""
    sums: RunningSums | None = None
    """The right inverse of the rows where they are differences along a line."""

    @classmethod
    def build(cls, S: Any, mask: Array) -> StructureSolver:
        """Factorize ``S' S`` on the rows of the mask and find its null space."""
        rows = S if mask.all() else sparse.csr_array(sparse.diags_array(mask.astype(float)) @ S)
        if not rows.data.all():
            rows = rows.copy()
            rows.eliminate_zeros()
        d = S.shape[1]
        if np.diff(rows.indptr).max(initial=0) <= 1:  # nothing is tied: S'S is diagonal
            return cls._untied(rows, mask, np.bincount(rows.indices, rows.data**2, d))
        sums = RunningSums.of(rows)
        if sums is not None:
            return cls(rows, mask, None, sums.null_basis(), sums=sums)
        touched = np.zeros(d, dtype=bool)
        touched[rows.indices] = True
        free = np.flatnonzero(~touched)
        units = sparse.csc_array(
            (np.ones(free.size), (free, np.arange(free.size))), (d, free.size)
        )
        if d > LIMITS.dense:
            large = Structure(rows)
            if large.ties_columns and not large.has_sparse_gram(LIMITS.entries):
                return cls(rows, mask, None, sparse.hstack([units, _guesses(rows)]).tocsc())
        wide = sparse.csc_array(gram(rows))
        if is_diagonal(wide):
            return cls._untied(rows, mask, wide.diagonal())
        if d > LIMITS.dense:
            null = sparse.hstack([units, _guesses(rows)]).tocsc()
            if fills_in(wide):
                return cls(rows, mask, None, null)
            ridge = 1e-10 * float(wide.diagonal().max(initial=1.0))
            shifted = sparse.csc_array(wide + ridge * sparse.eye_array(d))
            return cls(rows, mask, None, null, wide, splu(shifted))
        seen = np.flatnonzero(touched)
        solved, null = _inverse_and_null(wide.toarray()[np.ix_(seen, seen)])
        full = np.zeros((d, d))
        full[np.ix_(seen, seen)] = solved
        lifted = np.zeros((d, null.shape[1]))
        lifted[seen] = null
        basis = sparse.hstack([units, sparse.csc_array(lifted)]).tocsc()
        return cls(rows, mask, full, basis)

    @classmethod
    def _untied(cls, rows: Any, mask: Array, diagonal: Array) -> StructureSolver:
        """Return the solver where S'S is diagonal."""
        free = np.flatnonzero(diagonal == 0)
        inverted = np.divide(1.0, diagonal, out=np.zeros(diagonal.size), where=diagonal > 0)
        units = sparse.csc_array(
            (np.ones(free.size), (free, np.arange(free.size))), (diagonal.size, free.size)
        )
        return cls(rows, mask, sparse.diags_array(inverted), units)

    def absorb(self, residual: Array, *, deadline: Deadline = NEVER) -> Array:
        """Return the smallest ``change`` on the masked rows with ``S' change = residual``."""
        if self.sums is not None:
            return self._by_sums(residual)
        if self.pseudo_inverse is not None:
            found: Array = self.S @ (self.pseudo_inverse @ residual)
            return found
        # The ridge would blow up what least squares leaves alone, and iterations would not end.
        if self.null.shape[1]:
            own = self.null.T @ self.null
            part = spsolve(sparse.csc_array(own), self.null.T @ residual)
            residual = residual - self.null @ part.reshape(own.shape[0], *residual.shape[1:])
        if self.factor is None:
            return lsmr_columns(self.S.T, residual, deadline=deadline)
        y = self.factor.solve(residual)
        for _ in range(3):
            y = y + self.factor.solve(residual - self.gram @ y)
        found = self.S @ y
        return found

    def absorbed(self, rho: Array) -> Array:
        """Return the most that ``absorb`` changes the rows of S, for any ``|residual| <= rho``."""
        if self.sums is not None:
            off = rho + abs(self.null) @ (abs(self.null).T @ rho)
            change = np.zeros((self.S.shape[0], *rho.shape[1:]))
            change[self.sums.rows] = self.sums.largest_transposed(off)
            return change
        if self.pseudo_inverse is not None:
            return np.asarray(abs(self.S) @ (abs(self.pseudo_inverse) @ rho))
        length = np.linalg.norm(rho, axis=0) / self.smallest()
        return np.broadcast_to(length, (self.S.shape[0], *rho.shape[1:])).copy()

    def _by_sums(self, residual: Array) -> Array:
        """Return the one ``change`` with ``S' change = residual`` but for the null space."""
        assert self.sums is not None
        change = np.zeros((self.S.shape[0], *residual.shape[1:]))
        for _ in range(2):  # the second round removes the first one's rounding
            left = residual - self.S.T @ change
            left = left - self.null @ (self.null.T @ left)
            change[self.sums.rows] += self.sums.apply_transposed(left)
        return change

    def smallest(self) -> float:
        """Return an estimate from below of the smallest singular value of a large structure."""
        rng = np.random.default_rng(0)
        v = self.S.T @ rng.standard_normal(self.S.shape[0])
        if self.factor is None:
            norm, condition = lsmr(self.S.T, v, maxiter=5000)[5:7]
            return float(norm / condition) / 10
        value = 0.0
        for _ in range(10):
            v = v / np.linalg.norm(v)
            w = self.S.T @ self.absorb(v) if self.null.shape[1] else v
            y = self.factor.solve(w)
            value, v = float(np.linalg.norm(y)), y
        return 0.5 / np.sqrt(value) if value > 0 else 0.0


def fills_in(matrix: Any) -> bool:
    """Say whether the Cholesky factor of a symmetric sparse matrix is as good as full."""
    full = max(LIMITS.full * float(matrix.shape[0]) ** 2, 1e6)
    return fill_bound(matrix) > min(full, LIMITS.fill)


def fill_bound(matrix: Any) -> float:
    """Return a bound on the entries of the Cholesky factor of a symmetric sparse matrix.

    The profile in reverse Cuthill-McKee order, columns with one neighbor taken out before: they
    never fill in, and make the profile of a tree as long as that of anything else.
    """
    pattern = sparse.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    for _ in range(30):  # the depth of a bushy tree; a long one has a small profile as it is
        inner = np.flatnonzero(np.diff(pattern.indptr) > 2)
        if inner.size == pattern.shape[0]:
            break
        pattern = sparse.csr_array(pattern[inner][:, inner])
    if not inner.size:
        return float(matrix.nnz)
    order = reverse_cuthill_mckee(sparse.csr_matrix(pattern), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    rows = sparse.csr_array(pattern[order])
    first = np.minimum.reduceat(place[rows.indices], rows.indptr[:-1])
    return float(
        matrix.nnz + (np.arange(order.size) - np.minimum(first, np.arange(order.size))).sum()
    )


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
    if found is not None and 1 / np.diag(found).max() > LIMITS.negligible:
        return found / np.outer(root, root), np.zeros((size, 0))
    # in units in which every column has length one: those of the columns must not decide the rank
    values, vectors = linalg.eigh(scaled)
    live = values > LIMITS.negligible * values[-1]
    null = vectors[:, ~live] / root[:, None]
    solved = (vectors[:, live] / values[live]) @ vectors[:, live].T
    return solved / np.outer(root, root), null / np.linalg.norm(null, axis=0)


def _guesses(rows: Any) -> Any:
    """Return null directions of a large structure: constants on components, polynomials."""
    d = rows.shape[1]
    # columns and rows as the two sides of one graph: S'S would have k^2 edges for a row of k
    sides = sparse.block_array([[None, rows.T], [rows, None]])
    _, labels = np.unique(connected_components(sides, directed=False)[1][:d], return_inverse=True)
    place = np.linspace(-1.0, 1.0, d)
    pieces = sparse.csc_array((np.ones(d), (np.arange(d), labels)))
    powers = sparse.csc_array(np.stack([place, place**2, place**3], axis=1))
    candidates = sparse.hstack([pieces, powers]).tocsc()
    size = np.asarray(abs(rows @ candidates).max(axis=0).todense()).ravel()
    scale = np.asarray((abs(rows) @ abs(candidates)).max(axis=0).todense()).ravel()
    touched = np.asarray(abs(rows).sum(axis=0)).ravel()[candidates.argmax(axis=0)] > 0
    return candidates[:, (size <= 1e-12 * scale) & touched]


def lsmr_columns(matrix: Any, right: Array, *, deadline: Deadline = NEVER) -> Array:
    """Solve ``matrix @ result = right`` in least squares, column by column while there is time."""
    columns = right[:, None] if right.ndim == 1 else right
    out = np.zeros((matrix.shape[1], columns.shape[1]))
    for k, column in enumerate(columns.T):
        if deadline.passed():
            break
        out[:, k] = lsmr(matrix, column, atol=1e-15, btol=1e-15, maxiter=5000)[0]
    return out[:, 0] if right.ndim == 1 else out


def as_matrix(A: Any, d: int) -> Any:
    """Return an operator as a CSR array, from products where it has no sparse form."""
    if offers(A, Has.SPARSE):
        return sparse.csr_array(A.tosparse())
    return sparse.csr_array(A.matvec(np.eye(d)))
