"""Poisson loss with the log link, made safe for step sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import entr, gammaln, wrightomega

from ..base.capabilities import Capabilities, Has
from ..base.immutable import as_float
from ..base.protocols import Array
from ..base.validation import is_between
from ._base import Elementwise, sums

_FARTHEST = 100.0  # of predictions: exp(100) is no count, and its square is still a number


@dataclass(frozen=True)
class Poisson(Elementwise):
    """Poisson loss of counts with the log link, ``exp(z) - y z``.

    The second derivative of the exponential has no bound. Up to ``z = max_prediction`` the loss is
    exactly ``exp(z) - y z``; above, the exponential is continued by the parabola with the same
    value, derivative and curvature at that point. The loss stays convex and smooth, its curvature
    is at most ``exp(max_prediction)``, and the conjugate is that of the loss as continued. A fit
    whose predictions, offsets included, stay below ``max_prediction`` is the fit of the Poisson
    model itself. Estimators ensure this: if a fit ends outside the range, they raise
    ``max_prediction`` and solve again. ``minimize`` uses the loss as it is: an answer outside the
    range is ``STALLED``, and the message names the loss to solve again with.

    Parameters
    ----------
    max_prediction : float
        Where the parabola starts, on the scale of ``z``. The default allows expected counts up
        to exp(6), about 400. Smaller is faster: steps shrink with ``exp(max_prediction)``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Poisson
    >>> loss = Poisson.for_targets(np.array([0.0, 3.0, 12.0]))
    >>> round(loss.max_prediction, 3)
    3.485
    >>> loss.derivative(np.zeros(3), np.array([0.0, 3.0, 12.0]))
    array([  1.,  -2., -11.])
    """

    max_prediction: float = 6.0
    name: ClassVar[str] = "poisson"
    exposure: ClassVar[str | None] = "offset"
    capabilities: ClassVar[Capabilities] = Elementwise.capabilities | {Has.BEYOND}
    nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not is_between(self.max_prediction, -_FARTHEST, _FARTHEST):
            raise ValueError(
                f"max_prediction must lie between -100 and 100, got {self.max_prediction!r}"
            )

    @classmethod
    def for_targets(
        cls,
        y: Array,
        weight: Array | None = None,
        offset: Array | None = None,
        *,
        margin: float = 1.0,
    ) -> Self:
        """Return the loss whose range goes ``margin`` beyond the log of the largest count.

        With offsets also beyond the predictions of the best constant.
        """
        largest = float(np.log(max(float(np.max(y, initial=0.0)), 1.0)))
        if offset is not None:
            top = offset.max(axis=0)  # taken out first: exposures may be of any size
            total, exposure = map(np.atleast_1d, sums((y, np.exp(offset - top)), weight))
            seen = total > 0
            largest = float(np.max(np.log(total[seen] / exposure[seen]), initial=largest))
        return cls(largest + margin)

    def beyond(self, z: Array, y: Array) -> Array:
        """Return how far predictions lie beyond the range, not above zero inside."""
        return np.asarray(z) - self.max_prediction

    def wider(self, by: float) -> Self:
        """Return the loss with a range that goes on for ``by`` more, as far as numbers go."""
        return type(self)(min(self.max_prediction + by, 0.99 * _FARTHEST))

    @property
    def _top(self) -> float:
        return float(np.exp(self.max_prediction))

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative: ``exp(max_prediction)``."""
        return self._top

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops: p0 is ``max_prediction``."""
        return "poisson", float(self.max_prediction), 0.0

    def _split(self, z: Array) -> tuple[Array, Array]:
        """Return the exponential, at most its top, and how far z is beyond the range."""
        inner = np.minimum(z, z.dtype.type(self.max_prediction))
        return np.exp(inner), z - inner

    def _values(self, z: Array, y: Array) -> Array:
        power, beyond = self._split(z)
        return np.asarray(power * (1.0 + beyond + 0.5 * beyond * beyond) - y * z)

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""
        z = as_float(z)
        power, beyond = self._split(z)
        return np.asarray(power * (1 + beyond) - y, dtype=z.dtype)

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the second derivative in ``z``."""
        return self._split(as_float(z))[0]

    def _conjugates(self, u: Array, y: Array) -> Array:
        rate = np.maximum(u + y, 0.0)  # exp(z) at the maximizer while inside the range
        inner = np.minimum(rate, self._top)
        beyond = rate / self._top - inner / self._top
        outer = self.max_prediction * (rate - inner) + 0.5 * self._top * beyond * beyond
        return np.asarray(-entr(inner) - inner + np.where(beyond > 0, outer, 0.0))

    def _dual_bounds(self, y: Array) -> tuple[Any, Any]:
        return -y, np.inf

    def _prox(self, v: Array, step: Array, y: Array) -> Array:
        # inside the range omega = step exp(z) solves z + omega = v + step y; beyond it, a line
        target = v + step * y
        omega = np.asarray(wrightomega(target + np.log(step)))
        # two forms of z: the difference cancels when omega is large, the log when it is small
        inside = np.where(omega > 1.0, np.log(np.maximum(omega, 1.0) / step), target - omega)
        pull = step * self._top
        outside = (target - pull * (1.0 - self.max_prediction)) / (1.0 + pull)
        return np.asarray(np.where(target > self.max_prediction + pull, outside, inside))

    def scored(self) -> Poisson:
        """Return the loss without its parabola: predictions beyond exp(99) are no counts."""
        return Poisson(99.0)

    def log_likelihood(self, total: float, y: Array, entries: int) -> float:
        """Return the log-likelihood of counts."""
        return -total - float(gammaln(y + 1).sum())

    def mean(self, z: Array) -> Array:
        """Return the expected count, ``exp(z)``."""
        return np.asarray(np.exp(as_float(z)))

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as float32 or float64, or say what is wrong with it."""
        y = super().check_targets(y)
        if (y < 0).any():
            raise ValueError("y has negative values; Poisson needs counts or rates, 0 or more")
        if y.max() > self._top:
            raise ValueError(
                f"y goes up to {y.max():g}, above exp(max_prediction) = {self._top:.4g}; "
                "use Poisson.for_targets(y), or a larger max_prediction"
            )
        return y
