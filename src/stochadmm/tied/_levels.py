"""Tied columns as one: the problem in the levels that a structure leaves.

Where the prox sets a row of S with one entry to zero, a column is zero; where it sets a row with
two entries to zero, two columns are one. What is left is ``w = P v`` with few levels v, and the
whole problem in them is small: Newton's method on it is exact in the loss and costs next to
nothing, whatever the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.terms import Elementwise, compiled_terms
from ..exact import components
from ..forms.one_block import OneBlock
from ..forms.small import minimize_in_columns
from ..penalties import L1, Stacked
from ..quadratic import QuadraticModel
from ..risk import FiniteSum
from ..risk.parts import times_sparse
from ..risk.weights import sample_weights
from ..second_order import backtrack, structured
from ._pieces import pieces
from .options import OPTIONS, TiedOptions


@dataclass(frozen=True)
class Levels:
    """``w = P v``: a level v_k for every set of tied columns that is not zero."""

    P: Any

    @property
    def count(self) -> int:
        """Number of levels."""
        return int(self.P.shape[1])

    def project(self, w: Array) -> Array:
        """Return the levels nearest to w."""
        weight = np.asarray(self.P.power(2).sum(axis=0)).ravel()
        return np.asarray((self.P.T @ w) / weight)


def levels_of(S: Any, zero: Array) -> Levels | None:
    """Return the levels that the zero rows of S leave; None where one has three entries or more.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from stochadmm.tied import levels_of
    >>> S = sparse.csr_array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]])
    >>> levels_of(S, np.array([True, False, False])).P.toarray()
    array([[1., 0.],
           [1., 0.],
           [0., 1.]])
    """
    d = S.shape[1]
    first, sizes = S.indptr[:-1], np.where(zero, np.diff(S.indptr), 0)
    if sizes.max(initial=0) > 2:
        return None
    fixed = np.zeros(d, dtype=bool)
    fixed[S.indices[first[sizes == 1]]] = True
    pairs = first[sizes == 2][:, None] + np.arange(2)
    label, scale, dead = components(S.indices[pairs], S.data[pairs], fixed)
    alive = ~dead[label]  # one entry in these rows, none in the others
    column = (np.cumsum(~dead) - 1)[label[alive]]
    ends = np.concatenate([[0], np.cumsum(alive)])
    return Levels(sparse.csr_array((scale[alive], column, ends), shape=(d, int((~dead).sum()))))


def free_levels(S: Any) -> list[tuple[Any, Any]] | None:
    """Return the directions along which all rows of S vanish, None where levels are not known."""
    levels = levels_of(S, np.ones(S.shape[0], dtype=bool))
    if levels is None:
        return None
    return [(slice(None), levels.P.tocsc())] if levels.count else []


@dataclass(frozen=True)
class Reduced:
    """The problem in the levels: ``f2(P v) + h(S P v)``."""

    f2: FiniteSum
    levels: Levels
    columns: Array = field(repr=False)
    """Rows times P, the intercept's column included."""
    S: Any
    gather: Any = field(repr=False)
    """Multipliers of the rows of S from those of the full structure."""
    penalty: Any

    @classmethod
    def of(cls, f2: FiniteSum, form: OneBlock, S: Any, levels: Levels) -> Reduced:
        """Collect columns and rows.

        Rows of elementwise penalties that vanish are left out. Many rows of l1 norms are between
        the same two levels and become one.
        """
        small = S @ levels.P
        small.data[np.abs(small.data) <= 1e-14 * np.abs(small.data).max(initial=0.0)] = 0.0
        small.eliminate_zeros()
        small.sort_indices()
        filled = np.diff(small.indptr) > 0
        left, gathers, parts = [], [], []
        for part, rows in pieces(form):
            own: Any = np.arange(rows.start, rows.stop)
            if _elementwise(part, own.size):
                own = own[filled[rows]]
                part = part.restricted(own - rows.start)
            here, strengths = small[own], _l1_strengths(part, own.size) if own.size else None
            gather = _csr(np.ones(own.size), own, np.arange(own.size + 1), len(filled))
            if strengths is not None and np.diff(here.indptr).max() <= 2:
                here, scale, order, ends = _parallel(here)
                sums = np.add.reduceat(np.abs(scale) * strengths[order], ends[:-1])
                part, gather = L1(1.0, sums), _csr(scale, own[order], ends, len(filled))
            left.append(here)
            gathers.append(gather)
            parts.append((part, here.shape[0]))
        rows_left, gathered = (sparse.csr_array(sparse.vstack(v)) for v in (left, gathers))
        columns = times_sparse(f2, levels.P)
        return cls(f2, levels, columns, rows_left, gathered, Stacked(parts))

    def predictions(self, v: Array) -> Array:
        """Return the predictions, offset included."""
        z = self.columns @ v
        return z if self.f2.offset is None else z + self.f2.offset

    def value(self, v: Array, z: Array | None = None) -> float:
        """Return the objective of the levels v."""
        z = self.predictions(v) if z is None else z
        return self.f2.value_at(z) + float(self.penalty.value(self.S @ v))

    def minimize(
        self,
        v: Array,
        mu: Array,
        tol: float,
        options: TiedOptions = OPTIONS,
        *,
        deadline: Deadline = NEVER,
    ) -> Array:
        """Return levels near the minimum, by Newton steps from v with multipliers of all rows.

        Steps end when they gain less than ``tol`` times the objective. Few levels are a small
        problem, which one compiled call solves to the last digits.
        """
        if not v.size:
            return v
        dual = self.gather @ mu
        found = minimize_in_columns(self.f2, self.columns, self.S, self.penalty, v, dual)
        return self._by_steps(v, dual, tol, options, deadline) if found is None else found

    def _by_steps(
        self, v: Array, dual: Array, tol: float, options: TiedOptions, deadline: Deadline
    ) -> Array:
        model = QuadraticModel(self.S, self.penalty, None, v.shape)
        q, f2 = sample_weights(self.f2), self.f2
        loss: Any = f2.loss
        unit = (1.0 if q is None else q) / f2.n_terms
        penalty, now = None, self.value(v)
        for _ in range(options.most_steps):
            z = self.predictions(v)
            gradient = self.columns.T @ (unit * loss.derivative(z, f2.y))
            H = self._hessian(unit * loss.curvature(z, f2.y))
            found = model.minimize(
                H,
                gradient,
                v,
                dual=dual,
                tol=options.model_tol,
                penalty=penalty,
                max_iter=2000,
                deadline=deadline,
            )
            ahead = structured(self.S, found, options.accurate)
            change = self.predictions(ahead) - z

            def value(
                t: float, to: Array = ahead, at: Array = v, z: Array = z, change: Array = change
            ) -> float:
                return self.value(at + t * (to - at), z + t * change)

            # the first share of the step that lowers the objective by more than nothing
            below = float(np.nextafter(now, -np.inf))
            share = backtrack(value, below, least=options.least_length)
            if share == 0:
                break
            there = value(share)
            v, dual, penalty = v + share * (ahead - v), found.dual, found.penalty
            v = ahead if share == 1 else v
            gain, now = now - there, there
            if gain <= tol * abs(now):
                break
        return v

    def _hessian(self, numbers: Array) -> Array:
        H = (self.columns * numbers[:, None]).T @ self.columns
        # directions that the rows do not see stay
        H.flat[:: len(H) + 1] += 1e-13 * max(float(np.trace(H)) / max(len(H), 1), 1e-300)
        return H


def _csr(data: Array, indices: Array, ends: Array, n_columns: int) -> Any:
    return sparse.csr_array((data, indices, ends), shape=(ends.size - 1, n_columns))


def _parallel(rows: Any) -> tuple[Any, Array, Array, Array]:
    """Return rows with one or two entries up to scale, and of which of the given they are made.

    That is an order of the given rows, where those of each distinct one are next to each other,
    their scales in this order, and where the next distinct one begins.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from stochadmm.tied._levels import _parallel
    >>> given = sparse.csr_array([[1.0, -1.0, 0.0], [0.0, 2.0, 0.0], [-3.0, 3.0, 0.0]])
    >>> distinct, scale, order, ends = _parallel(given)
    >>> distinct.toarray()
    array([[ 1., -1.,  0.],
           [ 0.,  1.,  0.]])
    >>> scale.tolist(), order.tolist(), ends.tolist()
    ([1.0, -3.0, 2.0], [0, 2, 1], [0, 2, 3])
    """
    n, first, last = rows.shape[0], rows.indptr[:-1], rows.indptr[1:] - 1
    scale = rows.data[first]
    # the columns of both entries and their ratio; both are the same where there is one entry
    keys = rows.data[last] / scale, rows.indices[last], rows.indices[first]
    order = np.lexsort(keys)
    new = np.ones(n, dtype=bool)
    new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    starts = np.flatnonzero(new)
    chosen = order[starts]
    distinct = rows[chosen]
    distinct.data /= np.repeat(scale[chosen], np.diff(distinct.indptr))
    return distinct, scale[order], order, np.append(starts, n)


def _l1_strengths(part: Any, n_rows: int) -> Array | None:
    """Return the strength of every row where a penalty is an l1 norm of them, else None."""
    terms = compiled_terms(part, n_rows)
    if terms is None or any(term.kind != Elementwise.kind for term in terms):
        return None
    if any(term.bounded or term.per_row()[1].any() for term in terms):
        return None
    return np.concatenate([np.zeros(0), *(term.per_row()[0] for term in terms)])


def _elementwise(part: Any, n_rows: int) -> bool:
    """Say whether a penalty sees every row by itself, so that rows of zeros may be left out."""
    terms = compiled_terms(part, n_rows)
    plain = terms is not None and all(term.separable for term in terms)
    return plain and offers(part, Has.RESTRICTED)
