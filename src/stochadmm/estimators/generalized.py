"""The l1 norm of any linear map of the coefficients; trend filtering as its best known case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.protocols import Array, Operator
from ..base.validation import is_whole
from ..linear_algebra.affine import as_sparse
from ..operators import Differences, Identity
from ..penalties import L1
from ..run.result import Result
from ._base import Fitting, StructuredModel
from ._classifier import Classifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure
from .refit import Space, of_kernel, of_support

LARGEST_RANK = 2000  # columns up to which the kernel of the active rows is computed


@dataclass(eq=False, repr=False, kw_only=True)
class Analysis(StructuredModel):
    """The l1 norm of ``D w``; subclasses say what D is."""

    def _operator(self, columns: Columns) -> Operator:
        raise NotImplementedError

    def _structure(self, columns: Columns) -> Structure:
        if not columns.penalized.size:
            return Structure()
        return Structure([(self._operator(columns), L1(1.0))])

    def _space(self, fitting: Fitting, result: Result) -> Space:
        coef = result.coef.reshape(result.coef.shape[0], -1)
        terms = fitting.structure.terms
        if not terms or not terms[0][0].shape[0]:
            return of_support(np.ones_like(coef), fitting.columns.free)
        return of_kernel(terms[0][0], _vanishing(terms[0][0], coef))

    def _degrees(self, fitting: Fitting, result: Result) -> int:
        terms, coef = fitting.structure.terms, result.coef.reshape(result.coef.shape[0], -1)
        if (
            not terms
            or not terms[0][0].shape[0]
            or (coef.shape[0] <= LARGEST_RANK and as_sparse(terms[0][0]) is not None)
        ):
            return super()._degrees(fitting, result)
        found = coef.size - int(_vanishing(terms[0][0], coef).sum())
        return found + fitting.data.intercept * coef.shape[1]


@dataclass(eq=False, repr=False, kw_only=True)
class Generalized(Analysis):
    """D is the user's.

    Parameters
    ----------
    operator : array, sparse matrix or LinearOperator, optional
        D, with one column per penalized column of X; the identity by default.
    """

    operator: Any = None

    def _operator(self, columns: Columns) -> Operator:
        if self.operator is None:
            return columns.spread(Identity(columns.penalized.size))
        return columns.own(self.operator)


def _vanishing(operator: Any, coef: Array) -> Array:
    """Return which entries of ``D w`` are zero but for rounding."""
    image = np.abs(operator.matvec(coef))
    size = max(float(image.max(initial=0.0)), float(np.abs(coef).max(initial=0.0)))
    return np.asarray(image <= 1e-9 * size)


@estimator
class GeneralizedLassoRegressor(Regressor, Generalized):
    """Generalized lasso: linear regression with few non-zero entries of ``D w``.

    Minimizes ``mean loss + alpha |D w|_1``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GeneralizedLassoRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> D = np.array([[1.0, -2.0, 0.0], [0.0, 1.0, -1.0]])
    >>> model = GeneralizedLassoRegressor(alpha=0.1, operator=D).fit(X, X @ [2, 1, 1])
    >>> bool(np.abs(D @ model.coef_).max() < 1e-12)
    True
    """


@estimator
class GeneralizedLassoClassifier(Classifier, Generalized):
    """Linear classification with the generalized lasso penalty: few non-zero entries of ``D w``.

    Minimizes ``mean loss + alpha |D w|_1``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GeneralizedLassoClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> D = np.array([[1.0, -2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> model = GeneralizedLassoClassifier(alpha=0.02, operator=D).fit(X, X @ [2, 1, 0] > 0)
    >>> bool(np.abs(D @ model.coef_[0]).max() < 1e-12)
    True
    """


@estimator
class TrendFilterRegressor(Regressor, Analysis):
    """Trend filtering: regression with coefficients piecewise polynomial in the column number.

    Minimizes ``mean loss + alpha |D^(order + 1) w|_1`` with D the differences of neighbors: order
    0 gives steps, order 1 broken lines, order 2 parabolas that meet smoothly.

    Parameters
    ----------
    order : int, default=1
        Degree of the pieces.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import TrendFilterRegressor
    >>> signal = np.abs(np.arange(9.0) - 4)
    >>> model = TrendFilterRegressor(alpha=0.01, fit_intercept=False).fit(np.eye(9), signal)
    >>> np.flatnonzero(np.abs(np.diff(model.coef_, 2)) > 1e-9) + 1  # the knot
    array([4])
    """

    order: int = 1

    def _operator(self, columns: Columns) -> Operator:
        order: Any = self.order
        if not is_whole(order) or order < 0:
            raise ValueError(f"order is {order!r}, expected an integer >= 0")
        return columns.spread(Differences(columns.penalized.size, int(order) + 1))
