"""Negative binomial loss with the log link and a known dispersion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import entr, expit, gammaln

from ..base.immutable import as_float
from ..base.protocols import Array
from ..base.validation import is_between
from ._base import Elementwise


@dataclass(frozen=True)
class NegativeBinomial(Elementwise):
    """Negative binomial loss of counts, ``(y + 1/theta) log(1 + theta exp(z)) - y z``.

    The variance is ``mean + theta mean^2``. It is a logistic loss: of the weight ``y + 1/theta``,
    with the offset ``log(theta)``, and ``y / (y + 1/theta)`` in place of a label. So its second
    derivative has a bound, and no range of predictions is needed.

    Parameters
    ----------
    dispersion : float
        ``theta``, above zero. It is known, not estimated; R's ``theta`` is its inverse.
    max_target : float
        Largest target. The curvature is at most ``(max_target + 1/theta) / 4``; estimators set it.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import NegativeBinomial
    >>> NegativeBinomial(0.5).derivative(np.zeros(3), np.array([0.0, 1.0, 4.0])).round(3)
    array([ 0.667,  0.   , -2.   ])
    """

    dispersion: float = 1.0
    max_target: float = 100.0
    name: ClassVar[str] = "negative_binomial"
    exposure: ClassVar[str | None] = "offset"
    nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not is_between(self.dispersion, 0, 1e8) or not self.dispersion > 1e-8:
            raise ValueError(
                f"dispersion is {self.dispersion!r}, expected a number above 1e-8; below it use "
                "Poisson()"
            )
        if not is_between(self.max_target, 0, 1e40, below=True):
            raise ValueError(f"max_target must be a number >= 0, got {self.max_target!r}")

    @classmethod
    def for_targets(
        cls, y: Array, weight: Array | None = None, offset: Array | None = None
    ) -> Self:
        """Return the loss of dispersion 1 for these targets."""
        return cls().suited(y, weight, offset)

    def suited(self, y: Array, weight: Array | None = None, offset: Array | None = None) -> Self:
        """Return the loss for targets up to the largest of these."""
        return replace(self, max_target=float(np.max(y, initial=0.0)))

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative."""
        return 0.25 * (self.max_target + 1.0 / self.dispersion)

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops: p0 is the dispersion, p1 the largest target."""
        return "negative_binomial", float(self.dispersion), float(self.max_target)

    def _values(self, z: Array, y: Array) -> Array:
        theta = self.dispersion
        return np.asarray((y + 1.0 / theta) * np.logaddexp(0.0, z + np.log(theta)) - y * z)

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z = as_float(z)
        shifted = z + np.log(self.dispersion)
        # y (p - 1) + p / theta: no difference of large numbers where p is close to one
        derivative = expit(shifted) / self.dispersion - np.asarray(y) * expit(-shifted)
        return np.asarray(derivative, dtype=z.dtype)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        z = as_float(z)
        p = expit(-np.abs(z + np.log(self.dispersion)))
        curvature = (np.asarray(y) + 1.0 / self.dispersion) * p * (1 - p)
        return np.asarray(curvature, dtype=z.dtype)

    def _conjugates(self, u: Array, y: Array) -> Array:
        theta = self.dispersion
        k = y + 1.0 / theta
        # k s and k (1 - s), with s the logistic function at the maximizer
        up, down = u + y, 1.0 / theta - u
        parts = -entr(np.clip(up / k, 0.0, 1.0)) - entr(np.clip(down / k, 0.0, 1.0))
        return np.asarray(k * parts - up * np.log(theta))

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -np.asarray(y), 1.0 / self.dispersion

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood of counts."""
        k = 1.0 / self.dispersion
        y = np.asarray(y, dtype=np.float64)
        constant = gammaln(y + k) - gammaln(k) - gammaln(y + 1) + y * np.log(self.dispersion)
        return -total + float(constant.sum())

    def mean(self, z: Array) -> Array:
        """Return the expected count, ``exp(z)``."""
        return np.asarray(np.exp(as_float(z)))

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        y = super().check_targets(y)
        if (y < 0).any():
            raise ValueError("y has negative values; NegativeBinomial needs counts, 0 or more")
        if y.max() > self.max_target * (1.0 + float(np.finfo(y.dtype).eps)):
            raise ValueError(
                f"y goes up to {y.max():g}, above max_target = {self.max_target:g}; use "
                "NegativeBinomial(dispersion).suited(y)"
            )
        return y
