"""Norms of groups of rows: what switches whole groups off."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from ..base.capabilities import Capabilities, Has
from ..base.immutable import Floats, as_float, frozen, set_field, store
from ..base.protocols import Array, Shape
from ..base.terms import GroupNorms, Term
from ._base import ALWAYS, Part, check_alpha, check_weights, exceeds, shrink_to


class _RowGroups(Part):
    """Shared by groups of rows and single rows; subclasses say how rows map to groups."""

    alpha: float

    def _strengths(self, n_groups: int) -> Floats:
        raise NotImplementedError

    def _squares(self, x: Array) -> Array:
        """Return the squared norm of every group."""
        raise NotImplementedError

    def _spread(self, numbers: Array, x: Array) -> Array:
        """Repeat one number per group over the rows of the group."""
        raise NotImplementedError

    def _group_steps(self, step: Array) -> Array:
        """Reduce one step per row to one per group."""
        raise NotImplementedError

    def _norms(self, x: Array) -> Array:
        return np.sqrt(self._squares(x))

    def value(self, x: Array) -> float:
        """Return h(x) in float64."""
        norms = self._norms(np.asarray(x, dtype=np.float64))
        return float(self._strengths(norms.size) @ norms)

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + sum_j |u_j - v_j|^2 / (2 step_j)``.

        ``step`` is one positive number, or one per row that is the same within each group.
        """
        v = as_float(v)
        norms = self._norms(v)
        steps = step if np.ndim(step) == 0 else self._group_steps(np.asarray(step))
        threshold = steps * self._strengths(norms.size)
        kept = norms > threshold
        # the norm of a row that goes is never divided by, and free rows keep the factor one
        factors = np.where(kept, 1.0 - threshold / np.where(kept, norms, 1.0), 0.0)
        factors[threshold == 0] = 1.0
        return store(v * self._spread(factors.astype(v.dtype), v), out)

    def conjugate(self, u: Array) -> float:
        """Return 0 when every group norm is within its strength, ``inf`` otherwise.

        A norm above its strength by at most four units of rounding (of the dtype of ``u``)
        counts as on the edge.
        """
        u = as_float(u)
        norms = self._norms(u.astype(np.float64))
        return np.inf if exceeds(norms, self._strengths(norms.size), u) else 0.0

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``."""
        u = as_float(u)
        norms = self._norms(u.astype(np.float64))
        return shrink_to(norms, self._strengths(norms.size), u)

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over all x with ``h(x) <= level``; ``size >= 0``."""
        norms = self._norms(np.asarray(size, dtype=np.float64))
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.where(norms == 0, 0.0, norms / self._strengths(norms.size))
        return float(most.max(initial=0.0)) * level if most.any() else 0.0

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate."""
        u = as_float(u)
        wide = u.astype(np.float64)
        norms = self._norms(wide)
        strengths = self._strengths(norms.size)
        over = norms > strengths
        factors = np.where(over, strengths / np.where(over, norms, 1.0), 1.0)
        return (wide * self._spread(factors, wide)).astype(u.dtype, copy=False)

    def zeros(self, x: Array) -> Array:
        """Return the entries of penalized groups that are zero as a whole."""
        x = np.asarray(x)
        off = self._squares(np.asarray(x != 0, dtype=np.float64)) == 0
        return np.broadcast_to(self._spread(off & (self._strengths(off.size) > 0), x), x.shape)


class _Partition(_RowGroups):
    """Holds where groups start, their strengths, and the way back from the order of groups."""

    _starts: Array
    _all_strengths: Floats
    _back: Array | None


@dataclass(frozen=True, eq=False)
class GroupL2(_Partition):
    """Group lasso on disjoint groups of rows, ``alpha sum_g weights_g |x_g|_2``.

    All columns of a row belong to its group, so the norm of a block of a matrix is Frobenius'.
    Overlapping groups are a `stochadmm.operators.Selection` followed by this penalty on its
    ``sizes``.

    Parameters
    ----------
    alpha : float
        Strength.
    sizes : array of int
        Numbers of rows of consecutive groups; they add up to the rows of the block.
    weights : array, optional
        One per group, 0 leaves it free. All ones by default; ``np.sqrt(sizes)`` is the other
        usual choice.
    order : array of int, optional
        Rows in the order in which the groups are consecutive; see `from_labels`.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import GroupL2
    >>> GroupL2(1.0, sizes=[2, 1]).prox(np.array([3.0, 4.0, 0.5]), 1.0)
    array([2.4, 3.2, 0. ])
    >>> GroupL2.from_labels(1.0, labels=[0, 1, 0]).prox(np.array([3.0, 0.5, 4.0]), 1.0)
    array([2.4, 0. , 3.2])
    """

    alpha: float
    sizes: ArrayLike
    weights: ArrayLike | None = None
    order: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        sizes = np.asarray(self.sizes)
        if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu" or sizes.min() < 1:
            raise ValueError("sizes must be positive integers, one per group; drop empty groups")
        set_field(self, "sizes", frozen(sizes, np.int64))
        weights = check_weights(self.weights)
        if weights is not None and weights.shape != sizes.shape:
            raise ValueError(f"weights have shape {weights.shape} for {sizes.size} groups")
        set_field(self, "weights", weights)
        if self.order is not None:
            order = frozen(self.order, np.intp)
            if not np.array_equal(np.sort(order), np.arange(sizes.sum())):
                raise ValueError("order must name every row once; build it with from_labels")
            set_field(self, "order", order)
        set_field(self, "_starts", np.concatenate([[0], np.cumsum(sizes)[:-1]]))
        ones = np.ones(sizes.size) if weights is None else weights
        set_field(self, "_all_strengths", float(self.alpha) * ones)
        set_field(self, "_back", None if self.order is None else np.argsort(self.order))

    @classmethod
    def from_labels(
        cls, alpha: float, labels: ArrayLike, weights: ArrayLike | None = None
    ) -> GroupL2:
        """Group the rows that share an integer label; rows labeled -1 are free.

        ``weights`` follow the sorted labels, -1 left out.
        """
        labels = np.asarray(labels)
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min(initial=0) < -1:
            raise ValueError("labels must be integers, one per row, with -1 for free rows")
        found, counts = np.unique(labels, return_counts=True)
        free = found == -1
        if free.any():
            given = np.ones(found.size - 1) if weights is None else np.asarray(weights)
            weights = np.concatenate([[0.0], given])
        order = np.argsort(labels, kind="stable")
        in_order = bool((np.diff(labels) >= 0).all())
        return cls(alpha, counts, weights, None if in_order else order)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the penalty offers: compiled loops where the groups are consecutive."""
        return ALWAYS | ({Has.REACH, Has.TERMS} if self.order is None else {Has.REACH})

    def _strengths(self, n_groups: int) -> Floats:
        return self._all_strengths

    def _ordered(self, x: Array) -> Array:
        return x if self.order is None else x[np.asarray(self.order)]

    def _squares(self, x: Array) -> Array:
        x = self._ordered(x)
        squares = x * x if x.ndim == 1 else np.einsum("ij,ij->i", x, x)
        return np.add.reduceat(squares, self._starts)

    def _spread(self, numbers: Array, x: Array) -> Array:
        out = np.repeat(numbers, np.asarray(self.sizes))
        out = out if self._back is None else out[self._back]
        return out if x.ndim == 1 else out[:, None]

    def _group_steps(self, step: Array) -> Array:
        step = self._ordered(step)
        low = np.minimum.reduceat(step, self._starts)
        if step.ndim != 1 or (low != np.maximum.reduceat(step, self._starts)).any():
            raise ValueError("GroupL2 needs one step per group, got steps that differ within one")
        return low

    def check(self, shape: Shape) -> None:
        """Raise when the groups do not cover the rows of this shape."""
        n_rows = int(np.sum(self.sizes))
        if shape[0] != n_rows:
            raise ValueError(f"the groups of GroupL2 hold {n_rows} rows, the block has {shape[0]}")

    def terms(self, n_rows: int) -> list[Term] | None:
        """Return the numbers for compiled loops; None when the groups are not consecutive."""
        if self.order is not None:
            return None
        return [GroupNorms(np.asarray(self.sizes), np.array(self._all_strengths))]


@dataclass(frozen=True, eq=False)
class RowsL21(_RowGroups):
    """Sum of the norms of the rows of a matrix, ``alpha sum_j weights_j |x_j|_2``.

    Parameters
    ----------
    alpha : float
        Strength.
    weights : array, optional
        One per row, 0 leaves it free. All ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import RowsL21
    >>> RowsL21(1.0).prox(np.array([[3.0, 4.0], [0.5, 0.5]]), 1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """

    alpha: float
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        weights = check_weights(self.weights)
        if weights is not None and weights.ndim != 1:
            raise ValueError(f"weights have shape {weights.shape}; RowsL21 takes one per row")
        set_field(self, "weights", weights)

    capabilities = ALWAYS | {Has.GROWTH, Has.REACH, Has.RESTRICTED, Has.VIOLATION, Has.TERMS}

    @property
    def growth(self) -> float:
        """A number c with ``h(x) >= c |x|_F``."""
        return float(self._strengths(1).min(initial=np.inf))

    def _strengths(self, n_groups: int) -> Floats:
        if self.weights is None:
            return np.full(n_groups, float(self.alpha))
        return self.alpha * np.asarray(self.weights)

    def _squares(self, x: Array) -> Array:
        return x * x if x.ndim == 1 else np.einsum("ij,ij->i", x, x)

    def _spread(self, numbers: Array, x: Array) -> Array:
        return numbers if x.ndim == 1 else numbers[:, None]

    def _group_steps(self, step: Array) -> Array:
        if step.ndim != 1:
            raise ValueError("RowsL21 takes one step, or one per row")
        return step

    def restricted(self, rows: Array) -> RowsL21:
        """Return the penalty of some rows while all others are zero."""
        weights = None if self.weights is None else np.asarray(self.weights)[rows]
        return replace(self, weights=weights)

    def violation(self, u: Array) -> Array:
        """Return how many times ``u``, minus a gradient, exceeds what holds each row at zero."""
        norms = self._norms(as_float(u))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(norms == 0, 0.0, norms / self._strengths(norms.size))

    def check(self, shape: Shape) -> None:
        """Raise when the weights do not fit the rows of this shape."""
        if self.weights is not None and np.shape(self.weights) != shape[:1]:
            raise ValueError(
                f"RowsL21 has {np.size(self.weights)} weights but the block has {shape[0]} rows"
            )

    def terms(self, n_rows: int) -> list[Term]:
        """Return the numbers for compiled loops."""
        return [GroupNorms(np.ones(n_rows, dtype=np.int64), self._strengths(n_rows))]
