"""Classifiers: labels in, labels, scores and probabilities out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import is_multilabel
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..base.validation import refuse_masked
from ..data import Changed, Labels, Source, is_source
from ..risk.looks import targets_of
from . import _data
from ._base import StructuredModel
from ._callbacks import with_callbacks
from ._data import Data
from ._sources import StreamedData, accuracy, mean_loss, scored_source

MOST_CLASSES = 100  # different labels that are looked for before a source is refused


def _has_probabilities(model: Any) -> bool:
    loss = vars(model).get("_loss", model.loss)  # what was fitted, whatever was set since
    if loss == "logistic" or offers(loss, Has.PROBABILITY):
        return True
    raise AttributeError(f"loss {loss!r} has no probabilities; use loss='logistic'")


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, StructuredModel):  # type: ignore[misc]
    """The role of a classifier: one label per row, two classes or more."""

    loss: Any = "logistic"
    class_weight: Any = None

    _fits_part = False  # of a search: classes and labels may be those of rows left out

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        *,
        checkpoint: Any = None,
        memory: Any = None,
    ) -> Any:
        """Fit the model.

        Ctrl-C leaves the model at the last measured point, with ``status_`` set to
        ``Status.INTERRUPTED``, and raises ``KeyboardInterrupt``, so that loops around it end.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; float32 and float64 are taken as they are. A source (`stochadmm.open`), the
            name of a file and Dask collections are read in every pass and never held.
        y : array of shape (n_samples,)
            Labels of any kind, two or more different ones. A source has its own; for files and
            Dask frames the name of a column, also below.
        sample_weight : float or array of shape (n_samples,), optional
            Weights >= 0; the loss is the weighted mean. A row of weight zero is no row: a class
            of such rows is none of ``classes_``.
        offset : array of shape (n_samples,) or (n_samples, n_classes), optional
            Added to the decision function; the second shape for more than two classes.
        checkpoint : path, optional
            File to which the fit is written every minute. A fit that was killed continues from it
            when called again, with the same bits; other data or parameters are refused.
        memory : int or str, optional
            Memory budget for streamed rows, in bytes or as in ``"2GB"``; 256 MB by default.

        Returns
        -------
        self : estimator
        """
        X, y, sample_weight, offset = self._parts(X, y, sample_weight, offset)
        return self._fit(X, y, sample_weight, offset, checkpoint=checkpoint, memory=memory)

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the score of the second class, or of every class if there are more than two.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; in files, columns are matched by name and no target is needed.
        offset : array, optional
            Added to the scores.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Lazy for rows that are not in memory, here and in all predictions.
        """
        return self._responses(X, offset, np.asarray)

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Return the label of every row.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; in files, columns are matched by name and no target is needed.
        offset : array, optional
            Added to the scores of the classes.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._responses(X, offset, self._labelled)

    def _labelled(self, z: Array) -> Array:
        """Return the labels of scores."""
        chosen = (z > 0).astype(np.intp) if z.ndim == 1 else z.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the probability of every class.

        The method does not exist for losses without probabilities, such as the squared hinge.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; in files, columns are matched by name and no target is needed.
        offset : array, optional
            Added to the scores of the classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._responses(X, offset, self._probabilities)

    def _probabilities(self, z: Array) -> Array:
        """Return the probabilities of the classes from their scores."""
        loss: Any = self._loss
        p: Array = loss.probability(z)
        if z.ndim == 1:
            return np.column_stack([1 - p, p])
        if not offers(loss, Has.BY_CLASS):  # one against the rest
            p = p / p.sum(axis=1, keepdims=True)
        return p

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the logarithm of the probabilities.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows; in files, columns are matched by name and no target is needed.
        offset : array, optional
            Added to the scores of the classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._responses(X, offset, self._log_probabilities)

    def _log_probabilities(self, z: Array) -> Array:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            logs: Array = np.log(self._probabilities(z))
        return logs

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy: the share of rows whose label is predicted correctly.

        Parameters
        ----------
        X : array, CSR matrix, frame, source, path or Dask collection
            Rows.
        y : array of shape (n_samples,)
            Labels, for files and Dask frames the name of a column, as in ``fit``.
        sample_weight : float or array of shape (n_samples,), optional
            Weights >= 0.
        offset : array, optional
            Added to the scores of the classes, as in ``fit``.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        X, y, sample_weight, offset = self._parts(X, y, sample_weight, offset)
        source = scored_source(self, X, y, sample_weight, offset)
        if source is not None:
            return accuracy(self, source, self._labelled)
        predicted = self.predict(X, offset)
        weight = _data.checked_weight(sample_weight, predicted)
        return float(accuracy_score(y, predicted, sample_weight=weight))

    def _scored(self, data: Data, z: Array) -> float:
        right = self._hits(data.y, z)
        weight = data.weight if data.weight is None or data.weight.ndim == 1 else None
        return float(np.average(right, weights=weight))

    def _hits(self, y: Array, z: Array) -> Array:
        """Say which rows are predicted correctly: of targets as the loss takes them."""
        if z.ndim == 1:
            return np.asarray((z > 0) == (y > 0))
        return np.asarray(z.argmax(axis=1) == (y if y.ndim == 1 else y.argmax(axis=1)))

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        classes, codes = _data.class_codes(y, X)
        if self.class_weight is not None:
            weight = _data.class_weights(
                self.class_weight, classes, codes, weight, self._fits_part
            )
        if weight is not None:
            classes, codes = _data.classes_with_weight(classes, codes, weight)
        self.classes_ = classes
        count = len(self.classes_)
        self._loss, targets = _data.class_targets(self.loss, codes, count, X.dtype)
        several = targets.ndim == 2 or offers(self._loss, Has.BY_CLASS)
        shape = (len(codes), count) if several else (len(codes),)
        if offset is not None:
            offset = _data.checked_offset(offset, shape, X.dtype)
        return Data(X, targets, self._loss, weight, bool(self.fit_intercept), offset, not several)

    def _streamed_targets(self, source: Source) -> StreamedData:
        found = targets_of(source, most_classes=MOST_CLASSES)
        if found.outputs is not None:
            raise ValueError(
                f"y has {found.outputs} columns; a classifier of rows that are not in memory "
                "takes one label per row, such as y.ravel()"
            )
        if found.classes is None:
            raise ValueError(
                f"the targets have more than {MOST_CLASSES} different values; that many classes "
                "need rows in memory"
            )
        _data.check_several(found.classes)
        assert found.mass is not None
        self.classes_ = found.classes
        if found.classes.dtype.kind == "f":  # files of numbers often have no others
            whole = bool((found.classes == np.rint(found.classes)).all())
            self.classes_ = found.classes.astype(np.int64) if whole else found.classes
        weights, mass = None, found.mass
        if self.class_weight is not None:
            each = _data.weights_of_classes(self.class_weight, self.classes_, mass)
            weights, mass = tuple(each.tolist()), mass * each
        _data.check_every_class(self.classes_, mass)
        count = len(found.classes)
        self._loss = _data.class_targets(self.loss, np.arange(count), count, np.float64)[0]
        rows = self._encoded(source, weights)
        one = count == 2 and not offers(self._loss, Has.BY_CLASS)
        return StreamedData(rows, None, self._loss, None, bool(self.fit_intercept), None, one)

    def _encoded(self, source: Source, weights: tuple[float, ...] | None = None) -> Source:
        """Return a source with the targets that the loss takes in place of labels."""
        classes, by_class = tuple(self.classes_.tolist()), offers(self._loss, Has.BY_CLASS)
        each = len(classes) > 2 and not by_class
        labels = Labels(classes, weights, each, by_class)
        return Changed.of(source, labels, len(classes) if each else None)

    def _flat(self, z: Array) -> Array:
        return z[:, 0] if z.shape[1] == 1 else z

    def _loss_on(
        self, X: Any, y: Any, weight: Any, offset: Any, exposure: Any = None
    ) -> Callable[[], float]:
        """Return what tells the mean loss of other rows, which are checked once."""
        if is_source(X):
            encoded = self._encoded(X)
            return lambda: mean_loss(self, encoded, self._loss)
        X, labels = self._rows(X), column_or_1d(y)
        weight = self._scored_weight(labels, _data.checked_weight(weight, X))
        codes = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        targets = _data.encoded(self._loss, codes, len(self.classes_), X.dtype)
        return lambda: float(self._loss.value(self._predictions(X, offset), targets, weight))

    def _scored_weight(self, labels: Array, weight: Array | None) -> Array | None:
        """Return the weights of rows left out; those of a class that was not fitted have none.

        Their loss is infinite whatever alpha is, so that it has no say in the choice.
        """
        known = np.isin(labels, self.classes_)
        if known.all():
            return weight
        given = np.ones(len(labels)) if weight is None else weight
        each = self.class_weight if has_members(self.class_weight, "items") else {}
        meant = [label for label, value in each.items() if value == 0]
        lost = ~known & (given > 0) & ~np.isin(labels, meant)
        kept = np.where(known, given, 0.0)
        what = (
            f"the rows left out have the label {labels[~known].tolist()[0]!r}, which the other "
            "rows lack; "
        )
        if not kept.any():
            raise ValueError(what + "use stratified folds, or fewer")
        if lost.any():
            words = what + "they are not scored, use stratified folds, or fewer, to have them"
            warnings.warn(f"{type(self).__name__}: {words}", UserWarning, stacklevel=2)
        return kept

    def _shaped(self, coef: Array, intercept: Any) -> tuple[Array, Any]:
        if coef.ndim == 1:
            return coef[None, :], np.reshape(intercept, 1)
        if offers(self._loss, Has.BY_CLASS):
            # probabilities do not change when one number is added to all scores
            intercept = intercept - np.mean(intercept)
        return np.ascontiguousarray(coef.T), np.asarray(intercept)


@dataclass(eq=False, repr=False, kw_only=True)
class LabelClassifier(Classifier):
    """A classifier of one label per row, or of any number of labels: one column of y each."""

    multilabel_ = False

    def _targets(self, X: Any, y: Any, weight: Array | None, offset: Any) -> Data:
        signs = as_signs(y, X)
        self.multilabel_ = signs is not None
        if signs is None:
            return super()._targets(X, y, weight, offset)
        if self.class_weight is not None:
            raise ValueError("class_weight is for one label per row; use sample_weight")
        self.classes_ = np.arange(signs.shape[1])
        weight = self._without_constants(signs, weight)
        self._loss = _data.label_loss(self.loss)
        offset = _data.checked_offset(offset, signs.shape, X.dtype)
        return Data(X, signs, self._loss, weight, bool(self.fit_intercept), offset, False)

    def _without_constants(self, signs: Array, weight: Array | None) -> Array | None:
        """Refuse labels that all rows have, or none: no intercept is large enough for them.

        Where rows are left out they may have the other value: entries of such a label then have
        no weight, neither in the fit nor in its score.
        """
        seen = signs if weight is None or not weight.any() else signs[weight > 0]
        self._constant = (seen == seen[:1]).all(axis=0)
        if self._constant.any() and not self._fits_part:
            k = int(np.flatnonzero(self._constant)[0])
            which = "no row" if seen[0, k] < 0 else "every row"
            raise ValueError(
                f"label {k} is the same in all rows that count: {which} has it; a classifier "
                "needs rows with and without it, leave the column out"
            )
        return self._silenced(signs, weight)

    def _silenced(self, signs: Array, weight: Array | None) -> Array | None:
        """Return weights per entry that leave the labels out that were the same in all rows."""
        if not self._constant.any():
            return weight
        if self._constant.all():
            raise ValueError(
                "in one fold every label has the same value in all rows; use fewer folds, or "
                "folds that mix the rows"
            )
        each = np.ones(len(signs)) if weight is None else weight
        return np.where(self._constant, 0.0, each[:, None])

    def _hits(self, y: Array, z: Array) -> Array:
        return ((z > 0) == (y > 0)).all(axis=1) if self.multilabel_ else super()._hits(y, z)

    def _labelled(self, z: Array) -> Array:
        return (z > 0).astype(np.int64) if self.multilabel_ else super()._labelled(z)

    def _probabilities(self, z: Array) -> Array:
        if not self.multilabel_:
            return super()._probabilities(z)
        loss: Any = self._loss
        shares: Array = loss.probability(z)
        return shares

    def _loss_on(
        self, X: Any, y: Any, weight: Any, offset: Any, exposure: Any = None
    ) -> Callable[[], float]:
        if not self.multilabel_:
            return super()._loss_on(X, y, weight, offset)
        X = _data.checked_rows(self, X, reset=False)
        signs, shape = as_signs(y, X), (X.shape[0], len(self.classes_))
        if signs is None or signs.shape != shape:
            raise ValueError(f"y has shape {np.shape(y)}, expected {shape} as in fit")
        weight = self._silenced(signs, _data.checked_weight(weight, X))
        return lambda: float(self._loss.value(self._predictions(X, offset), signs, weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def as_signs(y: Any, X: Any) -> Array | None:
    """Return -1 and 1 of a matrix of zeros and ones, None where y is one label per row."""
    if y is None or not is_multilabel(y):
        return None
    refuse_masked(y, "y")
    labels = check_array(y, accept_sparse="csr", dtype=None, input_name="y")
    labels = labels.toarray() if hasattr(labels, "toarray") else labels
    if len(labels) != X.shape[0]:
        raise ValueError(
            f"X has {X.shape[0]} rows and y has {len(labels)}; found input variables with "
            "inconsistent numbers of samples, pass one row of labels per row"
        )
    return np.where(labels == 0, -1, 1).astype(X.dtype)
