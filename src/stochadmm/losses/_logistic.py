"""Logistic loss of two classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import entr, expit

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ..kernels import passes
from ._base import Elementwise, check_signs


@dataclass(frozen=True)
class Logistic(Elementwise):
    """Logistic loss, ``log(1 + exp(-y z))``, for labels -1 and +1.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Logistic
    >>> y = np.array([1.0, -1.0])
    >>> round(Logistic().value(np.zeros(2), y), 6)
    0.693147
    >>> Logistic().derivative(np.zeros(2), y)
    array([-0.5,  0.5])
    >>> Logistic().value(np.array([1e4, -1e4]), y)
    0.0
    """

    name: ClassVar[str] = "logistic"
    capabilities: ClassVar[Capabilities] = Elementwise.capabilities | {Has.PROBABILITY}

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: 1/4."""
        return 0.25

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""
        return "logistic", 0.0, 0.0

    def _values(self, z: Array, y: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, -y * z))

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z, y = as_float(z), np.asarray(y)
        derivative: Array = -y * expit(-y * z)
        return derivative.astype(z.dtype, copy=False)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        z = as_float(z)
        if z.dtype == np.float64 and self._compiled(z):
            return passes.curvatures(self.kernel, z, z)  # whatever the label is
        # the smaller of the two probabilities, which does not round to one
        p = expit(-np.abs(z))
        return p * (1 - p)

    def _conjugates(self, u: Array, y: Array) -> Array:
        p = np.clip(-u * y, 0.0, 1.0)
        return np.asarray(-entr(p) - entr(1.0 - p))

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood of the labels."""
        return -total

    def mean(self, z: Array) -> Array:
        """Return the probability of the label +1."""
        return expit(as_float(z))

    def probability(self, z: Array) -> Array:
        """Return the probability of the label +1."""
        return self.mean(z)

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        return check_signs(super().check_targets(y), "Logistic")
