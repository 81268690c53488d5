"""Several labels per row: a classifier that also takes a matrix of zeros and ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.multiclass import is_multilabel

from ..base.protocols import Array
from ..base.validation import refuse_masked
from . import _data
from ._classifier import Classifier
from ._data import Data


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
                "the rows of a fold have one value of every label; use fewer folds, or folds that "
                "mix the rows"
            )
        each = np.ones(len(signs)) if weight is None else weight
        return np.where(self._constant, 0.0, each[:, None])

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
    """Return -1 and 1 of a matrix of zeros and ones, None where y is one label per row.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.estimators._labels import as_signs
    >>> as_signs([[0, 1], [1, 1]], np.zeros((2, 1)))
    array([[-1.,  1.],
           [ 1.,  1.]])
    """
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
