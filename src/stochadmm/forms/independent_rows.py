"""A structure of independent rows and no other penalty: a plain penalty in changed variables.

Differences D of order k have the right inverse R (running sums) and the free directions N
(polynomials), so that ``w = R v + N a`` and ``h(D w) = h(v)``: what ties columns becomes what
holds them one by one, and working sets serve. The free columns fit the rows whatever v does; left
as they are they hide what each v does. With ``X N = Q T`` and ``c`` in their place

    X w = sqrt(n) Q c + (X R - Q Q' X R) v,        T a = sqrt(n) c - Q' X R v,

the same problem for every loss, since c is free.

Coefficients that are rounded have differences that are not zero: thousands of them, times a large
strength, cost more than the gap that is asked for. Running sums of multiples of one power of two
are exact, so that w is rounded to a grid on which D w is what it should be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from scipy import linalg, sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..penalties import Stacked, Zero
from ..problem import Pair, Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.finite_sum import as_finite_sum, dense_rows, times_sparse
from .one_block import OneBlock, has_one_block, one_block
from .running_sums import RunningSums

NUMBERS = 5e7
"""Entries of the new rows, at most: 400 MB."""


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows in the changed variables: free columns first, then those of v."""

    f2: FiniteSum = field(repr=False)
    Q: Array = field(repr=False)
    T: Array = field(repr=False)
    shift: Array = field(repr=False)
    """``Q' X R``."""
    N: Any = field(repr=False)
    sums: RunningSums = field(repr=False)
    size: Array = field(repr=False)
    """Root mean squares of the columns ``X R``, with what rounding of their sums may have added in
    units of float64."""


@dataclass(frozen=True)
class IndependentRows:
    """A problem in the changed variables, and the way there and back."""

    problem: Problem
    reduced: Problem
    rows: NewRows = field(repr=False)
    form: OneBlock = field(repr=False)
    reason: ClassVar[str] = "the rows of the structure are independent: they are the variables"
    keeps_x2: ClassVar[bool] = False
    keeps_zeros: ClassVar[bool] = True
    """Zeros of v are zeros of the structure, but for the rounding of sums."""
    parts: ClassVar[tuple[str, ...]] = ()
    needs_gradient: ClassVar[bool] = True

    @classmethod
    def of(cls, problem: Problem, workspace: Workspace) -> IndependentRows | None:
        """Return the problem in changed variables, made once; None where it has no such form."""
        f2 = loss_of_rows(problem.f2)
        if f2 is None or f2.n_outputs is not None or problem.A2 is None:
            return None
        if not has_one_block(problem):
            return None
        if f2.n_terms * f2.n_columns > NUMBERS:
            return None
        return workspace.once(_changed, problem, workspace)

    def __recipe__(self) -> tuple[Any, ...]:
        return (self.problem,)

    @classmethod
    def __made__(cls, problem: Problem, workspace: Workspace) -> IndependentRows | None:
        return cls.of(problem, workspace)

    def up(self, c: Array) -> Pair:
        """Return the pair of given coordinates."""
        rows, k = self.rows, len(self.rows.T)
        c = np.asarray(c, dtype=np.float64)
        right = np.sqrt(len(rows.Q)) * c[:k] - rows.shift @ c[k:]
        w = rows.sums.apply(c[k:]) + rows.N @ linalg.solve_triangular(rows.T, right)
        zero, dtype = self.problem.zeros().x1, self.problem.dtype
        plain = self.problem.feasible(Pair(zero, w.astype(dtype)))
        wanted = self.reduced.penalty(self.pair(c))
        if self.problem.penalty(plain) <= (1 + 1e-9) * wanted:
            return plain
        exact = self.problem.feasible(Pair(zero, rows.sums.on_grid(w, dtype)))
        values = [self.problem.f2.value(x.x2) + self.problem.penalty(x) for x in (plain, exact)]
        return exact if values[1] < values[0] else plain

    def down(self, x: Pair) -> Array:
        """Return the coordinates of a pair."""
        f2 = as_finite_sum(self.problem.f2)
        w = np.asarray(x.x2, dtype=np.float64)
        z = f2.predict(w) - (0.0 if f2.offset is None else f2.offset)
        c = self.rows.Q.T @ z / np.sqrt(len(self.rows.Q))
        return np.concatenate([c, (self.form.S @ w)[self.form.mask]])

    def pair(self, c: Array) -> Pair:
        """Return coordinates as a pair of the new problem."""
        return Pair(self.reduced.zeros().x1, c)

    def down_dual(self, x: Pair, dual: Array, gradient: Array | None) -> Array | None:
        """Return no multiplier: the new problem has no constraint."""
        return None

    def up_dual(self, mu: Array, gradient: Array | None) -> Array:
        """Return the multiplier that goes with a gradient of f2: there is only one."""
        whole = np.zeros_like(self.form.offset)
        if gradient is not None:
            whole[self.form.mask] = -self.rows.sums.apply_transposed(
                np.asarray(gradient, np.float64)
            )
        return self.form.to_multiplier(whole)

    def bound(self, bound: float | None, c: Array) -> float | None:
        """Return a lower bound of the problem itself for one of the new problem.

        Its rows differ from ``[X N, X R]`` by rounding, 64 units of it for the sums in products:
        so much a dual point may be off, which costs at most the violation times the penalty.
        """
        if bound is None or not np.isfinite(bound):
            return bound
        f2, unit = as_finite_sum(self.reduced.f2), 64 * np.finfo(float).eps
        c = np.asarray(c, dtype=np.float64)
        z = f2.predict(c)
        objective = f2.value_at(z) + float(cast(Any, self.reduced.h2).value(c))
        u = np.asarray(f2.loss.derivative(z, f2.y), dtype=np.float64)
        size = float(np.sqrt(np.mean(u * u)))
        part = cast(Any, self.reduced.h2).parts[-1][0]
        off = part.violation(unit * size * self.rows.size)
        held = float(np.max(off, initial=0.0)) * abs(objective)
        return bound - held - unit * size * float(np.sqrt(np.mean(z * z)))


def _changed(problem: Problem, workspace: Workspace) -> IndependentRows | None:
    form = one_block(problem, workspace)
    live = [(part, rows) for part, rows in form.parts if form.mask[rows].any()]
    if len(live) != 1 or form.offset.any() or form.is_through:
        return None
    part, rows = live[0]
    if not form.mask[rows].all() or not offers(part, Has.VIOLATION):
        return None
    f2 = as_finite_sum(problem.f2)
    data = workspace.rows.once(_new_rows, f2, form.structure, rows.start, rows.stop)
    if data is None:
        return None
    h2 = Stacked([(Zero(), len(data.T)), (part, rows.stop - rows.start)])
    return IndependentRows(problem, Problem(data.f2, h2=h2), data, form)


def _new_rows(f2: FiniteSum, of: Any, start: int, stop: int) -> NewRows | None:
    """Return the rows in the changed variables, None where there are too many free ones."""
    S = of.S[start:stop]
    sums = RunningSums.of(S)
    # one with one: of rows in another order the penalties would have to be put in order
    if sums is None or sums.rows.size < stop - start or (np.diff(sums.rows) != 1).any():
        return None
    if sums.order < 2:  # chains fuse their columns, which serves them as well
        return None
    N = sparse.csr_array(sums.null_basis())
    if not 0 < N.shape[1] <= min(200, f2.n_terms // 2):
        return None
    # sums in the longest type: in float64 they would lose a factor of d
    X = dense_rows(f2).astype(np.longdouble)
    Z = np.asarray(sums.apply_transposed(X.T).T, dtype=np.float64)
    free = times_sparse(f2, N)
    Q, T, pivots = linalg.qr(free, mode="economic", pivoting=True)
    size = np.abs(np.diag(T))
    # without directions that neither the rows nor the penalty see, beside the others
    rank = int(np.count_nonzero(size > 1e-10 * size.max()))
    Q, T, N = Q[:, :rank], T[:rank, :rank], N[:, pivots[:rank]]
    shift = Q.T @ Z
    inner = Z - Q @ shift
    inner -= Q @ (Q.T @ inner)
    data = np.concatenate([np.sqrt(len(Q)) * Q, inner], axis=1)
    new = FiniteSum(f2.loss, data, np.asarray(f2.y), f2.weight, offset=f2.offset)
    # R has entries of one sign per column: this is |R|' times the sizes of the columns of X, in
    # units of rounding of the longest type, which is no longer than float64 on some processors
    terms = np.abs(sums.apply_transposed(np.sqrt(np.mean(X * X, axis=0))))
    units = sums.order * len(sums.columns) * np.finfo(X.dtype).eps / np.finfo(float).eps
    size = np.sqrt(np.mean(Z * Z, axis=0)) + units / 64 * terms
    return NewRows(new, Q, T, shift, N, sums, np.asarray(size, dtype=np.float64))
