"""What a fitted model gives to others: a plain scikit-learn model, and a page for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.svm import LinearSVC

from ..losses import Huber, Logistic, Multinomial, Poisson, Quantile, Squared, SquaredHinge


def to_sklearn(model: Any) -> Any:
    """Return a plain model with the same predictions."""
    loss = type(model._loss)
    several = len(np.atleast_2d(model.coef_)) > 1
    if loss not in _MAKERS or (several and loss in (Logistic, Poisson)):
        kind = f"{loss.__name__} with several outputs" if loss in _MAKERS else loss.__name__
        raise ValueError(
            f"scikit-learn has no linear model of the loss {kind}; use coef_ and intercept_"
        )
    plain = _MAKERS[loss](model)
    plain.coef_, plain.intercept_ = model.coef_.copy(), np.copy(model.intercept_)[()]
    if model._names is not None:
        plain.feature_names_in_ = model.feature_names_in_
    return plain


def _linear(model: Any) -> Any:
    return LinearRegression().fit(_nothing(model, 1), np.zeros(1))


def _poisson(model: Any) -> Any:
    return PoissonRegressor().fit(_nothing(model, 2), np.ones(2))


def _logistic(model: Any) -> Any:
    return LogisticRegression().fit(_nothing(model, len(model.classes_)), model.classes_)


def _margin(model: Any) -> Any:
    return LinearSVC().fit(_nothing(model, len(model.classes_)), model.classes_)


def _nothing(model: Any, rows: int) -> Any:
    """Return rows of zeros: fitting them sets what a model needs besides its coefficients."""
    return np.zeros((rows, model.n_features_in_), dtype=model.coef_.dtype)


_MAKERS: dict[type, Callable[[Any], Any]] = {
    Squared: _linear,
    Huber: _linear,
    Quantile: _linear,
    Poisson: _poisson,
    Logistic: _logistic,
    Multinomial: _logistic,
    SquaredHinge: _margin,
}


def html_summary(model: Any) -> str:
    """Return the summary of a fitted model as HTML, nothing before the fit."""
    if model._last_strength is None:
        return ""
    return f'<pre style="margin:.5em 0;white-space:pre-wrap">{escape(model.summary())}</pre>'
