"""Losses whose derivative is a clipped line: squared, Huber, smoothed quantile, squared hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ..base.validation import is_between
from ._base import Elementwise, check_signs, rows, spread


class ClippedQuadratic(Elementwise):
    """The loss with derivative ``s = clip(c (z - y), lower, upper)``.

    Its value is ``s (z - y) - s^2 / (2 c)`` and its conjugate ``u y + u^2 / (2 c)`` on
    ``lower <= u <= upper``, so that one set of formulas serves all members of the family.
    """

    def _derivative(self, r: Array, y: Array) -> Array:
        lower, upper = self._dual_bounds(y)
        return np.clip(self.curvature_bound * r, lower, upper)

    def _values(self, z: Array, y: Array) -> Array:
        r = z - y
        s = self._derivative(r, y)
        return s * (r - s / (2.0 * self.curvature_bound))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z, y = as_float(z), np.asarray(y)
        return self._derivative(z - y, y).astype(z.dtype, copy=False)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``; where it jumps, the larger of the two."""
        z, y = as_float(z), np.asarray(y)
        lower, upper = self._dual_bounds(y)
        line = self.curvature_bound * (z - y)
        active = (line >= lower) & (line <= upper)
        return np.where(active, self.curvature_bound, 0.0).astype(z.dtype)

    def _conjugates(self, u: Array, y: Array) -> Array:
        return u * (y + u / (2.0 * self.curvature_bound))

    def _prox(self, v: Array, step: Array, y: Array) -> Array:
        lower, upper = self._dual_bounds(y)
        pull = np.clip((v - y) / (1.0 / self.curvature_bound + step), lower, upper)
        return np.asarray(v - step * pull)

    def prox_conjugate(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_u conjugate(u, y) + (u - v)^2 / (2 step)``, entry by entry."""
        v, y = as_float(v), np.asarray(y)
        lower, upper = self._dual_bounds(y)
        step = rows(step, v)
        u: Array = np.clip((v - step * y) / (1.0 + step / self.curvature_bound), lower, upper)
        return u.astype(v.dtype, copy=False)


@dataclass(frozen=True)
class Squared(ClippedQuadratic):
    """Squared error, ``1/2 (z - y)^2``.

    Parameters
    ----------
    half : bool
        False: ``(z - y)^2``, without the factor one half.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Squared
    >>> z, y = np.array([1.0, 3.0]), np.array([0.0, 1.0])
    >>> Squared().value(z, y)
    1.25
    >>> Squared().derivative(z, y)
    array([1., 2.])
    """

    half: bool = True
    name: ClassVar[str] = "squared"
    capabilities: ClassVar[Capabilities] = ClippedQuadratic.capabilities | {Has.SQUARE}

    @property
    def square(self) -> float:
        """The factor of ``1/2 (z - y)^2``: 1, or 2 without the factor one half."""
        return self.curvature_bound

    @property
    def curvature_bound(self) -> float:
        """The second derivative: 1, or 2 without the factor one half."""
        return 1.0 if self.half else 2.0

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "squared", self.curvature_bound, 0.0

    def _derivative(self, r: Array, y: Array) -> Array:
        return self.curvature_bound * r

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -np.inf, np.inf

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood of normal noise at its estimated variance."""
        square = 2.0 * total / (entries * self.curvature_bound)
        tiny = np.finfo(float).tiny
        return -0.5 * entries * (float(np.log(2 * np.pi * max(square, tiny))) + 1.0)


@dataclass(frozen=True)
class Huber(ClippedQuadratic):
    """Huber's robust loss of ``r = z - y``.

    ``1/2 r^2`` where ``|r| <= delta``, ``delta |r| - 1/2 delta^2`` elsewhere.

    Parameters
    ----------
    delta : float
        Where the parabola turns into a line, in units of ``y``. The default has 95% of the
        efficiency of least squares when the noise is normal with unit variance.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Huber
    >>> Huber(delta=1.0).derivative(np.array([0.5, 100.0]), np.array([0.0, 0.0]))
    array([0.5, 1. ])
    """

    delta: float = 1.35
    name: ClassVar[str] = "huber"

    @classmethod
    def for_targets(
        cls, y: Array, weight: Array | None = None, offset: Array | None = None
    ) -> Self:
        """Return the loss whose delta is 1.35 times the deviation of targets within quartiles.

        It is then in the unit of the targets, and few outliers do not change it.

        Examples
        --------
        >>> import numpy as np
        >>> from stochadmm.losses import Huber
        >>> y = np.random.default_rng(0).normal(size=1000)
        >>> round(Huber.for_targets(1000 * y).delta / Huber.for_targets(y).delta)
        1000
        """
        return cls(cls.delta * spread(y, weight, offset))

    def __post_init__(self) -> None:
        if not is_between(self.delta, 0, np.inf):
            raise ValueError(f"delta must be positive, got {self.delta!r}")

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: 1."""
        return 1.0

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "huber", float(self.delta), 0.0

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -float(self.delta), float(self.delta)


@dataclass(frozen=True)
class Quantile(ClippedQuadratic):
    """Smoothed pinball loss of ``r = y - z``: the regression quantile of a level.

    The Moreau envelope of ``max(level r, (level - 1) r)`` with parameter ``smoothing`` (the
    pinball "Huberised"): ``r^2 / (2 smoothing)`` where ``r`` lies between
    ``(level - 1) smoothing`` and ``level smoothing``, straight with derivatives ``level - 1`` and
    ``level`` outside. It lies below the pinball by at most
    ``smoothing max(level, 1 - level)^2 / 2``.

    Parameters
    ----------
    level : float
        Between 0 and 1, 0.5 for the median.
    smoothing : float
        Width of the parabola, in units of ``y``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Quantile
    >>> Quantile(level=0.9, smoothing=0.1).derivative(np.array([0.0, 0.0]), np.array([5.0, -5.0]))
    array([-0.9,  0.1])
    """

    level: float = 0.5
    smoothing: float = 0.1
    name: ClassVar[str] = "quantile"

    @classmethod
    def for_targets(
        cls, y: Array, weight: Array | None = None, offset: Array | None = None
    ) -> Self:
        """Return the median's loss, smoothed by a tenth of the deviation of targets.

        The deviation is that within the quartiles. The median moves by less than a twentieth of
        it; with much less smoothing a median that lies between two targets has no curvature.
        """
        return cls(smoothing=cls.smoothing * spread(y, weight, offset))

    def __post_init__(self) -> None:
        if not is_between(self.level, 0, 1):
            raise ValueError(f"level must lie strictly between 0 and 1, got {self.level!r}")
        if not is_between(self.smoothing, 0, np.inf):
            raise ValueError(f"smoothing must be positive, got {self.smoothing!r}")

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: ``1 / smoothing``."""
        return 1.0 / self.smoothing

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "quantile", float(self.level), float(self.smoothing)

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -float(self.level), 1.0 - float(self.level)

    def scored(self) -> Quantile:
        """Return the pinball loss itself, up to a smoothing below any rounding that matters."""
        return Quantile(self.level, smoothing=1e-12)


@dataclass(frozen=True)
class SquaredHinge(ClippedQuadratic):
    """Squared hinge, ``1/2 max(0, 1 - y z)^2``, for labels -1 and +1.

    Because ``y^2 = 1`` it is ``1/2 (z - y)^2`` on one side of ``y`` and zero on the other.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    0.25
    """

    name: ClassVar[str] = "squared_hinge"

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: 1."""
        return 1.0

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "squared_hinge", 1.0, 0.0

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        return check_signs(super().check_targets(y), "SquaredHinge")

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return np.where(y > 0, -np.inf, 0.0), np.where(y > 0, 0.0, np.inf)
