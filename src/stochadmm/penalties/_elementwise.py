"""Constructors of penalties that treat every entry by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.capabilities import Has
from ..base.immutable import set_field
from ..base.validation import is_between
from ._base import check_alpha, check_weights
from ._separable import OFFERED, Coefficients, ElementwisePenalty, Numbers, as_number, check_bounds


@dataclass(frozen=True, eq=False)
class _Weighted(ElementwisePenalty):
    alpha: float
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        set_field(self, "weights", check_weights(self.weights))
        super().__post_init__()

    def _strength(self) -> Numbers:
        if self.weights is None:
            return float(self.alpha)
        return float(self.alpha) * np.asarray(self.weights)


@dataclass(frozen=True, eq=False)
class L1(_Weighted):
    """Weighted l1 norm, ``alpha sum_j weights_j |x_j|``.

    Parameters
    ----------
    alpha : float
        Strength.
    weights : array of shape (p,) or (p, C), optional
        One per row or per entry: 0 leaves it free, infinity holds it at zero whatever ``alpha``
        is. All ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import L1
    >>> L1(1.0, weights=[1.0, np.inf, 0.0]).prox(np.array([3.0, -9.0, 0.2]), 1.0)
    array([2. , 0. , 0.2])
    """

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        set_field(self, "weights", check_weights(self.weights, np.inf))
        ElementwisePenalty.__post_init__(self)

    capabilities = OFFERED | {Has.GROWTH}

    @property
    def growth(self) -> float:
        """A number c with ``h(x) >= c |x|_F``."""
        l1, _, lower, upper = self._numbers
        held = np.equal(lower, 0) & np.equal(upper, 0)
        return float(np.min(np.where(held, np.inf, l1), initial=np.inf))

    def _coefficients(self) -> Coefficients:
        held = np.isinf(1.0 if self.weights is None else self.weights)
        if not held.any():
            return Coefficients(self._strength(), 0.0, -np.inf, np.inf)
        upper = np.where(held, 0.0, np.inf)
        l1 = float(self.alpha) * np.where(held, 0.0, np.asarray(self.weights))
        return Coefficients(l1, 0.0, -upper, upper)


@dataclass(frozen=True, eq=False)
class Ridge(_Weighted):
    """Squared l2 norm, ``alpha/2 sum_j weights_j x_j^2``.

    Parameters
    ----------
    alpha : float
        Strength.
    weights : array of shape (p,) or (p, C), optional
        One per row or per entry, 0 leaves it free. All ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import Ridge
    >>> Ridge(1.0).prox(np.array([2.0, -4.0]), 1.0)
    array([ 1., -2.])
    """

    def _coefficients(self) -> Coefficients:
        return Coefficients(0.0, self._strength(), -np.inf, np.inf)


@dataclass(frozen=True, eq=False)
class ElasticNet(ElementwisePenalty):
    """Mix of l1 and squared l2, ``alpha sum_j w_j (l1_ratio |x_j| + (1 - l1_ratio)/2 x_j^2)``.

    Parameters
    ----------
    alpha : float
        Strength.
    l1_ratio : float
        Share of the l1 norm, between 0 and 1.
    weights : array of shape (p,) or (p, C), optional
        One per row or per entry, 0 leaves it free. All ones by default.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import ElasticNet
    >>> ElasticNet(2.0, l1_ratio=0.5).prox(np.array([3.0, 0.5]), 1.0)
    array([1., 0.])
    """

    alpha: float
    l1_ratio: float = 0.5
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if not is_between(self.l1_ratio, 0, 1, below=True, above=True):
            raise ValueError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio!r}")
        set_field(self, "weights", check_weights(self.weights))
        super().__post_init__()

    def _coefficients(self) -> Coefficients:
        strength: Any = self.alpha * (1.0 if self.weights is None else np.asarray(self.weights))
        return Coefficients(
            self.l1_ratio * strength, (1.0 - self.l1_ratio) * strength, -np.inf, np.inf
        )


class _Indicator(ElementwisePenalty):
    def scaled(self, factor: float) -> Any:
        """Return the penalty itself: an indicator has no strength."""
        check_alpha(factor, "factor")
        return self


@dataclass(frozen=True, eq=False)
class NonNegative(_Indicator):
    """Indicator of ``x >= 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import NonNegative
    >>> NonNegative().prox(np.array([-1.0, 2.0]), 1.0)
    array([0., 2.])
    """

    def _coefficients(self) -> Coefficients:
        return Coefficients(0.0, 0.0, 0.0, np.inf)


@dataclass(frozen=True, eq=False)
class Box(_Indicator):
    """Indicator of ``lower <= x <= upper``.

    Parameters
    ----------
    lower, upper : float or array of shape (p,) or (p, C)
        Bounds, infinite where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import Box
    >>> box = Box(-1.0, 1.0)
    >>> box.prox(np.array([-3.0, 0.5]), 1.0)
    array([-1. ,  0.5])
    >>> box.value(np.array([2.0]))
    inf
    """

    lower: ArrayLike = -np.inf
    upper: ArrayLike = np.inf

    def __post_init__(self) -> None:
        set_field(self, "lower", as_number(self.lower))
        set_field(self, "upper", as_number(self.upper))
        check_bounds(self.lower, self.upper)
        super().__post_init__()

    def _coefficients(self) -> Coefficients:
        return Coefficients(0.0, 0.0, as_number(self.lower), as_number(self.upper))


@dataclass(frozen=True, eq=False)
class Zero(_Indicator):
    """No penalty at all.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import Zero
    >>> Zero().value(np.ones(3)), Zero().conjugate(np.zeros(3)), Zero().conjugate(np.ones(3))
    (0.0, 0.0, inf)
    """

    def _coefficients(self) -> Coefficients:
        return Coefficients(0.0, 0.0, -np.inf, np.inf)
