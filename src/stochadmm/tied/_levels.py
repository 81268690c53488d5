"""Tied columns as one: the problem in the levels that a structure leaves.

Where the prox sets a row of S with one entry to zero, a column is zero; where it sets a row with
two entries to zero, two columns are one. What is left is ``w = P v`` with few levels v, and the
whole problem in them is small: Newton's method on it is exact in the loss and costs next to
nothing, whatever the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import Elementwise, compiled_terms
from ..certificates import mean_loss
from ..exact import components, project
from ..forms.one_block import OneBlock
from ..penalties import Stacked
from ..quadratic import QuadraticModel
from ..risk import FiniteSum
from ..risk.weights import sample_weights
from ._pieces import pieces

MODEL_TOL = 1e-10
MOST_STEPS = 12
RIDGE = 1e-13
"""Of the mean diagonal of the small Hessian, so that directions the rows do not see stay."""
ROWS = 1024
"""Rows whose columns are collected at a time."""
ACCURATE = 1e-6
"""Residual of a small model from which on the zeros of its prox are taken as true."""


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
        return cast(Array, (self.P.T @ w) / weight)


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
    rows = S[np.flatnonzero(zero)]
    sizes = np.diff(rows.indptr)
    if sizes.max(initial=0) > 2:
        return None
    fixed = np.zeros(d, dtype=bool)
    fixed[rows.indices[rows.indptr[:-1][sizes == 1]]] = True
    pairs = rows[np.flatnonzero(sizes == 2)]
    label, scale, dead = components(pairs.indices.reshape(-1, 2), pairs.data.reshape(-1, 2), fixed)
    alive = np.flatnonzero(~dead[label])
    column = (np.cumsum(~dead) - 1)[label[alive]]
    shape = (d, int((~dead).sum()))
    return Levels(sparse.csr_array((scale[alive], (alive, column)), shape=shape))


@dataclass(frozen=True)
class Reduced:
    """The problem in the levels: ``f2(P v) + h(S P v)``."""

    f2: FiniteSum
    levels: Levels
    X: Array = field(repr=False)
    """Rows times P, the intercept's column included."""
    S: Any
    kept: Array
    """Rows of the full structure that are left in S."""
    penalty: Any

    @classmethod
    def of(cls, f2: FiniteSum, form: OneBlock, S: Any, levels: Levels) -> Reduced:
        """Collect columns and rows; rows of elementwise penalties that vanish are left out."""
        small = sparse.csr_array(S @ levels.P)
        small.data[np.abs(small.data) <= 1e-14 * np.abs(small.data).max(initial=0.0)] = 0.0
        small.eliminate_zeros()
        filled = np.diff(small.indptr) > 0
        kept, parts = [], []
        for part, rows in pieces(form):
            own: Any = np.arange(rows.start, rows.stop)
            if _elementwise(part, own.size):
                own = own[filled[rows]]
                part = part.restricted(own - rows.start)
            kept.append(own)
            parts.append((part, own.size))
        index = np.concatenate(kept)
        return cls(f2, levels, _columns(f2, levels.P), small[index], index, Stacked(parts))

    def predictions(self, v: Array) -> Array:
        """Return the predictions, offset included."""
        z = self.X @ v
        return z if self.f2.offset is None else z + self.f2.offset

    def value(self, v: Array, z: Array | None = None) -> float:
        """Return the objective of the levels v."""
        z = self.predictions(v) if z is None else z
        return mean_loss(self.f2, z) + float(self.penalty.value(self.S @ v))

    def minimize(self, v: Array, mu: Array, tol: float) -> Array:
        """Return levels near the minimum, by Newton steps from v with multipliers of all rows.

        Steps end when they gain less than ``tol`` times the objective.
        """
        if not v.size:
            return v
        model = QuadraticModel(self.S, self.penalty, None, v.shape)
        q, loss, f2 = sample_weights(self.f2), cast(Any, self.f2.loss), self.f2
        unit = (1.0 if q is None else q) / f2.n_terms
        dual, penalty, now = mu[self.kept], None, self.value(v)
        for _ in range(MOST_STEPS):
            z = self.predictions(v)
            gradient = self.X.T @ (unit * loss.slope(z, f2.y))
            H = self._hessian(unit * loss.curvature(z, f2.y))
            found = model.minimize(
                H, gradient, v, dual=dual, tol=MODEL_TOL, penalty=penalty, max_iter=2000
            )
            ahead = self._structured(found)
            share, there = self._line(v, ahead, z, now)
            if share == 0:
                break
            v, dual, penalty = v + share * (ahead - v), found.dual, found.penalty
            v = ahead if share == 1 else v
            gain, now = now - there, there
            if gain <= tol * abs(now):
                break
        return v

    def _hessian(self, numbers: Array) -> Array:
        H = (self.X * numbers[:, None]).T @ self.X
        H.flat[:: len(H) + 1] += RIDGE * max(float(np.trace(H)) / max(len(H), 1), 1e-300)
        return H

    def _structured(self, found: Any) -> Array:
        """Return the model's minimizer with the exact zeros and ties of its prox."""
        w: Array = found.w
        zero = found.z == 0
        if found.residual > ACCURATE or not zero.any():
            return w
        exact = project(self.S, zero, np.zeros(w.shape, dtype=bool), w)
        close = np.abs(exact - w).max(initial=0.0) <= 1e-5 * np.abs(w).max(initial=0.0)
        return exact if close else w

    def _line(self, v: Array, ahead: Array, z: Array, now: float) -> tuple[float, float]:
        """Return the first of 1, 1/2, 1/4 ... that lowers the objective, and where it leads."""
        change = self.predictions(ahead) - z
        share = 1.0
        while share > 1e-4:
            there = self.value(v + share * (ahead - v), z + share * change)
            if there < now:
                return share, there
            share /= 2
        return 0.0, now


def _elementwise(part: Any, n_rows: int) -> bool:
    """Say whether a penalty sees every row by itself, so that rows of zeros may be left out."""
    terms = compiled_terms(part, n_rows)
    plain = terms is not None and all(isinstance(term, Elementwise) for term in terms)
    return plain and offers(part, Has.RESTRICTED)


def _columns(f2: FiniteSum, P: Any) -> Array:
    """Return ``X P`` as a dense matrix in float64."""
    X: Any = f2.X
    d = f2.n_features
    turned = sparse.csr_array(P[:d].T)
    out = np.empty((f2.n_terms, P.shape[1]))
    for start in range(0, f2.n_terms, ROWS):  # a copy of some rows at a time
        rows = slice(start, start + ROWS)
        product: Any = (turned @ X[rows].T).T
        out[rows] = product if isinstance(product, np.ndarray) else product.toarray()
    if f2.intercept:
        out += P[[d]].toarray()
    return out
