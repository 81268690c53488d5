"""Clusters of columns that a structure fuses: the whole problem in their few values.

Where the prox sets a row of S with one entry to zero, a column is zero; where it sets a row with
two entries to zero, two columns are fused; longer rows stay as they are. What is left is
``w = P v`` with few values v, and F itself in them is small: it is minimized exactly, whatever the
number of columns.
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
from ..base.workspace import Workspace
from ..exact import components
from ..forms.one_block import OneBlock
from ..forms.small import minimize_in_columns
from ..operators import Identity
from ..penalties import L1, Stacked, segments
from ..problem import Pair, Problem
from ..risk import FiniteSum
from ..risk.finite_sum import times_sparse
from .composite import Composite
from .dense import SplittingWarm
from .interfaces import Plan, Run
from .loop import solve, start


@dataclass(frozen=True)
class Clusters:
    """``w = P v``: a value v_k for every cluster of columns that is not zero."""

    P: Any

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.P.shape[1])

    def project(self, w: Array) -> Array:
        """Return the values nearest to w."""
        weight = np.asarray(self.P.power(2).sum(axis=0)).ravel()
        return np.asarray((self.P.T @ w) / weight)


def clusters_of(S: Any, zero: Array) -> Clusters:
    """Return the clusters that zero rows of S with one or two entries make.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from stochadmm._newton.clusters import clusters_of
    >>> S = sparse.csr_array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]])
    >>> clusters_of(S, np.array([True, False, False])).P.toarray()
    array([[1., 0.],
           [1., 0.],
           [0., 1.]])
    """
    d = S.shape[1]
    first, sizes = S.indptr[:-1], np.where(zero, np.diff(S.indptr), 0)
    fixed = np.zeros(d, dtype=bool)
    fixed[S.indices[first[sizes == 1]]] = True
    pairs = first[sizes == 2][:, None] + np.arange(2)
    label, scale, dead = components(S.indices[pairs], S.data[pairs], fixed)
    alive = ~dead[label]  # one entry in these rows, none in the others
    column = (np.cumsum(~dead) - 1)[label[alive]]
    ends = np.concatenate([[0], np.cumsum(alive)])
    return Clusters(sparse.csr_array((scale[alive], column, ends), shape=(d, int((~dead).sum()))))


def free_clusters(S: Any) -> list[tuple[Any, Any]] | None:
    """Return the directions along which all rows of S vanish, None where they are not known."""
    if np.diff(S.indptr).max(initial=0) > 2:
        return None
    clusters = clusters_of(S, np.ones(S.shape[0], dtype=bool))
    return [(slice(None), clusters.P.tocsc())] if clusters.count else []


@dataclass(frozen=True)
class Restricted:
    """The problem in the values of clusters: ``f2(P v) + h(S P v)``."""

    f2: FiniteSum
    columns: Array = field(repr=False)
    """Rows times P, the intercept's column included."""
    S: Any
    gather: Any = field(repr=False)
    """Multipliers of the rows of S from those of the full structure."""
    penalty: Any

    def value(self, v: Array) -> float:
        """Return the objective."""
        z = self.columns @ v
        z = z if self.f2.offset is None else z + self.f2.offset
        return self.f2.value_at(z) + float(self.penalty.value(self.S @ v))

    def minimize(
        self, v: Array, mu: Array, plan: Plan, tol: float, deadline: Deadline = NEVER
    ) -> Array:
        """Return values near the minimum, from v and multipliers of all rows of the structure.

        Few values are a small problem, which one compiled call solves to the last digits. Where
        it does not take them (more than a few hundred, penalties of the user's own), a plan
        of the Newton loop on a problem of so many columns, until a step gains less than ``tol``.
        """
        if not v.size:
            return v
        dual = self.gather @ mu
        found = minimize_in_columns(self.f2, self.columns, self.S, self.penalty, v, dual)
        if found is not None:
            return found
        f2, k = self.f2, self.S.shape[0]
        few = FiniteSum(f2.loss, self.columns, f2.y, f2.weight, offset=f2.offset)
        problem = Problem(few)
        if k:
            problem = Problem(few, h1=self.penalty, A1=Identity(k, scale=-1.0), A2=self.S)
        p = Composite(problem, Workspace())
        run = Run(np.random.default_rng(0), None, deadline)
        s = start(p, plan, run, Pair(problem.zeros().x1, v.astype(problem.dtype)), dual)
        s.warm = SplittingWarm(tolerance=1e-10)  # small models cost next to nothing
        return np.asarray(solve(p, s, plan, run, 12, tol).x.x2, np.float64)


def restricted(f2: FiniteSum, form: OneBlock, S: Any, clusters: Clusters) -> Restricted:
    """Return the problem in the values of clusters.

    Rows of elementwise penalties that vanish are left out. Many rows of l1 norms are between the
    same two clusters and become one.
    """
    small = S @ clusters.P
    small.data[np.abs(small.data) <= 1e-14 * np.abs(small.data).max(initial=0.0)] = 0.0
    small.eliminate_zeros()
    small.sort_indices()
    filled = np.diff(small.indptr) > 0
    remaining, gathers, parts = [], [], []
    for part, rows in segments(form.stacked_penalty, form.S.shape[0]):
        own: Any = np.arange(rows.start, rows.stop)
        terms = compiled_terms(part, own.size)
        by_row = terms is not None and all(term.separable for term in terms)
        if by_row and offers(part, Has.RESTRICTED):
            own = own[filled[rows]]
            part = part.restricted(own - rows.start)
        here, alpha = small[own], _l1_strengths(part, own.size) if own.size else None
        gather = _csr(np.ones(own.size), own, np.arange(own.size + 1), len(filled))
        if alpha is not None and np.diff(here.indptr).max() <= 2:
            here, scale, order, ends = _parallel(here)
            sums = np.add.reduceat(np.abs(scale) * alpha[order], ends[:-1])
            part, gather = L1(1.0, sums), _csr(scale, own[order], ends, len(filled))
        remaining.append(here)
        gathers.append(gather)
        parts.append((part, here.shape[0]))
    left, gathered = (sparse.csr_array(sparse.vstack(v)) for v in (remaining, gathers))
    return Restricted(f2, times_sparse(f2, clusters.P), left, gathered, Stacked(parts))


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
    >>> from stochadmm._newton.clusters import _parallel
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
