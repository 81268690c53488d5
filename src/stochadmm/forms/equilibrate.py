"""Columns and constraint rows in units that a solver can work with, and the answer back.

A problem whose columns differ by many powers of ten is the same problem in other words: with
D a diagonal matrix of powers of two and m numbers for the columns that are far from zero,

    X x + c = (X - 1 m') D v + e,      x = D v,   e = c + m' x,

penalties and constraint see ``D v`` instead of x, and an intercept that no penalty sees takes the
shift. Multiplying by powers of two is exact, and a column is shifted only where every subtraction
is, so that both problems have the same optimal value and lower bounds carry over. Zeros of sparse
data stay zeros.

Of two columns that no penalty holds apart and that are nearly equal, or opposite, the second
becomes the difference where all subtractions are exact:

    a w1 + b w2 = a (w1 + w2) + (b - a) w2.

Whatever is made of squares of the two would lose twice the digits that their difference has.

The rows of a general constraint may be multiplied by powers of two R as well, which leaves the
feasible pairs, and with them F and every bound, as they are:

    R A1 x1 + R A2 x2 = R b,      multiplier in the units of the user:  lambda = R lambda'.

In a model, A1 = s I, the first block takes part, x1' = R x1, and A1 stays. The size of a row of
the structure is then a strength of its penalty. Strengths so large that the row is zero at every
point that matters are replaced by smaller ones, infinite ones too: this F is at most that of the
user, so its lower bounds hold, and where the row is exactly zero both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import norm as sparse_norm

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.workspace import Workspace
from ..data import DENSE, DenseRows, Rows
from ..linear_algebra.affine import as_sparse
from ..operators import (
    Composed,
    Identity,
    VStack,
    as_operator,
    identity_scale,
    row_sizes,
    rows_times,
)
from ..penalties import ElementwisePenalty, Stacked, Zero, held_at_zero, segments
from ..problem import Pair, Problem, objective_at_zero
from ..risk import FiniteSum, loss_of_rows

SPREAD = 1e4
"""Ratio of the largest to the smallest typical entry of a column from which on columns are scaled:
squared, as Hessians have it, 1e8 is half of the digits of float64."""
EXTREME = 1e8
"""How many times larger or smaller than one all columns may be: squares and products of two such
numbers are numbers of float32."""
OFF_CENTER = 1e3
"""Ratio of mean to deviation from which on a column is shifted where a free intercept takes the
shift: squared, a Hessian loses six digits to the nearly dependent pair."""
TINY = float(np.finfo(np.float64).tiny)
SAMPLE = 200
"""Rows that the decision looks at; units do not hide."""


def _some_rows(f2: FiniteSum) -> Rows:
    n = f2.n_terms
    return f2.rows if n <= SAMPLE else f2.rows.take(slice(None, None, n // SAMPLE))


@dataclass(frozen=True)
class Units:
    """A problem, the same problem in other units, and the way between their points."""

    original: Problem
    problem: Problem
    scale: Array
    """D, one number per row of x2, powers of two."""
    shift: Array | None
    """m, one number per row of x2; None where no column is shifted."""
    moved: bool
    """Whether h2 became a part of h1, its rows after those of A1."""
    rows: Array | None = None
    """R, one power of two per row of the constraint; None where they are as they were."""
    ties: Array | None = None
    """Rows of a structure whose strengths are so large that they were limited; in a model R is
    that of x1 as well. None where the constraint is no structure."""
    pairs: Array | None = None
    """Columns whose coefficients became sums, those that became differences from them, and 1, or
    -1 where it is the other way round."""

    def into(self, x: Pair) -> Pair:
        """Return a point in the units of the solver."""
        x2 = self._summed(np.array(x.x2), 1)
        if self.shift is not None:
            x2[-1] = self._intercept(x2, 1)
        x1, v = x.x1, (x2 / self._column(x2)).astype(x2.dtype)
        if not self.moved:
            return Pair(self._first(x1, 1), v)
        return self.problem.feasible(Pair(np.zeros(self.problem.shape1, x2.dtype), v))

    def back(self, x: Pair) -> Pair:
        """Return a point in the units of the user."""
        most = np.finfo(x.x2.dtype).max
        with np.errstate(over="ignore"):  # what has no number ends at the largest there is
            x2 = np.clip(x.x2 * self._column(x.x2), -most, most).astype(x.x2.dtype)
        if self.shift is not None:
            x2[-1] = self._intercept(x2, -1)
        return Pair(self._first(x.x1, -1)[: self.original.shape1[0]], self._summed(x2, -1))

    def _summed(self, x2: Array, sign: int) -> Array:
        """Return coefficients with those of nearly equal columns added up, or the way back."""
        if self.pairs is not None:
            wide = x2.astype(np.longdouble)  # they cancel
            one, two, alike = self.pairs
            np.add.at(wide, one, (sign * alike * wide[two].T).T)
            x2 = wide.astype(x2.dtype)
        return x2

    def _first(self, x1: Array, power: int) -> Array:
        if self.rows is None or self.ties is None:
            return x1
        return cast(Array, (x1.T * self.rows**power).T.astype(x1.dtype))

    def within(self, x: Pair) -> Pair:
        """Return the feasible pair of the user's model at x2, ties exact where they are exact.

        Products that are fused with sums (BLAS, some processors) leave ``c w - c w`` at rounding
        of c w, which is no small number where c is 1e20.
        """
        made = self.original.feasible(x)
        if self.ties is None or not self.ties.size or self.original.b is not None:
            return made
        scale = cast(float, identity_scale(self.original.A1))
        rows = as_sparse(self.original.A2)[self.ties]
        x1, which = made.x1, np.repeat(np.arange(self.ties.size), np.diff(rows.indptr))
        products = (rows.data * made.x2[rows.indices].T).T
        x1[self.ties] = 0.0
        np.add.at(x1, self.ties[which], products / -scale)
        return Pair(x1, made.x2)

    def limited(self, x: Pair) -> float:
        """Return by how much limits of strengths have lowered F at a point of the user."""
        if self.ties is None or not self.ties.size:
            return 0.0
        inside = self.problem.feasible(self.into(x))
        return self.original.penalty(self.within(x)) - self.problem.penalty(inside)

    def _intercept(self, x2: Array, sign: int) -> Any:
        """Return ``c +- m' x`` with as many digits as there are: its terms cancel."""
        wide = x2.astype(np.longdouble)
        terms = cast(Array, self.shift).reshape(-1, *(1,) * (x2.ndim - 1)) * wide
        return (wide[-1] + sign * terms.sum(axis=0)).astype(x2.dtype)

    def into_gradient(self, gradient: Array) -> Array:
        """Return a gradient in x2 as one in the units of the solver."""
        pulled = np.array(gradient, dtype=np.float64)
        if self.pairs is not None:
            one, two, alike = self.pairs
            pulled[two] -= (alike * pulled[one].T).T
        if self.shift is not None:
            pulled -= self.shift.reshape(-1, *(1,) * (pulled.ndim - 1)) * pulled[-1]
        return cast(Array, pulled * self._column(pulled))

    def into_dual(self, dual: Array) -> Array:
        """Return a multiplier with zeros for the rows that were added."""
        more = self.problem.shape_dual[0] - dual.shape[0]
        whole = np.concatenate([dual, np.zeros((more, *dual.shape[1:]), dual.dtype)])
        return whole if self.rows is None else (whole.T / self.rows).T.astype(dual.dtype)

    def back_dual(self, dual: Array) -> Array:
        """Return the multiplier of the original constraint."""
        whole = dual if self.rows is None else (dual.T * self.rows).T.astype(dual.dtype)
        return whole[: self.original.shape_dual[0]]

    def describe(self) -> str:
        """Return in words what was done to the columns and the rows of the constraint."""
        done = []
        for name, scale in (("columns", self.scale), ("constraint rows", self.rows)):
            if scale is not None and (scale != 1).any():
                low, high = int(np.log2(scale.min())), int(np.log2(scale.max()))
                done.append(f"{name} multiplied by 2^{low} to 2^{high} inside")
        if self.ties is not None and self.ties.size:
            done.append("strengths of ties limited")
        if self.shift is not None:
            done.append(f"{np.count_nonzero(self.shift)} shifted against the intercept")
        if self.pairs is not None:
            done.append(f"{self.pairs.shape[1]} replaced by differences from nearly equal ones")
        return ", ".join(done)

    def _column(self, like: Array) -> Array:
        return self.scale if like.ndim == 1 else self.scale[:, None]


def equilibrated(
    problem: Problem,
    *,
    rows: bool = True,
    workspace: Workspace | None = None,
) -> Units | None:
    """Return a problem in better units, None where it is well scaled or cannot be restated.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X = np.array([[1.0, 3e9], [2.0, 5e9], [-1.0, 1e9]])
    >>> problem = sa.Problem.linear(sa.Squared(), X, np.ones(3), on_coefficients=sa.L1(0.1))
    >>> units = equilibrated(problem)
    >>> np.abs(units.problem.f2.X).max() < 4, np.log2(units.scale)
    (np.True_, array([ -1., -32.]))
    """
    workspace = workspace or Workspace()
    apart = workspace.once(_told_apart, problem, workspace)
    given, pairs = (problem, None) if apart is None else apart
    units = _even_columns(given, workspace)
    units = _even_rows(given, units, workspace) if rows else units
    if pairs is None:
        return units
    units = units or Units(given, given, np.ones(given.shape2[0]), None, False)
    return replace(units, original=problem, pairs=pairs)


# ---------------------------------------------------------------- nearly equal columns


def _told_apart(problem: Problem, workspace: Workspace) -> tuple[Problem, Array] | None:
    """Return a problem in sums and differences of nearly equal columns, and which they are."""
    f2 = loss_of_rows(problem.f2)
    if f2 is None or f2.storage != DENSE or f2.dtype != np.float64:
        return None
    d, A2 = f2.n_features, cast(Any, problem.A2)
    free, kind = np.ones(d, dtype=bool), np.zeros(d)
    if problem.h2 is not None:
        terms = compiled_terms(problem.h2, problem.shape2[0])
        if terms is None or not all(term.separable for term in terms):
            return None
        held = list[Array]()
        for term in terms:
            l1, l2, low, high = term.per_row()
            own = (l1 != 0) | (l2 != 0) | np.isfinite(low) | np.isfinite(high)
            held.append(own.reshape(term.size, -1).any(axis=1))
        free = ~np.concatenate(held)[:d]
    if np.count_nonzero(free) < 2 or not workspace.rows.once(_any_alike, f2):  # as mostly
        return None
    if A2 is not None:
        if not offers(A2, Has.SPARSE):
            return None
        A = sparse.csr_array(A2.tosparse())
        kind = (A.T @ np.random.default_rng(0).standard_normal(A.shape[0]))[:d]
    columns = np.flatnonzero(free)
    if np.unique(np.abs(kind[columns])).size == columns.size:  # all are told apart
        return None
    found = workspace.rows.once(_pairs, f2, columns.tobytes(), kind[columns].tobytes())
    if found is None:
        return None
    pairs, data = found
    if A2 is not None:
        if (A[:, pairs[0]] @ sparse.diags_array(1.0 * pairs[2]) != A[:, pairs[1]]).nnz:
            return None
        keep = np.ones(A.shape[1])
        keep[pairs[1]] = 0.0
        A = sparse.csr_array(A @ sparse.diags_array(keep))
        A.eliminate_zeros()
        A2 = as_operator(A)
    return replace(problem, f2=data, A2=A2), pairs


def _any_alike(f2: FiniteSum) -> bool:
    """Say whether two columns may be nearly equal or opposite, by one number of each."""
    rows = _some_rows(f2).dense()
    place = np.random.default_rng(0).standard_normal(len(rows)) @ rows
    size = np.sqrt(np.einsum("ij,ij->j", rows, rows))
    order = np.argsort(np.abs(place))
    near = np.diff(np.abs(place)[order]) <= 1e-3 * size[order[1:]]
    return bool(near.any())


def _pairs(f2: FiniteSum, columns: bytes, kinds: bytes) -> tuple[Array, FiniteSum] | None:
    """Return nearly equal columns of one kind, and the rows with differences for the second."""
    among, kind = np.frombuffer(columns, np.intp), np.frombuffer(kinds)
    rows = _some_rows(f2).dense()[:, among]
    place = np.random.default_rng(0).standard_normal(len(rows)) @ rows
    size = np.linalg.norm(rows, axis=0)
    sense = np.where(np.where(kind != 0, kind, place) < 0, -1, 1)
    place, kind = sense * place, np.abs(kind)
    order = np.lexsort((place, kind))
    X, pairs, first = f2.X, list[tuple[int, int, int]](), order[0]
    for j in order[1:]:
        if kind[j] != kind[first] or abs(place[j] - place[first]) > 1e-3 * size[j]:
            first = j
            continue
        alike = sense[j] * sense[first]
        a, b = alike * X[:, among[first]], X[:, among[j]]
        apart = _difference(b, a)
        if apart is None:
            continue
        # from 1e-5 of the columns on squares have digits enough; a difference of less than some
        # hundred units of rounding is what rounding has made of equal columns
        if 1e-13 <= np.abs(apart).max() / np.abs(a).max(initial=TINY) <= 1e-5:
            pairs.append((among[first], among[j], alike))
    if not pairs:
        return None
    found = np.array(pairs).T
    changed = np.array(X)
    changed[:, found[1]] -= found[2] * X[:, found[0]]
    return found, f2.changed(X=DenseRows(changed))


def _difference(a: Array, b: Array) -> Array | None:
    """Return ``a - b`` where no subtraction is rounded, else None."""
    moved = a - b
    # the rounding of a difference, by Knuth: it is itself a floating point number
    virtual = moved - a
    error = (a - (moved - virtual)) + (-b - virtual)
    return None if error.any() else np.asarray(moved)


# ---------------------------------------------------------------- rows of the constraint


def _even_rows(problem: Problem, units: Units | None, workspace: Workspace) -> Units | None:
    """Return units in which the rows of the constraint have about the length one too."""
    made = problem if units is None else units.problem
    if made.A1 is None or made.A2 is None:
        return units
    if made.is_model:
        return _even_structure(problem, units, workspace)
    lengths = workspace.shared.once(_row_lengths, made.A1, made.A2)
    if lengths is None or not lengths.any():
        return units
    seen = lengths[lengths > 0]
    if seen.max() <= 8.0 * seen.min():  # the steps of ADMM need about as many times more
        return units
    power = -np.round(np.log2(np.where(lengths > 0, lengths, 1.0)))
    scale = 2.0 ** np.clip(power, -100, 100)  # a number of float32 as well
    A1, A2 = (workspace.shared.once(_rows_times, scale.tobytes(), A) for A in (made.A1, made.A2))
    b = None if made.b is None else (made.b.T * scale).T.astype(made.b.dtype)
    even = replace(made, A1=A1, A2=A2, b=b)
    if units is not None:
        return replace(units, problem=even, rows=scale)
    return Units(problem, even, np.ones(problem.shape2[0]), None, False, scale)


def _even_structure(problem: Problem, units: Units | None, workspace: Workspace) -> Units | None:
    """Return units in which the rows of a structure have the size one, and no strength is huge."""
    made = problem if units is None else units.problem
    sizes = workspace.shared.once(row_sizes, made.A2)
    if sizes is None or made.h1 is None:
        return units
    strength = _strengths(made.h1, sizes.size)
    used = (strength > 0) & (sizes > 0)
    if not used.any():
        return units
    with np.errstate(over="ignore"):
        total = np.where(used, strength * sizes, 0.0)
    even = sizes[used].max() <= SPREAD * sizes[used].min()
    if even and total.max() <= EXTREME * total[used].min():
        return units
    # derivatives of the losses are about as large as F(0) or its root, and columns about one: 1e12
    # times that ties whatever it joins
    start = abs(objective_at_zero(made, workspace)) or 1.0
    most = 2.0**40 * max(start, start**0.5)
    if even and total.max() <= 2.0**20 * most:  # so that nothing is limited twice
        return units
    scale = 2.0 ** -np.where(used, np.round(np.log2(np.where(used, sizes, 1.0))), 0.0)
    parts = [
        (part.capped(1 / scale[rows], most), rows.stop - rows.start)
        if isinstance(part, ElementwisePenalty)
        else (part, rows.stop - rows.start)
        for part, rows in segments(made.h1, sizes.size)
    ]
    h1 = parts[0][0] if len(parts) == 1 else Stacked(parts)
    A2 = workspace.shared.once(_rows_times, scale.tobytes(), made.A2)
    b = None if made.b is None else (made.b.T * scale).T.astype(made.b.dtype)
    made = replace(made, h1=h1, A2=A2, b=b)
    ties = np.flatnonzero(total[: problem.shape_dual[0]] > EXTREME * total[used].min())
    if units is not None:
        return replace(units, problem=made, rows=scale, ties=ties)
    return Units(problem, made, np.ones(problem.shape2[0]), None, False, scale, ties)


def _strengths(h1: Any, n_rows: int) -> Array:
    """Return the l1 norm's factor of every row, infinite where bounds hold it at zero."""
    strength = np.zeros(n_rows)
    for part, rows in segments(h1, n_rows):
        if isinstance(part, ElementwisePenalty):
            strength[rows] = part.strengths(rows.stop - rows.start)
    return strength


def with_even_structure(problem: Problem, workspace: Workspace) -> Problem:
    """Return a model with the rows of its structure of size one and huge strengths held by bounds.

    The coefficients are the same, and so is every strength from which on they are tied.
    """
    units = None
    if problem.is_model and problem.A2 is not None:
        units = _even_structure(problem, None, workspace)
    if units is None:
        return problem
    made = units.problem
    strength = _strengths(made.h1, made.shape1[0])
    held = strength > EXTREME * strength[strength > 0].min()
    parts = [
        (held_at_zero(part, held[rows]) if held[rows].any() else part, rows.stop - rows.start)
        for part, rows in segments(made.h1, held.size)
    ]
    return replace(made, h1=Stacked(parts))


def _row_lengths(A1: Any, A2: Any) -> Array | None:
    """Return the norms of the rows of [A1, A2], None where one of them has no matrix."""
    blocks = [as_sparse(A) for A in (A1, A2)]
    if any(block is None for block in blocks):
        return None
    return np.hypot(*(sparse_norm(block.astype(np.float64), axis=1) for block in blocks))


def _rows_times(scale: bytes, A: Any) -> Any:
    A = A if offers(A, Has.SPARSE) else as_operator(as_sparse(A))
    return rows_times(np.frombuffer(scale), A)


# ---------------------------------------------------------------- columns


def _even_columns(problem: Problem, workspace: Workspace) -> Units | None:
    """Return units in which columns have about the same size, None where they need none."""
    f2 = loss_of_rows(problem.f2)
    # singular values of scaled rows have no prox; the low-rank methods choose their own metric
    if f2 is None:
        return None
    both = ((problem.h1, problem.shape1), (problem.h2, problem.shape2))
    if any(offers(p, Has.FACTORS) for h, shape in both for p, _ in segments(h, shape[0])):
        return None
    if workspace.rows.once(_plainly_even, f2):
        return None
    size, ratio, _ = _columns(_some_rows(f2))
    # A column that a structure couples to others may be 30 times smaller: its coefficient is near
    # theirs, and other units would hide what the structure is. Of thousands of columns with an
    # entry or two each, some are that small by chance.
    usual = float(np.median(size[size > 0])) if size.any() else 0.0
    larger = np.maximum(size, np.minimum(30.0 * size, usual))
    size = np.where(_coupled(problem), larger, size)
    seen = np.append(size[size > 0], np.ones(int(f2.intercept)))
    uneven = seen.size > 0 and (
        seen.max() > min(SPREAD * seen.min(), EXTREME) or seen.min() < 1 / EXTREME
    )
    free = free_intercept(problem)
    far = bool((ratio > OFF_CENTER).any()) and free
    if not uneven and not far:
        return None
    shift = workspace.rows.once(_shifts, f2) if free else None
    if not uneven and shift is None:
        return None
    made, tied = None, _tied(problem)
    for _ in range(2):
        # the strengths of a path share their rows
        data, scale = workspace.rows.once(_scaled_data, f2, shift, tied.tobytes())
        full = np.append(scale, 1.0) if f2.intercept else scale
        if shift is None and (full == 1).all():  # the rows that were looked at are not like all
            return None
        made = _restated(problem, data, full)
        if made is None or not made[1]:
            break
        tied = np.ones_like(tied)  # a penalty of coefficients has become a structure
    if made is None:
        return None
    if shift is not None and f2.intercept:
        shift = np.append(shift, 0.0)
    return Units(problem, made[0], full, shift, made[1])


def _plainly_even(f2: FiniteSum) -> bool:
    """Say whether a look at sums and squares of dense columns shows that nothing is to be done.

    Zeros make the entries of a column at most sqrt(n) times larger than its root mean square.
    """
    rows = _some_rows(f2)
    n = rows.shape[0]
    if rows.storage != DENSE or rows.dtype != np.float64:
        return False
    X = rows.dense()
    squares, total = np.einsum("ij,ij->j", X, X), X.sum(axis=0)
    top, low = float(squares.max(initial=0.0)), float(squares.min(initial=np.inf))
    if f2.intercept:
        top, low = max(top, float(n)), min(low, float(n))
    even = n * top <= SPREAD**2 * low < np.inf
    even = even and top <= EXTREME**2 and low * EXTREME**2 >= n
    return bool(even and (total * total <= 0.9 * n * squares).all())


def _columns(rows: Rows) -> tuple[Array, Array, Array]:
    """Return, per column, the size of its entries, mean over deviation, and mean.

    The size is the root mean square of the entries other than zero; columns with zeros have no
    ratio: they are not moved.
    """
    n, of = rows.shape[0], rows.column_moments()
    size = of.unit * np.sqrt(of.squares / np.maximum(of.count, 1)) * (of.count > 0)
    mean = of.total / n
    deviation = np.sqrt(np.maximum(of.squares / n - mean**2, 1e-32))
    full = (of.count == n) & (n > 1)
    return size, np.where(full, np.abs(mean) / deviation, 0.0), of.unit * mean


def _shifts(f2: FiniteSum) -> Array | None:
    """Return what to subtract from each column without rounding; None where nothing is to be."""
    _, ratio, mean = _columns(f2.rows)
    far = ratio > np.sqrt(OFF_CENTER)
    if not far.any():
        return None
    shift = np.zeros(f2.n_features)
    for j in np.flatnonzero(far):
        column = f2.rows.columns(np.array([j])).dense(f2.dtype).ravel()
        # few binary digits, so that subtracting them from close numbers is exact
        grain = 2.0 ** np.floor(np.log2(abs(mean[j]) / min(ratio[j], 1e6)))
        shift[j] = _exactly(column, grain * np.round(mean[j] / grain))
    return shift if shift.any() else None


def _exactly(column: Array, number: float) -> float:
    """Return the number if it can be subtracted from a column without rounding, else zero."""
    if number != column.dtype.type(number):
        return 0.0
    moved = _difference(column, column.dtype.type(number))
    varies = moved is not None and bool((moved != moved[0]).any())
    return float(number) if varies else 0.0


def _tied(problem: Problem) -> Array:
    """Return the mask of the columns that the constraint sees."""
    n = problem.shape2[0] - problem.intercept
    A2: Any = problem.A2
    if A2 is None or not offers(A2, Has.SPARSE):
        return np.full(n, A2 is not None)
    return np.bincount(sparse.csr_array(A2.tosparse()).indices, minlength=n)[:n] > 0


def _coupled(problem: Problem) -> Array:
    """Return the mask of the columns that share rows of the constraint with others."""
    n = problem.shape2[0] - problem.intercept
    A2: Any = problem.A2
    if A2 is None or not offers(A2, Has.SPARSE):
        return np.zeros(n, dtype=bool)
    S = sparse.csr_array(A2.tosparse())
    shared = np.repeat(np.diff(S.indptr) > 1, np.diff(S.indptr))
    return np.bincount(S.indices[shared], minlength=n)[:n] > 0


def _scaled_data(f2: FiniteSum, shift: Array | None, tied: bytes) -> tuple[FiniteSum, Array]:
    """Return the shifted columns divided by powers of two near their sizes, and their inverses.

    ``tied`` is the mask of columns that are not enlarged without limit.
    """
    rows = f2.rows.changed(shift, None)  # only columns without zeros are moved
    size = _columns(rows)[0]
    seen = np.sort(size[size > 0])
    if seen.size:
        usual = min(float(seen[(seen.size - 1) // 2]), 1.0)  # a column of ones is never small
        # A column that a structure ties to others is enlarged 1e4 times more than a typical one at
        # most: its ties grow with it, and beside ties of 1e8 those of the others are rounding; the
        # column itself, which penalized coefficients cannot make up for, may stay small.
        least = usual / 1e4
        low = np.frombuffer(tied, dtype=bool) & (size > 0)
        size = np.where(low, np.maximum(size, least), size)
    power = np.where(size > 0, np.round(np.log2(np.where(size > 0, size, 1.0))), 0.0)
    scale = 2.0 ** -np.clip(power, -500, 500)  # squares of it are numbers still
    return f2.changed(X=rows.changed(None, scale)), scale


# ---------------------------------------------------------------- penalties and constraint


def _restated(problem: Problem, data: FiniteSum, scale: Array) -> tuple[Problem, bool] | None:
    """Return the problem of v in x2 = D v, and whether h2 moved to the first block."""
    D = as_operator(sparse.csr_array(sparse.diags_array(scale)))
    A2 = None if problem.A2 is None else _product(problem.A2, scale, D)
    h2: Any = problem.h2
    h2 = h2.rescaled(scale) if offers(h2, Has.RESCALED) else None
    if problem.h2 is None or h2 is not None:
        return replace(problem, f2=data, h2=h2, A2=A2), False
    if problem.A1 is None or A2 is None:
        size = scale.size
        return Problem(data, h1=problem.h2, A1=Identity(size, scale=-1.0), A2=D), True
    scale1 = identity_scale(problem.A1)
    if scale1 is None or problem.f1 is not None:
        return None
    rows = problem.shape_dual[0], scale.size
    own = Zero() if problem.h1 is None else problem.h1
    b = problem.b
    if b is not None:
        b = np.concatenate([b, np.zeros((rows[1], *b.shape[1:]), b.dtype)])
    below = as_operator(sparse.csr_array(sparse.diags_array(-scale1 * scale)))
    return Problem(
        data,
        h1=Stacked([(own, rows[0]), (problem.h2, rows[1])]),
        A1=Identity(sum(rows), scale=scale1),
        A2=VStack([A2, below]),
        b=b,
    ), True


def _product(A: Any, scale: Array, D: Any) -> Any:
    if offers(A, Has.SPARSE):
        return as_operator(sparse.csr_array(A.tosparse() @ sparse.diags_array(scale)))
    return Composed(A, D)


def free_intercept(problem: Problem) -> bool:
    """Say whether there is an intercept that neither penalty nor constraint sees."""
    if not problem.intercept:
        return False
    A2: Any = problem.A2
    if A2 is not None:
        unit = np.zeros(A2.shape[1])
        unit[-1] = 1.0
        if A2.matvec(unit).any():
            return False
    if problem.h2 is None:
        return True
    last, rows = segments(problem.h2, problem.shape2[0])[-1]
    terms = compiled_terms(last, rows.stop - rows.start)
    if not terms or not terms[-1].separable:
        return False
    l1, l2, low, high = terms[-1].per_row()
    own = slice(-(l1.size // terms[-1].size), None)
    return not (l1[own].any() or l2[own].any() or np.isfinite([low[own], high[own]]).any())
