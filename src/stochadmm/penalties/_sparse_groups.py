"""Norms of groups and of their entries in one penalty: the sparse group lasso."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float, set_field, store
from ..base.protocols import Array, Shape
from ..base.terms import SparseGroupNorms, Term
from ..base.validation import is_between
from ._base import ALWAYS, GUARD, Part, check_alpha, eps
from ._elementwise import L1
from ._groups import GroupL2
from ._stacked import Stacked


@dataclass(frozen=True, eq=False)
class SparseGroupNorm(Part):
    """Sparse group lasso on disjoint groups of rows.

    ``alpha ((1 - l1_ratio) sum_g weights_g |x_g|_2 + l1_ratio sum_j l1_weights_j |x_j|_1)``. The
    prox has a closed form: that of the l1 norm, then that of the groups.

    Parameters
    ----------
    alpha : float
        Strength.
    sizes : array of int
        Numbers of rows of consecutive groups; they add up to the rows of the block.
    l1_ratio : float
        Share of the l1 norm, between 0 and 1.
    weights : array, optional
        One per group, 0 leaves its norm free. All ones by default.
    l1_weights : array, optional
        One per row. All ones by default.
    order : array of int, optional
        Rows in the order in which the groups are consecutive, as in `GroupL2`.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import SparseGroupNorm
    >>> SparseGroupNorm(2.0, sizes=[2, 1], l1_ratio=0.5).prox(np.array([4.0, 5.0, 1.5]), 1.0)
    array([2.4, 3.2, 0. ])
    """

    alpha: float
    sizes: ArrayLike
    l1_ratio: float = 0.5
    weights: ArrayLike | None = None
    l1_weights: ArrayLike | None = None
    order: ArrayLike | None = None

    _groups: GroupL2 = field(init=False, repr=False)
    _entries: L1 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not is_between(self.l1_ratio, 0, 1, below=True, above=True):
            raise ValueError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio!r}")
        share = self.alpha * (1.0 - self.l1_ratio)
        groups = GroupL2(share, self.sizes, self.weights, self.order)
        entries = L1(self.alpha * self.l1_ratio, self.l1_weights)
        set_field(self, "sizes", groups.sizes)
        set_field(self, "weights", groups.weights)
        set_field(self, "order", groups.order)
        set_field(self, "l1_weights", entries.weights)
        set_field(self, "_groups", groups)
        set_field(self, "_entries", entries)
        if entries.weights is not None and np.shape(entries.weights) != (np.sum(groups.sizes),):
            raise ValueError(
                f"l1_weights have shape {np.shape(entries.weights)} for "
                f"{int(np.sum(groups.sizes))} rows; give one per row"
            )

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the penalty offers: compiled loops where the groups are consecutive."""
        always = ALWAYS | {Has.REACH, Has.UNFOLDED}
        return always | {Has.TERMS} if self.order is None else always

    def value(self, x: Array) -> float:
        """Return h(x) in float64."""
        return float(self._groups.value(x) + self._entries.value(x))

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + sum_j |u_j - v_j|^2 / (2 step_j)``.

        ``step`` is one positive number, or one per row that is the same within each group.
        """
        return store(self._groups.prox(self._entries.prox(v, step), step), out)

    def _sized(self, x: Array) -> tuple[Array, Array]:
        """Return the norms of the groups, and their strengths."""
        sizes = np.asarray(self.sizes)
        rows = x if self.order is None else x[np.asarray(self.order)]
        squares = (rows * rows).reshape(len(rows), -1).sum(axis=1)
        starts = np.cumsum(sizes) - sizes
        weights = np.ones(sizes.size) if self.weights is None else np.asarray(self.weights)
        return np.sqrt(np.add.reduceat(squares, starts)), self._groups.alpha * weights

    def _norms(self, u: Array) -> tuple[Array, Array, Array]:
        """Return norms of the groups beyond the l1 threshold, their bounds, units of rounding."""
        beyond = self._entries.prox(u, 1.0)
        norms, bounds = self._sized(beyond)
        size = self._sized(u - beyond)[0]
        return norms, bounds, GUARD * (bounds + size)

    def conjugate(self, u: Array) -> float:
        """Return 0 in the domain and ``inf`` outside.

        The domain holds the u whose groups, each entry moved towards zero by its share of the l1
        norm, are within their strengths; four units of rounding (of the dtype of ``u``) are
        forgiven.
        """
        u = as_float(u)
        norms, bounds, slack = self._norms(u.astype(np.float64))
        return np.inf if (norms > bounds + eps(u) * slack).any() else 0.0

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``, by bisection."""
        wide = as_float(u).astype(np.float64)
        if self.conjugate(u) == 0:
            return 1.0
        low, high = 0.0, 1.0
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if self.conjugate(middle * wide) else (middle, high)
        return low

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over all x with ``h(x) <= level``; ``size >= 0``."""
        return min(self._groups.reach(size, level), self._entries.reach(size, level))

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate.

        It is ``u`` minus its prox, added up from its two parts because the difference cancels.
        """
        u = as_float(u)
        wide = u.astype(np.float64)
        beyond = self._groups.project_dual(self._entries.prox(wide, 1.0))
        return (self._entries.project_dual(wide) + beyond).astype(u.dtype, copy=False)

    def zeros(self, x: Array) -> Array:
        """Return the entries that are zero and that the prox can hold at zero."""
        return np.asarray(self._entries.zeros(x) | self._groups.zeros(x))

    def check(self, shape: Shape) -> None:
        """Raise when the groups do not cover the rows of this shape."""
        self._groups.check(shape)

    def unfolded(self, n_rows: int) -> tuple[Any, Stacked]:
        """Return two copies of the rows: one for the groups, one for the l1 norm."""
        eye = sparse.eye_array(n_rows)
        stacked = Stacked([(self._groups, n_rows), (self._entries, n_rows)])
        return sparse.csr_array(sparse.vstack([eye, eye])), stacked

    def terms(self, n_rows: int) -> list[Term] | None:
        """Return the numbers for compiled loops; None when the groups are not consecutive."""
        groups = self._groups.terms(n_rows)
        if groups is None:
            return None
        sizes, weights = groups[0].groups()
        return [SparseGroupNorms(sizes, weights, self._entries.terms(n_rows)[0].per_row()[0])]
