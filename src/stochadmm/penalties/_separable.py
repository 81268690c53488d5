"""What every penalty does that treats each entry by itself: l1, squared l2 and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..base.capabilities import Capabilities, Has
from ..base.immutable import Floats, as_float, field_values, frozen, set_field, store
from ..base.protocols import Array, Shape
from ..base.terms import Elementwise, Term
from ._base import ALWAYS, GUARD, Part, check_alpha, check_rows, eps, per_row

Numbers = float | Floats

OFFERED = ALWAYS | {Has.REACH, Has.RESCALED, Has.RESTRICTED, Has.VIOLATION, Has.TERMS}


class Coefficients(NamedTuple):
    """Numbers of ``l1 |x| + l2/2 x^2`` with bounds: one for all, one per row or one per entry."""

    l1: Numbers
    l2: Numbers
    lower: Numbers
    upper: Numbers


class ElementwisePenalty(Part):
    """``sum_j l1_j |x_j| + l2_j/2 x_j^2`` on ``lower_j <= x_j <= upper_j``.

    Every member of the family only says what these numbers are. Two members add up to a third.
    """

    capabilities: ClassVar[Capabilities] = OFFERED
    _numbers: Coefficients
    _bounded: bool
    _curved: bool
    _plain: bool
    """Whether the numbers are the same for all entries."""

    def __post_init__(self) -> None:
        _, l2, lower, upper = numbers = self._coefficients()
        set_field(self, "_numbers", numbers)
        bounded = bool(np.any(np.greater(lower, -np.inf)) or np.any(np.less(upper, np.inf)))
        set_field(self, "_bounded", bounded)
        set_field(self, "_curved", bool(np.any(l2)))
        set_field(self, "_plain", all(np.ndim(number) == 0 for number in numbers))

    def _coefficients(self) -> Coefficients:
        """Return the numbers from the fields; constructors come here with cleaned fields."""
        raise NotImplementedError

    def _for(self, x: Array) -> Coefficients:
        if x.ndim == 1 or self._plain:
            return self._numbers
        return Coefficients(*(per_row(number, x) for number in self._numbers))

    def value(self, x: Array) -> float:
        """Return h(x) in float64, ``inf`` outside the bounds."""
        x = as_float(x)
        l1, l2, lower, upper = self._for(x)
        if self._bounded:
            # compared in the dtype of x: a float32 prox may return the bound rounded to float32
            low, high = np.asarray(lower, dtype=x.dtype), np.asarray(upper, dtype=x.dtype)
            if ((x < low) | (x > high)).any():
                return np.inf
        size = np.abs(x, dtype=np.float64)
        size *= l1 + 0.5 * l2 * size if self._curved else l1
        return float(size.sum())

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + sum_j (u_j - v_j)^2 / (2 step_j)``.

        ``step`` is one positive number, one per row, or one per entry.
        """
        v = as_float(v)
        step = per_row(step if np.ndim(step) == 0 else np.asarray(step), v)
        l1, l2, lower, upper = self._for(v)
        threshold = step * l1
        # v minus its clipped self: shorter than sign(v) * max(|v| - t, 0), and exact at zero
        u = v - np.clip(v, -threshold, threshold)
        if self._curved:
            u = u / (1.0 + step * l2)
        if self._bounded:
            u = np.clip(u, lower, upper)
        return store(u.astype(v.dtype, copy=False), out)

    def conjugate(self, u: Array) -> float:
        """Return ``sup_x <u, x> - h(x)`` in float64, ``inf`` outside the domain.

        An entry beyond the edge of the domain by at most four units of rounding (of the dtype
        of ``u``) counts as on it.
        """
        u = as_float(u)
        guard = GUARD * eps(u)
        u = u.astype(np.float64)
        l1, l2, lower, upper = self._for(u)
        excess = np.sign(u) * np.maximum(np.abs(u) - l1, 0.0)
        excess = np.where(np.abs(excess) <= guard * np.asarray(l1), 0.0, excess)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            x = np.where(
                excess == 0, 0.0, excess / l2
            )  # infinite where nothing but a bound holds it
        x = np.clip(x, lower, upper)
        if np.isinf(x).any():
            return np.inf
        size = np.abs(x)
        return float((u * x - size * (l1 + 0.5 * l2 * size)).sum())

    def _dual_edges(self, u: Array) -> tuple[Array, Array]:
        """Return the ends of the intervals on which the conjugate is finite."""
        l1, l2, lower, upper = self._numbers
        if not self._bounded and not self._curved:
            return per_row(-np.asarray(l1), u), per_row(np.asarray(l1), u)
        low = np.where((np.equal(lower, -np.inf)) & np.equal(l2, 0), -np.asarray(l1), -np.inf)
        high = np.where((np.equal(upper, np.inf)) & np.equal(l2, 0), l1, np.inf)
        return per_row(low, u), per_row(high, u)

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``."""
        u = as_float(u)
        guard = GUARD * eps(u)
        u = u.astype(np.float64)
        low, high = self._dual_edges(u)
        edge = np.broadcast_to(np.where(u > 0, high, -low), u.shape)
        size = np.abs(u)
        over = size > edge * (1.0 + guard)
        return float((edge[over] / size[over]).min()) if over.any() else 1.0

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over all x with ``h(x) <= level``; ``size >= 0``."""
        size = np.asarray(size, dtype=np.float64)
        l1, l2, lower, upper = (
            np.broadcast_to(np.asarray(number, dtype=np.float64), size.shape)
            for number in self._for(size)
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # l1 b + l2 b^2 / 2 = level, in the form that does not cancel
            alone = 2.0 * level / (l1 + np.sqrt(l1 * l1 + 2.0 * level * l2))
        alone = np.where((l1 == 0) & (l2 == 0), np.inf, alone)
        alone = np.minimum(alone, np.maximum(np.abs(lower), np.abs(upper)))
        used = size > 0
        # what all entries with an l1 norm can do together is what the best of them can do alone
        shared = used & (l1 > 0)
        shared[shared] = l1[shared] * alone[shared] >= 0.5 * level
        together = float((size[shared] / l1[shared]).max(initial=0.0)) * level
        return together + float((size[used & ~shared] * alone[used & ~shared]).sum())

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate."""
        u = as_float(u)
        low, high = self._dual_edges(u)
        return np.minimum(np.maximum(u, low), high).astype(u.dtype, copy=False)

    def project(self, x: Array) -> Array:
        """Return the nearest point within the bounds."""
        x = as_float(x)
        if not self._bounded:
            return x
        _, _, lower, upper = self._for(x)
        return np.clip(x, lower, upper).astype(x.dtype, copy=False)

    def zeros(self, x: Array) -> Array:
        """Return the entries that are zero and that the prox can hold at zero."""
        x = np.asarray(x)
        l1, _, lower, upper = (np.asarray(number) for number in self._for(x))
        mask: Array = (x == 0) & ((l1 > 0) | (lower == 0) | (upper == 0))
        return mask

    def rescaled(self, scale: Array) -> ElementwisePenalty:
        """Return ``v -> h(scale * v)``, one positive number per row."""
        numbers = [np.asarray(number) for number in self._numbers]
        wide = any(number.ndim == 2 for number in numbers)
        l1, l2, lower, upper = (n[:, None] if wide and n.ndim == 1 else n for n in numbers)
        D = scale[:, None] if wide else scale
        return Separable(l1 * D, l2 * D**2, lower / D, upper / D)

    def capped(self, scale: Array, most: float) -> ElementwisePenalty:
        """Return ``v -> h(scale * v)`` with no number above ``most``, one positive scale per row.

        It is at most h. Entries that bounds hold at zero have an l1 norm of ``most`` instead.
        """
        numbers = [np.asarray(number) for number in self._numbers]
        wide = any(number.ndim == 2 for number in numbers)
        l1, l2, lower, upper = (n[:, None] if wide and n.ndim == 1 else n for n in numbers)
        D = scale[:, None] if wide else scale
        held = (lower == 0) & (upper == 0)
        with np.errstate(over="ignore"):
            l1, l2 = np.minimum(l1 * D, most), np.minimum(l2 * D * D, most)
        lower, upper = np.where(held, -np.inf, lower / D), np.where(held, np.inf, upper / D)
        return Separable(np.where(held, most, l1), np.where(held, 0.0, l2), lower, upper)

    def strengths(self, n_rows: int) -> Array:
        """Return the largest l1 norm of every row, infinite where bounds hold an entry at zero."""
        l1, _, lower, upper = self._numbers
        loose = _combine(np.logical_or, np.not_equal(lower, 0), np.not_equal(upper, 0))
        found = np.asarray(_combine(np.maximum, l1, np.where(loose, 0.0, np.inf)))
        return np.broadcast_to(found.max(axis=1) if found.ndim == 2 else found, n_rows)

    def restricted(self, rows: Array) -> ElementwisePenalty:
        """Return the penalty of some rows while all others are zero."""
        return Separable(*(n if np.ndim(n) == 0 else np.asarray(n)[rows] for n in self._numbers))

    def violation(self, u: Array) -> Array:
        """Return how many times ``u``, minus a gradient, exceeds what holds each row at zero.

        A row that is zero stays there while the number is at most one.
        """
        u = as_float(u)
        l1, _, lower, upper = (np.asarray(number) for number in self._for(u))
        up, down = np.where(upper <= 0, np.inf, l1), np.where(lower >= 0, np.inf, l1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size = np.abs(u) / np.where(u > 0, up, down)
        size = np.where(u == 0, 0.0, size)
        found: Array = size if size.ndim == 1 else size.max(axis=1)
        return found

    def check(self, shape: Shape) -> None:
        """Raise when weights or bounds do not fit a block of this shape."""
        for field, number in self._numbers._asdict().items():
            name = "weights" if field in ("l1", "l2") else "bounds"
            check_rows(number, shape, f"{name} of {type(self).__name__}")

    def terms(self, n_rows: int) -> list[Term]:
        """Return the numbers for compiled loops."""
        arrays = [np.asarray(number, dtype=np.float64) for number in self._numbers]
        width = max((a.shape[1] for a in arrays if a.ndim == 2), default=0)
        if width:
            full = [per_row(a, np.empty((0, 0))) for a in arrays]
            arrays = [np.broadcast_to(a, (n_rows, width)).ravel() for a in full]
        else:
            arrays = [np.full(n_rows, a) if a.ndim == 0 else a for a in arrays]
        return [Elementwise(n_rows, *arrays)]

    def __add__(self, other: object) -> Any:
        if not isinstance(other, ElementwisePenalty):
            return super().__add__(other)
        a, b = self._numbers, other._numbers
        return Separable(
            _combine(np.add, a.l1, b.l1),
            _combine(np.add, a.l2, b.l2),
            _combine(np.maximum, a.lower, b.lower),
            _combine(np.minimum, a.upper, b.upper),
        )


def _combine(how: Any, a: Numbers, b: Numbers) -> Any:
    wide = max(np.ndim(a), np.ndim(b)) == 2
    a, b = (n[:, None] if wide and np.ndim(n) == 1 else n for n in map(np.asarray, (a, b)))
    return how(a, b)


def as_number(values: ArrayLike) -> Numbers:
    """Return a float or a read-only array."""
    return float(np.asarray(values)) if np.ndim(values) == 0 else frozen(values)


@dataclass(frozen=True, eq=False)
class Separable(ElementwisePenalty):
    """Any sum of l1, squared l2 and bounds: ``sum_j l1_j |x_j| + l2_j/2 x_j^2``.

    It is what two elementwise penalties add up to; the numbers are one for all rows, one per
    row, or one per entry.

    Parameters
    ----------
    l1, l2 : float or array
        Non-negative strengths.
    lower, upper : float or array
        Bounds, infinite where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import L1, NonNegative, Separable
    >>> L1(0.5) + NonNegative()
    Separable(l1=0.5, l2=0.0, lower=0.0, upper=inf)
    >>> Separable(l1=1.0, l2=1.0, upper=2.0).prox(np.array([0.5, 3.0, 9.0]), 1.0)
    array([0., 1., 2.])
    """

    l1: ArrayLike = 0.0
    l2: ArrayLike = 0.0
    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf

    def __post_init__(self) -> None:
        for name, values in field_values(self).items():
            number: Any = as_number(values)
            if name in ("l1", "l2") and not np.all((number >= 0) & (number < np.inf)):
                raise ValueError(f"{name} must hold non-negative numbers")
            set_field(self, name, number)
        check_bounds(self.lower, self.upper)
        super().__post_init__()

    def _coefficients(self) -> Coefficients:
        numbers: Any = (self.l1, self.l2, self.lower, self.upper)  # cleaned before
        return Coefficients(*numbers)

    def scaled(self, factor: float) -> ElementwisePenalty:
        """Return the penalty times ``factor``; bounds stay."""
        check_alpha(factor, "factor")
        l1, l2, lower, upper = self._numbers
        return Separable(l1 * factor, l2 * factor, lower, upper)


def check_bounds(lower: ArrayLike, upper: ArrayLike) -> None:
    """Refuse bounds that leave nothing between them."""
    low, high = np.asarray(lower), np.asarray(upper)
    if np.isnan(low).any() or np.isnan(high).any() or _combine(np.greater, low, high).any():
        raise ValueError("bounds must satisfy lower <= upper in every entry")
    if (low == np.inf).any() or (high == -np.inf).any():
        raise ValueError("bounds leave no finite value; use -inf below and inf above for none")


def held_at_zero(penalty: Any, rows: Array) -> ElementwisePenalty:
    """Return a penalty with some rows held at zero by bounds."""
    if not isinstance(penalty, ElementwisePenalty):
        raise ValueError(
            f"edges of infinite weight need an l1 norm on the differences, got "
            f"{type(penalty).__name__}; give them finite weights"
        )
    upper = np.where(rows, 0.0, np.inf)
    held: ElementwisePenalty = penalty + Separable(0.0, 0.0, -upper, upper)
    return held
