"""Tweedie loss with the log link: many zeros, and positive amounts with a long tail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ..base.validation import is_between
from ._base import Elementwise, sums

_LARGEST = 1e40  # of the two parts of a derivative: their squares are still numbers
_MAX_NEWTON = 100


@dataclass(frozen=True)
class Tweedie(Elementwise):
    """Tweedie loss with the log link, ``y exp(-(p-1) z) / (p-1) + exp((2-p) z) / (2-p)``.

    It is half the deviance plus a constant; the variance is proportional to ``mean ** power``. The
    derivative is ``exp((2-p) z) - y exp(-(p-1) z)``, and the second derivative has no bound on
    either side. Where both parts of the derivative are at most ``max_part``, the loss is exactly
    that; beyond, on either side, it is continued by the parabola with the same value, derivative
    and curvature. The loss stays convex and smooth, its curvature is at most ``max_part``, and the
    conjugate is that of the loss as continued. Estimators ensure that a fit lies inside: if it
    ends outside the range, they raise ``max_part`` and solve again. ``minimize`` uses the loss as
    it is: check ``loss.beyond(z, y).max()``, which is above zero where predictions left the range.

    Parameters
    ----------
    power : float
        Between 1 (Poisson) and 2 (gamma), both excluded.
    max_part : float
        Largest part of a derivative for which the loss is exact. Estimators raise it to what the
        targets need.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Tweedie
    >>> Tweedie(1.5).derivative(np.zeros(3), np.array([0.0, 1.0, 3.0]))
    array([ 1.,  0., -2.])
    """

    power: float = 1.5
    max_part: float = 1e3
    name: ClassVar[str] = "tweedie"
    exposure: ClassVar[str | None] = "weight"
    capabilities: ClassVar[Capabilities] = (Elementwise.capabilities | {Has.BEYOND}) - {
        Has.LOG_LIKELIHOOD
    }

    def __post_init__(self) -> None:
        if not is_between(self.power, 1, 2) or self.power in (1, 2):
            raise ValueError(
                f"power is {self.power!r}, expected a number between 1 and 2; use Poisson() for 1 "
                "and Gamma() for 2"
            )
        if not is_between(self.max_part, 1, _LARGEST):
            raise ValueError(f"max_part must lie between 1 and 1e40, got {self.max_part!r}")

    @classmethod
    def for_targets(
        cls, y: Array, weight: Array | None = None, offset: Array | None = None
    ) -> Self:
        """Return the loss of power 1.5 with a range that suits the targets."""
        return cls().suited(y, weight, offset)

    def suited(self, y: Array, weight: Array | None = None, offset: Array | None = None) -> Self:
        """Return the loss with a range of ten times the parts at the best constant, at least."""
        q, r = self._exponents
        y = np.asarray(y, dtype=np.float64)
        shift = np.zeros_like(y) if offset is None else np.asarray(offset, dtype=np.float64)
        up, down = np.exp(q * shift), y * np.exp(-r * shift)
        total, rows = map(np.atleast_1d, sums((down, up), weight))
        seen = total > 0
        mean = np.where(seen, total / np.where(rows > 0, rows, 1.0), 1.0)
        parts = max(float(np.max(up * mean**q)), float(np.max(down * mean**-r)))
        least = max(10.0 * parts, 1.01 * float(np.max(y, initial=0.0)) ** q, self.max_part)
        return replace(self, max_part=min(least, 0.1 * _LARGEST))

    @property
    def _exponents(self) -> tuple[float, float]:
        return 2.0 - self.power, self.power - 1.0

    def _range(self, y: Array) -> tuple[Array, float]:
        """Return the first and the last prediction at which the loss is exact."""
        q, r = self._exponents
        top = np.log(self.max_part)
        with np.errstate(divide="ignore"):
            return (np.log(np.asarray(y, dtype=np.float64)) - top) / r, top / q

    def beyond(self, z: Array, y: Array) -> Array:
        """Return how far predictions lie beyond the range, not above zero inside."""
        low, high = self._range(y)
        return np.asarray(np.maximum(low - np.asarray(z), np.asarray(z) - high))

    def wider(self, by: float) -> Self:
        """Return the loss with a range that goes on for ``by`` more, as far as numbers go."""
        more = by * max(self._exponents)
        most = np.log(0.99 * _LARGEST / self.max_part)
        return replace(self, max_part=self.max_part * float(np.exp(min(more, most))))

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: ``(2-p) max_part + (p-1) max_part``."""
        return float(self.max_part)

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops: p0 is the power, p1 the log of ``max_part``."""
        return "tweedie", float(self.power), float(np.log(self.max_part))

    def _split(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return both parts of the derivative inside the range, and how far z is beyond."""
        q, r = self._exponents
        low, high = self._range(y)
        inner = np.clip(np.asarray(z, dtype=np.float64), low, high)
        up = np.exp(q * inner)
        # the exponent of a target of zero does not matter, but exp of it must be a number
        return up, y * np.exp(np.where(np.asarray(y) > 0, -r * inner, 0.0)), z - inner

    def _values(self, z: Array, y: Array) -> Array:
        q, r = self._exponents
        up, down, beyond = self._split(z, y)
        bend = 0.5 * (q * up + r * down) * beyond
        return np.asarray(up / q + down / r + (up - down + bend) * beyond)

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z = as_float(z)
        q, r = self._exponents
        up, down, beyond = self._split(z, np.asarray(y))
        return np.asarray(up - down + (q * up + r * down) * beyond, dtype=z.dtype)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        z = as_float(z)
        q, r = self._exponents
        up, down, _ = self._split(z, np.asarray(y))
        return np.asarray(q * up + r * down, dtype=z.dtype)

    def _conjugates(self, u: Array, y: Array) -> Array:
        z = self._maximizer(u, y)
        return np.asarray(np.where((u <= 0) & (y == 0), 0.0, u * z - self._values(z, y)))

    def _maximizer(self, u: Array, y: Array) -> Array:
        """Return z with ``derivative(z) = u``.

        Inside the range ``log(larger part) = log(smaller part + |u|)``. The difference of both
        sides is concave in z, so that Newton's method is monotone from the side where it is
        negative, and its derivative lies between (2-p or p-1) and 1.
        """
        q, r = self._exponents
        low, high = self._range(y)
        size = np.maximum(np.abs(u), 1e-300)
        # both sides are computed everywhere, also where the other one is taken
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_y = np.log(y)
            rising = u >= 0
            start = np.where(
                rising,
                np.maximum(np.log(size) / q, log_y),
                np.minimum((log_y - np.log(size)) / r, log_y),
            )
            z = start
            for _ in range(_MAX_NEWTON):
                # the smaller part, and the log of the larger one less that of their sum
                small = np.where(rising, y * np.exp(-r * z), np.exp(q * z))
                large = np.where(rising, q * z, log_y - r * z)
                change = np.where(rising, q + r * small / (small + size), 0.0)
                change = np.where(rising, change, -r - q * small / (small + size))
                move = np.where(y > 0, (np.log(small + size) - large) / change, 0.0)
                z = z + move
                if np.all(np.abs(move) <= 1e-15 * (1.0 + np.abs(z))):
                    break
        z = np.clip(z, low, high)
        up, down, _ = self._split(z, y)
        edge = (z <= low) | (z >= high)
        return np.asarray(z + np.where(edge, (u - up + down) / (q * up + r * down), 0.0))

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return np.where(np.asarray(y) > 0, -np.inf, 0.0), np.inf

    def scored(self) -> Tweedie:
        """Return the loss with its parabolas out of reach."""
        return replace(self, max_part=0.1 * _LARGEST)

    def mean(self, z: Array) -> Array:
        """Return the expected amount, ``exp(z)``."""
        return np.asarray(np.exp(as_float(z)))

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        y = super().check_targets(y)
        if (y < 0).any():
            raise ValueError("y has negative values; Tweedie needs amounts, 0 or more")
        # no prediction would lie inside the range; where powers are near 2 its end is no number
        end = np.log(self.max_part) / (2.0 - self.power)
        if y.max() > 0 and np.log(y.max()) >= end:
            top = np.exp(end)
            raise ValueError(
                f"y goes up to {y.max():g}, but max_part = {self.max_part:.4g} allows less than "
                f"{top:.4g}; use Tweedie(power).suited(y), or a larger max_part"
            )
        return y
