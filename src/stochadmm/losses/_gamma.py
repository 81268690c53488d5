"""Gamma loss with the log link, made safe for step sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import entr, gammaln, polygamma, psi

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ..base.validation import is_between
from ._base import Elementwise, sums

_LARGEST = 1e40  # ratio of a target and its mean: its square is still a number


@dataclass(frozen=True)
class Gamma(Elementwise):
    """Gamma loss of positive amounts with the log link, ``z + y exp(-z)``.

    The second derivative ``y exp(-z)`` has no bound where predictions are far too small. From
    ``z = log(y / max_ratio)`` on, the loss is exactly ``z + y exp(-z)``; below, the exponential is
    continued by the parabola with the same value, derivative and curvature at that point. The loss
    stays convex and smooth, its curvature is at most ``max_ratio``, and the conjugate is that of
    the loss as continued. A fit in which no target is more than ``max_ratio`` times its predicted
    mean is the fit of the Gamma model itself. Estimators ensure this: if a fit ends outside the
    range, they raise ``max_ratio`` and solve again. ``minimize`` uses the loss as it is: an answer
    outside the range is ``STALLED``, and the message names the loss to solve again with.

    Parameters
    ----------
    max_ratio : float
        Largest ratio of a target to its mean on which the loss is exact, above 1. Smaller is
        faster: steps shrink with it.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Gamma
    >>> Gamma().derivative(np.zeros(3), np.array([0.5, 1.0, 3.0]))
    array([ 0.5,  0. , -2. ])
    >>> float(Gamma().mean(np.array(0.0)))
    1.0
    """

    max_ratio: float = 400.0
    name: ClassVar[str] = "gamma"
    exposure: ClassVar[str | None] = "weight"
    capabilities: ClassVar[Capabilities] = Elementwise.capabilities | {Has.BEYOND}
    nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not is_between(self.max_ratio, 1, _LARGEST):
            raise ValueError(f"max_ratio must lie between 1 and 1e40, got {self.max_ratio!r}")

    @classmethod
    def for_targets(
        cls,
        y: Array,
        weight: Array | None = None,
        offset: Array | None = None,
        *,
        margin: float = 10.0,
    ) -> Self:
        """Return the loss that is exact for means above the smallest target over ``margin``.

        That is at most a ratio of 400, or twice the largest at the best constant. With offsets,
        targets are taken for one unit of exposure.
        """
        if not np.min(y) > 0:
            return cls()
        logs = np.log(np.asarray(y, dtype=np.float64)) - (0.0 if offset is None else offset)
        top = logs.max(axis=0)
        rate, rows = sums((np.exp(logs - top), np.ones_like(logs)), weight)
        spread = float(min(np.max(top - logs.min(axis=0)), np.log(cls.max_ratio)))
        reach = min(margin * np.exp(spread), cls.max_ratio)
        constant = 2.0 * float(np.max(rows / np.maximum(rate, np.finfo(float).tiny)))
        return cls(float(min(max(reach, constant), 0.1 * _LARGEST)))

    def beyond(self, z: Array, y: Array) -> Array:
        """Return how far predictions lie below the range, not above zero inside."""
        return np.asarray(np.log(y) - np.asarray(z) - np.log(self.max_ratio))

    def wider(self, by: float) -> Self:
        """Return the loss with a range that goes on for ``by`` more, as far as numbers go."""
        most = np.log(_LARGEST) - np.log(self.max_ratio)
        return type(self)(self.max_ratio * float(np.exp(by)) if by < most else 0.99 * _LARGEST)

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: ``max_ratio``."""
        return float(self.max_ratio)

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops: p0 is the log of ``max_ratio``."""
        return "gamma", float(np.log(self.max_ratio)), 0.0

    def _split(self, z: Array, y: Array) -> tuple[Array, Array]:
        """Return the ratio of target and mean, at most its top, and how far z is beyond."""
        excess = np.log(y).astype(z.dtype, copy=False) - z
        inner = np.minimum(excess, z.dtype.type(np.log(self.max_ratio)))
        return np.exp(inner), excess - inner

    def _values(self, z: Array, y: Array) -> Array:
        ratio, beyond = self._split(z, y)
        return np.asarray(z + ratio * (1.0 + beyond + 0.5 * beyond * beyond))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z = as_float(z)
        ratio, beyond = self._split(z, np.asarray(y))
        return np.asarray(1 - ratio * (1 + beyond), dtype=z.dtype)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        return self._split(as_float(z), np.asarray(y))[0]

    def _conjugates(self, u: Array, y: Array) -> Array:
        # with r = 1 - u the ratio at the maximizer, z = log y - log r while r is within the range
        top = float(self.max_ratio)
        ratio = np.maximum(1.0 - u, 0.0)
        inner = np.minimum(ratio, top)
        beyond = ratio / top - inner / top
        outer = np.log(top) * (ratio - inner) + 0.5 * top * beyond * beyond
        known = -entr(inner) - inner + np.where(beyond > 0, outer, 0.0)
        return np.asarray(known - ratio * np.log(y))

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -np.inf, 1.0

    def scored(self) -> Gamma:
        """Return the loss with its parabola out of reach."""
        return Gamma(1e39)

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood at the estimated shape k of the distribution."""
        logs = float(np.log(y).sum(dtype=np.float64))
        excess = max((total - logs) / entries - 1.0, 1e-300)  # half the mean deviance
        # log k - psi(k) = excess, from the usual approximation of its root
        k = (3.0 - excess + np.sqrt((excess - 3.0) ** 2 + 24.0 * excess)) / (12.0 * excess)
        for _ in range(20):
            k /= 1.0 + (np.log(k) - psi(k) - excess) / (1.0 - k * polygamma(1, k))
        return float(entries * (k * np.log(k) - gammaln(k)) + (k - 1.0) * logs - k * total)

    def mean(self, z: Array) -> Array:
        """Return the expected amount, ``exp(z)``."""
        return np.asarray(np.exp(as_float(z)))

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        y = super().check_targets(y)
        if (y < np.finfo(y.dtype).tiny).any():
            raise ValueError("y has values that are not above zero; Gamma needs positive amounts")
        return y
