"""One sparse factor of ``L = S' sigma S`` for thousands of columns that a structure couples.

The rows of the data come beside it: few of them as a correction of the factor (Sherman, Morrison,
Woodbury), many as one square matrix. `docs/design/wide.md` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrs
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ..base.protocols import Array
from ..forms.one_block import OneBlock
from ..forms.structure import Structure, fills_in
from ..penalties import segments
from ..risk import FiniteSum
from ..risk.finite_sum import dense_rows
from ..risk.metrics import column_energies
from ..risk.targets import sample_weights
from .composite import Composite

FEW_ROWS = 3000
"""Rows up to which they are a correction of the factor: the matrix of it is dense."""
LONG = 60
"""Entries from which on a row of the structure is long: it would fill the factor."""
FEW_LONG = 300
"""Long rows up to which they are a correction of the factor, too."""

# ---------------------------------------------------------------- penalties in units of their rows


@dataclass(frozen=True)
class ScaledPenalties:
    """The penalties one after the other, and weights sigma of their rows.

    Rows of different penalties may differ by orders of magnitude (differences of columns in small
    units beside the columns themselves). Sigma is one over their mean squared length, so that how
    a penalty is written does not decide about speed.
    """

    parts: list[tuple[Any, slice, float]]
    sigma: Array

    def prox(self, v: Array, rho: float) -> Array:
        """Return ``argmin_z h(z) + rho/2 sum_r sigma_r (z_r - v_r)^2``."""
        out = np.empty_like(v)
        for part, rows, weight in self.parts:
            part.prox(v[rows], 1 / (rho * weight), out=out[rows])
        return out


def scaled_penalties(form: OneBlock) -> ScaledPenalties:
    """Take stacks of penalties apart and measure the rows that are penalized."""
    length2: Array = np.where(form.mask, form.S.power(2).sum(axis=1), 0.0)
    parts, sigma = [], np.ones(form.S.shape[0])
    for part, rows in segments(form.stacked_penalty, form.S.shape[0]):
        filled = length2[rows][length2[rows] > 0]
        sigma[rows] = 1.0 / float(filled.mean()) if filled.size else 1.0
        parts.append((part, rows, float(sigma[rows][0]) if rows.stop > rows.start else 1.0))
    return ScaledPenalties(parts, sigma)


# ---------------------------------------------------------------- the structure's own matrix


@dataclass(frozen=True)
class FactoredStructure:
    """The penalized rows of S, and the inverse of ``L = S' sigma S + diag(shift)``.

    Where S leaves directions free (an intercept, the mean of a graph) the shift, a small multiple
    of the data's own diagonal, makes L definite. The splitting treats it as further rows of S
    without a penalty, so that only the way to the solution is changed by it.
    """

    S: Any
    St: Any
    sigma: Array
    gram: Any = field(repr=False)
    """``S' sigma S`` of the rows that are not long."""
    long: Any = field(repr=False)
    """The long rows, times the roots of their weights; None where there are none."""
    shift: Array | None
    """None where S'S is definite."""
    solve: Callable[[Array], Array] = field(repr=False)
    """Returns ``L^-1 right`` for one or several right-hand sides."""

    def product(self, y: Array) -> Array:
        """Return ``S' sigma S y``."""
        short = self.gram @ y
        return np.asarray(short if self.long is None else short + self.long.T @ (self.long @ y))

    def absorb(self, residual: Array, exact: bool = True) -> Array:
        """Return the smallest change of the multiplier with ``S' change = residual``.

        Smallest in units of sigma. Conjugate gradients with L in front take back what the shift,
        or rounding, has left; one step of them where there is no shift. What rounding leaves stays
        unless it is to be ``exact``.
        """
        y = self.solve(residual)
        if not exact and self.shift is None:
            return np.asarray(self.sigma * (self.S @ y))
        remainder = residual - self.product(y)
        best, least = y, float(np.linalg.norm(remainder))
        done = 1e-13 * float(np.linalg.norm(residual))  # a few hundred units of rounding
        step, before, stalled = np.zeros_like(y), np.inf, 0
        for _ in range(1 if self.shift is None else 30):
            # after four steps that leave more, rounding is what is left
            if least <= done or stalled > 4:
                break
            direction = self.solve(remainder)
            now = float(remainder @ direction)
            step = direction + (now / before) * step
            image = self.product(step)
            curvature = float(step @ image)
            if not curvature > 0:
                break
            y, remainder = y + (now / curvature) * step, remainder - (now / curvature) * image
            size, before, stalled = float(np.linalg.norm(remainder)), now, stalled + 1
            if size < least:
                best, least, stalled = y, size, 0
        return np.asarray(self.sigma * (self.S @ best))


def factored_structure(
    S: Any, penalized: Array, sigma: Array, diagonal: Array
) -> FactoredStructure:
    """Factor the penalized rows of S; ``diagonal`` is that of the data's Hessian."""
    rows = sparse.csr_array(sparse.diags_array(penalized.astype(np.float64)) @ S)
    rows.eliminate_zeros()
    turned = sparse.csr_array(rows.T)
    is_long = long_rows(rows)
    long = np.sqrt(sigma[is_long])[:, None] * rows[np.flatnonzero(is_long)].toarray()
    short = sparse.csr_array(sparse.diags_array((~is_long).astype(np.float64)) @ rows)
    short.eliminate_zeros()
    gram = sparse.csr_array(short.T @ (sparse.diags_array(sigma) @ short))
    free, shift = _free_columns(short, gram), None
    if free.any():
        # 1e-7 of the data's diagonal in units of the structure's
        own = gram.diagonal()
        touched = own > 0
        mean = float(diagonal[touched].mean()) if touched.any() else 0.0
        unit = float(own[touched].mean()) / mean if mean > 0 else 1.0
        size = unit * np.maximum(diagonal, 1e-3 * mean) if mean > 0 else 1.0
        shift = np.where(free, 1e-7 * size, 0.0)
    L: Any = sparse.csc_array(gram if shift is None else gram + sparse.diags_array(shift))
    d = L.diagonal()
    solve: Callable[[Array], Array]
    if L.nnz == np.count_nonzero(d):

        def by_diagonal(right: Array) -> Array:
            return np.asarray((right.T / d).T)

        solve = by_diagonal
    elif fills_in(L):
        solve = _by_iterations(L, _constants(gram, free) if free.any() else None)
    else:
        mode = {"SymmetricMode": True}
        solve = splu(L, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=mode).solve

    if not len(long):
        return FactoredStructure(rows, turned, sigma, gram, None, shift, solve)
    # Sherman, Morrison, Woodbury: (L + R'R)^-1 = L^-1 - L^-1 R' (I + R L^-1 R')^-1 R L^-1
    spread = np.asarray(solve(np.ascontiguousarray(long.T)))
    inner = cho_factor(np.eye(len(long)) + long @ spread)

    def with_long(right: Array) -> Array:
        first = solve(right)
        return np.asarray(first - spread @ cho_solve(inner, long @ first))

    return FactoredStructure(rows, turned, sigma, gram, long, shift, with_long)


def _constants(gram: Any, free: Array) -> Any:
    """Return the directions that the structure leaves free, one per component of its columns.

    Along them ``gram`` vanishes. They are constant where its rows are differences, and one free
    column where it has none; other ones are left to the iterations.
    """
    count, label = connected_components(gram, directed=False)
    d = label.size
    N = sparse.csr_array((np.ones(d), (np.arange(d), label)), (d, count))
    whole = np.ones(count, dtype=bool)
    whole[label[~free]] = False
    return sparse.csc_array(N[:, np.flatnonzero(whole)])


def _by_iterations(L: Any, null: Any) -> Callable[[Array], Array]:
    """Return ``right -> L^-1 right`` by conjugate gradients, nearly to rounding.

    For graphs without small separators: their factor is full, and for the same reason they are
    well-conditioned, but for the directions that are free. These are solved for apart.
    """
    inverse = 1.0 / L.diagonal()
    own = None
    if null is not None and null.shape[1]:
        own = 1.0 / (null.T @ (L @ null)).diagonal()

    def precondition(r: Array) -> Array:
        y: Array = (r.T * inverse).T
        return y if own is None else np.asarray(y + null @ (own * (null.T @ r).T).T)

    def solve(right: Array) -> Array:
        r = np.array(right, dtype=np.float64)
        y, done = np.zeros_like(r), 1e-11 * np.linalg.norm(r, axis=0)
        step, before = np.zeros_like(r), np.ones(r.shape[1:])
        for _ in range(500):
            if (np.linalg.norm(r, axis=0) <= done).all():
                break
            z = precondition(r)
            now = (r * z).sum(axis=0)
            step = z + (now / np.maximum(before, 1e-300)) * step
            image = L @ step
            curved = (step * image).sum(axis=0)
            t = np.where(curved > 0, now / np.maximum(curved, 1e-300), 0.0)
            y, r, before = y + t * step, r - t * image, now
        return y

    return solve


def long_rows(S: Any) -> NDArray[np.bool_]:
    """Return which rows of a structure are long, none of them where they are not few."""
    is_long = np.diff(S.indptr) > LONG
    if np.count_nonzero(is_long) > FEW_LONG:
        is_long[:] = False
    return np.asarray(is_long)


def _free_columns(rows: Any, gram: Any) -> Array:
    """Return the columns along which a direction may be free.

    Those of a component in which no row has one entry only; where rows have three entries or
    more, all columns without such a row.
    """
    sizes = np.diff(rows.indptr)
    own = np.zeros(rows.shape[1], dtype=bool)
    own[rows.indices[rows.indptr[:-1][sizes == 1]]] = True
    if own.all() or sizes.max(initial=0) > 2:
        return ~own
    count, label = connected_components(gram, directed=False)
    penalized = np.zeros(count, dtype=bool)
    penalized[label[own]] = True
    return ~penalized[label]


# ---------------------------------------------------------------- the rows beside it


@dataclass(frozen=True)
class FactoredRows:
    """The structure's factor L, and few rows as a correction of it.

    ``B = X L^-1`` and ``K = X L^-1 X'``, with the intercept's column of ones in X, so that the
    data itself is not read again. None with many rows.
    """

    f2: FiniteSum = field(repr=False)
    structure: FactoredStructure
    B: Array | None = field(repr=False)
    K: Array | None = field(repr=False)


def factored_rows(f2: FiniteSum, of: Structure, penalized: bytes, sigma: bytes) -> FactoredRows:
    """Return the rows with the factor of their structure.

    The mask of rows with a penalty and the weights are bytes, so that a workspace knows them by
    value: those of another strength are the same.
    """
    mask, weights = np.frombuffer(penalized, dtype=bool), np.frombuffer(sigma)
    structure = factored_structure(of.S, mask, weights, column_energies(f2))
    if f2.n_terms > FEW_ROWS:
        return FactoredRows(f2, structure, None, None)
    X = dense_rows(f2)
    B = np.ascontiguousarray(structure.solve(np.ascontiguousarray(X.T)).T)
    K = X @ B.T
    return FactoredRows(f2, structure, B, 0.5 * (K + K.T))


def factored(p: Composite) -> FactoredRows:
    """Return the factor of a problem, the same for all strengths on the same rows."""
    return p.workspace.rows.once(factored_rows, *_factored_parts(p))


def reads_of_factor(p: Composite) -> float:
    """Return the reads to make the factor: column energies, and products with the structure's."""
    return 0.0 if p.workspace.rows.holds(factored_rows, *_factored_parts(p)) else 2.0


def _factored_parts(p: Composite) -> tuple[FiniteSum, Structure, bytes, bytes]:
    penalized, sigma = p.form.mask.tobytes(), penalties(p).sigma.tobytes()
    return p.rows, p.form.structure, penalized, sigma


def penalties(p: Composite) -> ScaledPenalties:
    """Return the penalties of a problem in units of their rows."""
    return p.workspace.once(scaled_penalties, p.form)


@dataclass(frozen=True)
class FactorHessian:
    """``H = X' diag(D) X``, D the second derivatives of the rows with weights and 1/n."""

    rows: FactoredRows = field(repr=False)
    curvature: Array = field(repr=False)
    """Second derivatives of the losses at the present predictions."""
    D: Array = field(repr=False)
    fraction: float = 1.0
    is_exact: bool = False

    def quadratic(self, step: Array) -> float:
        return float(self.D @ self.linear(step) ** 2)

    def linear(self, w: Array) -> Array:
        """Return ``X w``, without an offset."""
        z = self.rows.f2.predict(w)
        return z if self.rows.f2.offset is None else z - self.rows.f2.offset

    def damped(self, damping: float) -> FactorHessian:
        f2 = self.rows.f2
        bound, q = float(f2.loss.curvature_bound), sample_weights(f2)
        bound = bound if np.isfinite(bound) else float(self.curvature.max(initial=1.0))
        # 1e-6 of the bound: flat rows stay in the systems below
        D = np.maximum(self.curvature, max(damping, 1e-6) * bound)
        return replace(self, D=(1.0 if q is None else q) / f2.n_terms * D)

    @cached_property
    def gram(self) -> Array:
        """The matrix H of many rows: one read, n d^2 operations in float32."""
        H = self.rows.f2.rows.sandwich(self.D, ones=self.rows.f2.intercept, single=True)
        # makes up for the rounding of products in float32
        H.flat[:: len(H) + 1] += 1e-6 * float(np.trace(H)) / len(H)
        return H

    def product(self, w: Array, linear: Array) -> Array:
        """Return ``H w``, where ``linear = X w`` is known."""
        if self.rows.K is None:  # that of the matrix which the systems are made of
            return np.asarray(self.gram @ w)
        return self.rows.f2.pull_back(self.D * linear)

    def system(self, rho: float) -> Callable[[Array], Array]:
        """Return ``r -> (H + rho L)^-1 r``.

        Few rows: ``(L^-1 r - B' G B r) / rho`` with ``G = (rho D^-1 + K)^-1``.
        """
        structure, B, K = self.rows.structure, self.rows.B, self.rows.K
        if B is None or K is None:
            L, matrix = sparse.coo_array(structure.gram), self.gram.copy()
            matrix[L.coords] += rho * L.data
            if structure.long is not None:
                matrix += rho * (structure.long.T @ structure.long)
            if structure.shift is not None:
                matrix.flat[:: len(matrix) + 1] += rho * structure.shift
            whole = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
            return lambda right: np.asarray(cho_solve(whole, right, check_finite=False))
        root = np.sqrt(self.D)
        inner = root[:, None] * K * root
        # rounding must not take what the penalty adds
        inner.flat[:: len(root) + 1] += max(rho, 1e-14 * float(np.trace(inner)) / len(root))
        factor, lower = cho_factor(inner, lower=True, overwrite_a=True)

        def solve(right: Array) -> Array:
            # without the checks of cho_solve, which cost as much as a few hundred rows
            c = root * dpotrs(factor, root * (B @ right), lower=lower)[0]
            return np.asarray((structure.solve(right) - B.T @ c) / rho)

        return solve


def hessian_by_factor(p: Composite, curvature: Array, damping: float) -> FactorHessian:
    """Return the Hessian of given second derivatives of the losses."""
    return FactorHessian(factored(p), curvature, curvature).damped(damping)
