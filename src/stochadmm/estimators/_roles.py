"""Regressors and classifiers: targets in, predictions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..losses import Logistic, Multinomial, Squared
from ..protocols import Array
from . import _data
from ._base import StructuredModel
from ._callbacks import with_callbacks
from ._data import Data


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, StructuredModel):  # type: ignore[misc]
    """The role of a regressor: one number, or several, per row."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows; float32 and float64 are taken as they are.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, an entry that is NaN is missing: it has weight zero.
        sample_weight : array of shape (n_samples,), optional
            Weights >= 0; the loss is the weighted mean.
        offset : array, optional
            Added to the predictions, such as the log of the exposure for counts.

        Returns
        -------
        self : estimator
        """
        return self._fit(X, y, sample_weight, offset)

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return predictions on the scale of the targets.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows.
        offset : array, optional
            Added before the loss's link.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
        """
        z = self._decision(X, offset)
        loss: Any = self._loss
        return cast(Array, loss.mean(z)) if hasattr(loss, "mean") else z

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        y, weight = _data.regression_targets(y, X, weight)
        self._loss = _data.regression_loss(self.loss, y)
        return Data(X, y, self._loss, weight, bool(self.fit_intercept), offset, y.ndim == 1)

    def _held_out_loss(self, X: Any, y: Any, weight: Any, offset: Any) -> float:
        """Return the mean loss of other rows; for the squared loss the mean squared error."""
        X = _data.checked_rows(self, X, reset=False)
        y, weight = _data.regression_targets(y, X, _data.checked_weight(weight, X))
        z = self._decision(X, offset)
        if not isinstance(self._loss, Squared):
            return float(self._loss.value(z, y, weight))
        rows = None if weight is None else weight if weight.ndim == y.ndim else weight[:, None]
        share = np.ones(y.shape) if rows is None else np.broadcast_to(rows, y.shape)
        return float(np.average(np.square(z - y, dtype=np.float64), weights=share))

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        if coef.ndim == 1:
            return coef, coef.dtype.type(intercept)
        return np.ascontiguousarray(coef.T), np.asarray(intercept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _has_probabilities(model: Any) -> bool:
    if model.loss == "logistic" or isinstance(model.loss, (Logistic, Multinomial)):
        return True
    raise AttributeError(f"loss {model.loss!r} has no probabilities; use loss='logistic'")


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, StructuredModel):  # type: ignore[misc]
    """The role of a classifier: one label per row, two classes or more."""

    loss: Any = "logistic"
    class_weight: Any = None

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows; float32 and float64 are taken as they are.
        y : array of shape (n_samples,)
            Labels of any kind, two or more different ones.
        sample_weight : array of shape (n_samples,), optional
            Weights >= 0; the loss is the weighted mean.

        Returns
        -------
        self : estimator
        """
        return self._fit(X, y, sample_weight, None)

    def decision_function(self, X: Any) -> Array:
        """Return the score of the second class, or of every class where there are more.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        z = self._decision(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X: Any) -> Array:
        """Return the label of every row.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        z = self.decision_function(X)
        chosen = (z > 0).astype(np.intp) if z.ndim == 1 else z.argmax(axis=1)
        return cast(Array, self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of every class.

        There is no such method with a loss without probabilities, as the squared hinge.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        z = self.decision_function(X)
        p = cast(Any, self._loss).mean(z)
        if z.ndim == 1:
            return np.column_stack([1 - p, p])
        if not isinstance(self._loss, Multinomial):  # one against the rest
            p = p / p.sum(axis=1, keepdims=True)
        return cast(Array, p)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of the probabilities.

        Parameters
        ----------
        X : array, CSR matrix or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return cast(Array, np.log(self.predict_proba(X)))

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        self.classes_, codes = _data.class_codes(y, X)
        count = len(self.classes_)
        weight = _data.class_weights(self.class_weight, self.classes_, codes, weight)
        self._loss, targets = _data.class_targets(self.loss, codes, count, X.dtype)
        several = targets.ndim == 2 or isinstance(self._loss, Multinomial)
        return Data(X, targets, self._loss, weight, bool(self.fit_intercept), None, not several)

    def _held_out_loss(self, X: Any, y: Any, weight: Any, offset: Any) -> float:
        """Return the mean loss of other rows."""
        X = _data.checked_rows(self, X, reset=False)
        codes = np.searchsorted(self.classes_, np.asarray(y))
        _, targets = _data.class_targets(self._loss, codes, len(self.classes_), X.dtype)
        z = self.decision_function(X)
        return float(self._loss.value(z, targets, _data.checked_weight(weight, X)))

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        if coef.ndim == 1:
            return coef[None, :], np.reshape(intercept, 1)
        if isinstance(self._loss, Multinomial):
            # probabilities do not change when one number is added to all scores
            intercept = intercept - np.mean(intercept)
        return np.ascontiguousarray(coef.T), np.asarray(intercept)
