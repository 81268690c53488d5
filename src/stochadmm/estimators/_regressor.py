"""Regressors: targets in, predictions on their scale out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..data import Source, is_source, n_outputs
from ..risk.looks import sampled_targets
from . import _data
from ._base import StructuredModel
from ._callbacks import with_callbacks
from ._data import Data
from ._scores import explained, scored_loss
from ._sources import StreamedData, explained_by, mean_loss, scored_source


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, StructuredModel):  # type: ignore[misc]
    """The role of a regressor: one number, or several, per row."""

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        exposure: Any = None,
        checkpoint: Any = None,
        memory: Any = None,
    ) -> Any:
        """Fit the model.

        Ctrl-C leaves the model at the last measured point, with ``status_`` set to
        ``Status.INTERRUPTED``, and raises ``KeyboardInterrupt``, so that loops around it end.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; float64 is used as it is, and so is float32 unless the targets are hundreds of
            deviations from zero. A source (`stochadmm.open`), files given by name and Dask
            collections are read in every pass and never loaded as a whole.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets. With several, an entry that is NaN is missing: it has weight zero. A source
            has its own; for files and Dask frames the name of a column, also below.
        sample_weight : float or array of shape (n_samples,), optional
            Weights >= 0; the loss is the weighted mean over the rows of their losses, which are
            sums over the targets. A row counts once, with its weight, if it has any target.
        offset : array, optional
            Added to the linear predictions.
        exposure : array of shape (n_samples,), optional
            How long, or how often, every row was observed, for losses with a log link: targets are
            totals, and models are of one unit of exposure. With "poisson" and "negative_binomial"
            its log is an offset; with "tweedie" and "gamma" it is a weight of ``y / exposure``.
            Rows of no exposure and a target of zero are left out.
        checkpoint : path, optional
            File to which the fit is written every minute. A fit that was killed continues from it
            when called again, with the same bits; other data or parameters are refused.
        memory : int or str, optional
            Memory budget for streamed rows, in bytes or as in ``"2GB"``; 256 MB by default.

        Returns
        -------
        self : estimator
        """
        X, y, sample_weight, offset, exposure = self._parts(X, y, sample_weight, offset, exposure)
        return self._fit(
            X, y, sample_weight, offset, exposure, checkpoint=checkpoint, memory=memory
        )

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Array:
        """Return predictions on the scale of the targets.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; in files, columns are matched by name and no target is needed.
        offset : array, optional
            Added to the linear predictor, before the link.
        exposure : array of shape (n_samples,), optional
            Predictions are for so much exposure each, by default for one unit.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Lazy for rows that are not in memory: a Dask array, or `Predictions` block by block.
        """
        X, offset, exposure = self._parts(X, offset, exposure)
        found = self._responses(X, offset, self._means)
        if exposure is None:
            return found
        e = _data.checked_exposure(exposure, len(found)).astype(found.dtype)
        return np.asarray(found * (e if found.ndim == 1 else e[:, None]))

    def _means(self, z: Array) -> Array:
        """Return predictions on the scale of the targets."""
        loss: Any = self._loss
        predicted: Array = loss.mean(z) if offers(loss, Has.MEAN) else z
        return predicted

    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Return D2, the share of the deviance that the model explains.

        It is 1 for perfect predictions and 0 for the best constant (plus the offset). With the
        squared loss D2 is R2; with others it agrees with scikit-learn's ``d2_tweedie_score``
        (Poisson) and ``d2_pinball_score`` (quantiles). For several targets it is the mean.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets, for files and Dask frames the name of a column, as in ``fit``; with several,
            an entry that is NaN is left out, and so is a target without any other.
        sample_weight : float or array of shape (n_samples,), optional
            Weights >= 0.
        offset : array, optional
            Added to the predictions, as in ``fit``.
        exposure : array of shape (n_samples,), optional
            Exposure of the rows, as in ``fit``.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X, y, sample_weight, offset, exposure = self._parts(X, y, sample_weight, offset, exposure)
        source = None
        if exposure is None:
            source = scored_source(self, X, y, sample_weight, offset)
        if source is not None:
            return explained_by(self, source, scored_loss(self._loss))
        z, y, weight, offset = self._held_out(X, y, sample_weight, offset, exposure)
        return explained(self._loss, z, y, weight, offset)

    def _scored(self, data: Data, z: Array) -> float:
        return explained(data.loss, z, data.y, data.weight, data.offset)

    def _exposed(self, y: Any, weight: Any, offset: Any, exposure: Any) -> tuple[Any, Any, Any]:
        return _data.with_exposure(self.loss, y, weight, offset, exposure)

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        y, weight = _data.regression_targets(y, X, weight)
        offset = _data.checked_offset(offset, y.shape, np.float64)
        X, y, offset = _data.in_one_type(X, y, weight, offset)
        self._loss = _data.regression_loss(self.loss, y, weight, offset)
        return Data(X, y, self._loss, weight, bool(self.fit_intercept), offset, y.ndim == 1)

    def _streamed_targets(self, source: Source) -> StreamedData:
        seen: tuple[Any, ...] = (np.zeros(2),)
        named = isinstance(self.loss, str) and self.loss != "squared"
        if named or has_members(self.loss, "suited"):  # made for what they are like
            seen = sampled_targets(source)
        self._loss = _data.regression_loss(self.loss, *seen)
        one = n_outputs(source) is None
        return StreamedData(source, None, self._loss, None, bool(self.fit_intercept), None, one)

    def _held_out(
        self, X: Any, y: Any, weight: Any, offset: Any, exposure: Any
    ) -> tuple[Array, Array, Array | None, Array | None]:
        """Return predictions, targets, weights and offset of other rows, all checked."""
        y, weight, offset = self._exposed(y, weight, offset, exposure)
        X = self._rows(X)
        y, weight = _data.regression_targets(y, X, _data.checked_weight(weight, X))
        z = self._predictions(X, offset)
        y, weight = _beside(z, y, weight)
        return z, y, weight, _data.checked_offset(offset, y.shape, None)

    def _loss_on(
        self, X: Any, y: Any, weight: Any, offset: Any, exposure: Any
    ) -> Callable[[], float]:
        """Return what tells the mean loss of other rows, which are checked once.

        It is that of the coefficients at the time; for the squared loss the mean squared error.
        """
        if is_source(X):
            factor = 2.0 / self._loss.curvature_bound if offers(self._loss, Has.SQUARE) else 1.0
            share = factor / (n_outputs(X) or 1)
            return lambda: share * mean_loss(self, X, scored_loss(self._loss))
        y, weight, offset = self._exposed(y, weight, offset, exposure)
        X = self._rows(X)
        y, weight = _data.regression_targets(y, X, _data.checked_weight(weight, X))
        return lambda: self._mean_loss(self._predictions(X, offset), y, weight)

    def _mean_loss(self, z: Array, y: Array, weight: Array | None) -> float:
        y, weight = _beside(z, y, weight)
        if not offers(self._loss, Has.SQUARE):
            return float(scored_loss(self._loss).value(z, y, weight))
        errors = np.square(z - y, dtype=np.float64)
        if weight is None:
            return float(errors.mean())
        rows = weight if weight.ndim == y.ndim else weight[:, None]
        return float(np.average(errors, weights=np.broadcast_to(rows, y.shape)))

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        if coef.ndim == 1:
            return coef, coef.dtype.type(intercept)
        return np.ascontiguousarray(coef.T), np.asarray(intercept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _beside(z: Array, y: Array, weight: Array | None) -> tuple[Array, Array | None]:
    """Return targets and weights in the shape of predictions: a column is as good as a vector."""
    if y.size != z.size:
        raise ValueError(f"y has shape {y.shape}, expected {z.shape} as in fit")
    if weight is not None and weight.ndim == 2:
        weight = weight.reshape(z.shape)
    return y.reshape(z.shape), weight
