"""What all losses share: checks of the targets, weighted means, the dual side of a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from ..base.capabilities import Capabilities, Has, offers
from ..base.immutable import as_float
from ..base.protocols import Array
from ..kernels import passes
from ..kernels.extension import available

COMPLETE: Capabilities = frozenset(
    {
        Has.CURVATURE,
        Has.CURVATURE_APPLY,
        Has.CURVATURE_OPERATOR,
        Has.CURVATURE_PARTS,
        Has.CONJUGATE,
        Has.LARGEST_CONJUGATE,
        Has.DUAL_STEP_LIMIT,
        Has.DUAL_MARGIN,
        Has.PROX,
        Has.PROX_CONJUGATE,
        Has.MEAN,
        Has.SCORED,
        Has.CHECK_TARGETS,
        Has.N_OUTPUTS,
        Has.KERNEL,
    }
)
"""What every loss of the library offers."""

_MAX_NEWTON = 200
_NORMAL_QUARTILES = 1.3489795  # their distance, in deviations of a normal distribution
_NORMAL_DISTANCE = 1.2533141  # deviation over mean distance of a normal distribution
_BELOW_ONE = 1.0 - 4.0 * float(np.finfo(np.float64).eps)


def check_finite(y: Array) -> None:
    """Refuse targets that are empty, missing or infinite."""
    if y.size == 0:
        raise ValueError("y is empty; give at least one target")
    if not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity; drop or impute those rows")


def check_signs(y: Array, name: str) -> Array:
    """Return ``y`` when all its entries are -1 or +1."""
    if not (np.abs(y) == 1).all():
        labels = np.unique(y)
        shown = ", ".join(f"{label:g}" for label in labels[:5]) + ", ..." * (labels.size > 5)
        remedy = "use 2*y-1, or the classifier" if set(labels) <= {0.0, 1.0} else "the classifier"
        raise ValueError(
            f"y must hold the labels -1 and +1 for {name}, got {shown}; "
            f"{remedy} estimators take any two labels"
        )
    return y


def weighted_mean(terms: Array, weight: Array | None) -> float:
    """Return the weighted mean over the rows of ``terms``, summed over the columns.

    Of weights per entry a row counts with its largest, as in `FiniteSum`: equal columns of weights
    do the same as one weight per row, and a missing entry takes nothing from its row's weight.
    """
    if weight is None:
        return float(terms.sum(dtype=np.float64)) / len(terms)
    weight = np.asarray(weight, dtype=np.float64)
    rows = weight if weight.ndim == 1 else weight.max(axis=1)
    if terms.ndim == 2 and weight.ndim == 1:
        terms = terms.sum(axis=1)
    if weight.shape != terms.shape:
        raise ValueError(f"weight has shape {weight.shape}, expected {terms.shape}")
    return float((weight * terms).sum()) / float(rows.sum())


def sums(terms: tuple[Array, ...], weight: Array | None) -> list[Array]:
    """Return the weighted sum over the rows of each of ``terms``, column by column."""
    if weight is None:
        return [np.asarray(term).sum(axis=0, dtype=np.float64) for term in terms]
    return [(rows(weight, np.asarray(term)) * term).sum(axis=0) for term in terms]


def spread(y: Array, weight: Array | None, offset: Array | None) -> float:
    """Return the deviation of targets as their quartiles tell it, in the unit of the targets.

    Outliers do not change it. Where half of the targets are equal it is the mean distance from
    them, and where all are, their size. Of several outputs the smallest counts.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses._base import spread
    >>> round(spread(np.array([1.0, 2.0, 3.0, 4.0, 1e9]), None, None), 3)
    1.483
    """
    y = np.asarray(y, dtype=np.float64) - (0.0 if offset is None else offset)
    columns = y.reshape(len(y), -1)
    each = np.ones_like(columns) if weight is None else rows(weight, columns) + 0.0 * columns
    found = [_spread(column, q) for column, q in zip(columns.T, each.T, strict=True) if q.any()]
    return min(found, default=1.0)


def _spread(y: Array, weight: Array) -> float:
    y, weight = y[weight > 0], weight[weight > 0]
    order = np.argsort(y, kind="stable")
    y, share = y[order], np.cumsum(weight[order] / weight.sum())
    # the first value up to which the share is reached: repeated rows and weights do the same
    low, middle, high = y[np.searchsorted(share, [0.25 - 1e-12, 0.5 - 1e-12, 0.75 - 1e-12])]
    if high > low:
        return float(high - low) / _NORMAL_QUARTILES
    distance = float(np.average(np.abs(y - middle), weights=weight[order]))
    return distance * _NORMAL_DISTANCE or abs(float(middle)) or 1.0


def step_limit(u: Array, du: Array, lower: Any, upper: Any) -> Array:
    """Return the largest t in [0, 1], row by row, with ``lower <= u + t du <= upper``.

    Rounded down, so that ``u + t du`` in float64 is inside.
    """
    u = np.asarray(u, dtype=np.float64)
    du = np.asarray(du, dtype=np.float64)
    edge = np.where(du > 0, upper, lower)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.where(du == 0, 1.0, (edge - u) / du)
    t = np.where(t < 1.0, np.maximum(t, 0.0) * _BELOW_ONE, 1.0)
    return t.min(axis=1) if t.ndim == 2 else t


def _guard(u: Array) -> float:
    """Return how far beyond the end of an interval, relative to it, is rounding of ``u``."""
    return 4.0 * float(np.finfo(u.dtype).eps)


class Elementwise:
    """A loss that treats every entry of the prediction by itself.

    Subclasses give, entry by entry, ``_values`` and ``_conjugates`` in float64, ``derivative``,
    ``curvature``, and ``_dual_bounds``: the interval on which the conjugate is finite.
    """

    name: ClassVar[str]
    """What estimators call it, and compiled code."""
    capabilities: ClassVar[Capabilities] = COMPLETE | {Has.LOG_LIKELIHOOD}
    exposure: ClassVar[str | None] = None
    """What an exposure is: the log of it an "offset" of counts, or a "weight" of a mean amount."""
    nonnegative: ClassVar[bool] = True
    """Whether no value is below zero, so that a value is a scale of its own."""

    @classmethod
    def for_targets(
        cls, y: Array, weight: Array | None = None, offset: Array | None = None
    ) -> Self:
        """Return the loss with parameters that suit the targets; here the default ones."""
        return cls()

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative."""
        raise NotImplementedError

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        raise NotImplementedError

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        raise NotImplementedError

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        raise NotImplementedError

    def _values(self, z: Array, y: Array) -> Array:
        raise NotImplementedError

    def _conjugates(self, u: Array, y: Array) -> Array:
        """Return the conjugate at points inside the domain."""
        raise NotImplementedError

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        raise NotImplementedError

    def _compiled(self, *entrywise: Array) -> bool:
        """Whether compiled loops over entries take these arrays."""
        shape = entrywise[0].shape
        known = offers(self, Has.KERNEL) and all(a.shape == shape for a in entrywise[1:])
        return known and available()

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean over the rows, summed over the outputs, in float64.

        ``weight`` is one number per row or, for predictions of shape (n, C), one per entry; a
        row then counts with the largest of its weights.
        """
        z = np.asarray(z, dtype=np.float64)
        return weighted_mean(self._values(z, np.asarray(y, dtype=np.float64)), weight)

    def values(self, z: Array, y: Array) -> Array:
        """Return the loss of every entry, in float64."""
        return self._values(np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64))

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``."""
        return self.curvature(z, y) * v

    def curvature_operator(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """Return ``curvature_apply`` for many v at the same predictions."""
        curvature = self.curvature(z, y)
        return lambda v: curvature * v

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return (a, b) with Hessian ``diag(a) - b b'``, row by row; b is None when zero."""
        return self.curvature(z, y), None

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return ``sup_z u z - loss(z, y)``, row by row, summed over the outputs.

        It is ``inf`` outside the domain. A ``u`` beyond an end of its interval by at most four
        units of rounding (of the dtype of ``u``, at the size of its finite ends) counts as on it.
        """
        u = as_float(u)
        guard = _guard(u)
        u = u.astype(np.float64, copy=False)
        y = np.asarray(y, dtype=np.float64)
        if self._compiled(u, y):
            terms = passes.conjugates(self.kernel, u, y, guard)
            return terms.sum(axis=1) if terms.ndim == 2 else terms
        lower, upper = self._dual_bounds(y)
        with np.errstate(invalid="ignore"):
            size = np.maximum(
                *(np.where(np.isinf(end), 0.0, np.abs(end)) for end in (lower, upper))
            )
            outside = (u < lower - guard * size) | (u > upper + guard * size)
            terms = np.where(outside, np.inf, self._conjugates(np.clip(u, lower, upper), y))
        return terms.sum(axis=1) if terms.ndim == 2 else terms

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, that keeps ``u + t du`` in the domain."""
        u, du, y = (np.asarray(a, dtype=np.float64) for a in (u, du, y))
        if self._compiled(u, du, y):
            t = passes.rooms(self.kernel, u, du, y)
            return t.min(axis=1) if t.ndim == 2 else t
        return step_limit(u, du, *self._dual_bounds(y))

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, with ``u +- t size`` in the domain."""
        return np.minimum(
            self.dual_step_limit(u, size, y), self.dual_step_limit(u, -np.asarray(size), y)
        )

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate over ``u - size <= v <= u + size``, row by row.

        A convex function of one number is largest at an end; outputs add up.
        """
        u, size = as_float(u), as_float(size)
        double = u.dtype == size.dtype == np.float64
        if double and self._compiled(u, size, np.asarray(y)):
            terms = passes.largest_conjugates(self.kernel, u, size, y, _guard(u))
            return terms.sum(axis=1) if terms.ndim == 2 else terms
        ends = u - size, u + size
        if np.ndim(u) == 1:
            return np.maximum(*(self.conjugate(end, y) for end in ends))
        parts = [
            np.maximum(*(self.conjugate(end[:, c], y[:, c]) for end in ends))
            for c in range(ends[0].shape[1])
        ]
        return np.asarray(sum(parts))

    def prox(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_z loss(z, y) + (z - v)^2 / (2 step)``, entry by entry."""
        v = as_float(v)
        z = self._prox(v.astype(np.float64), rows(step, v), np.asarray(y, dtype=np.float64))
        return z.astype(v.dtype, copy=False)

    def prox_conjugate(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_u conjugate(u, y) + (u - v)^2 / (2 step)``, entry by entry.

        By Moreau's identity it is the derivative at the prox of the loss, which keeps it inside
        the domain to the last bit.
        """
        v = as_float(v)
        step, y = rows(step, v), np.asarray(y, dtype=np.float64)
        u = self.derivative(self._prox(v / step, 1.0 / step, y), y)
        return u.astype(v.dtype, copy=False)

    def _prox(self, v: Array, step: Array, y: Array) -> Array:
        """Solve ``z - v + step * derivative(z) = 0`` by Newton's method in a shrinking bracket.

        The derivative does not decrease, so the root lies between v and ``v - step *
        derivative(v)``. A Newton point that leaves the bracket, or does not halve the residual, is
        followed by a bisection.
        """
        move = step * self.derivative(v, y)
        low, high = np.minimum(v, v - move), np.maximum(v, v - move)
        z, residual = v.copy(), move
        for _ in range(_MAX_NEWTON):
            low, high = np.where(residual < 0, z, low), np.where(residual > 0, z, high)
            candidate = z - residual / (1.0 + step * self.curvature(z, y))
            candidate = np.where(
                (candidate >= low) & (candidate <= high), candidate, 0.5 * (low + high)
            )
            after = candidate - v + step * self.derivative(candidate, y)
            slow = np.abs(after) > 0.5 * np.abs(residual)
            if slow.any():
                low = np.where(slow & (after < 0), candidate, low)
                high = np.where(slow & (after > 0), candidate, high)
                candidate = np.where(slow & (after != 0), 0.5 * (low + high), candidate)
                after = candidate - v + step * self.derivative(candidate, y)
            done = np.abs(candidate - z) <= 2e-16 * np.abs(candidate)
            z, residual = candidate, after
            if done.all():
                break
        return z

    def scored(self) -> Elementwise:
        """Return the loss that scores are made of, without what only helps to minimize it."""
        return self

    log_likelihood: Callable[[float, Array, int], float] | None = None
    """``log_likelihood(total, y, entries)`` of a fit with this sum of losses, where there is one;
    parameters that the loss leaves out are estimated."""

    def mean(self, z: Array) -> Array:
        """Return the prediction on the scale of the response: ``z`` itself."""
        return as_float(z)

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        y = np.asarray(y)
        if y.dtype.kind not in "biuf":
            raise ValueError(f"y has dtype {y.dtype}; {type(self).__name__} needs numbers")
        if y.ndim not in (1, 2):
            raise ValueError(f"y has shape {y.shape}; expected (n,) or (n, n_outputs)")
        y = as_float(y)
        check_finite(y)
        return y

    def n_outputs(self, y: Array) -> int | None:
        """Return None for targets of shape (n,), C for (n, C)."""
        shape = np.shape(y)
        return shape[1] if len(shape) == 2 else None


def rows(step: Array | float, v: Array) -> Array:
    """Return ``step`` in float64; one number per row is made to broadcast against ``v``."""
    step = np.asarray(step, dtype=np.float64)
    return step[:, None] if step.ndim == 1 and v.ndim == 2 else step


def named(*losses: type[Elementwise]) -> dict[str, type[Elementwise]]:
    """Return losses by their names."""
    return {loss.name: loss for loss in losses}
