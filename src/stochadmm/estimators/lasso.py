"""Plain sparse models: the lasso, the elastic net, sparse logistic regression."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._base import StructuredModel
from ._classifier import Classifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure


@dataclass(eq=False, repr=False, kw_only=True)
class Plain(StructuredModel):
    """The elastic net.

    Parameters
    ----------
    l1_ratio : float, default=1.0
        Share of the l1 norm in the penalty: 1 is the lasso, 0 ridge regression.
    """

    l1_ratio: float = 1.0

    def _structure(self, columns: Columns) -> Structure:
        return Structure(l1=self._ratio, l2=1 - self._ratio)


@estimator
class LassoRegressor(Regressor, Plain):
    """Lasso and elastic net: linear regression with few non-zero coefficients.

    Minimizes ``mean loss + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)``, with the squared
    loss the objective of scikit-learn's ElasticNet.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import LassoRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5))
    >>> model = LassoRegressor(alpha=0.1).fit(X, 2 * X[:, 0] - X[:, 3])
    >>> np.flatnonzero(model.coef_)
    array([0, 3])
    """

    l2_ratio: float = field(init=False, default=0.0)  # the rest of l1_ratio is the square


@estimator
class SparseLogisticClassifier(Classifier, Plain):
    """Linear classification with the lasso or elastic net penalty: few non-zero coefficients.

    Minimizes ``mean loss + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLogisticClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = np.where(X[:, 1] > 0, "yes", "no")
    >>> model = SparseLogisticClassifier(alpha=0.05).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.predict(X[:3])
    (array([1]), array(['no', 'yes', 'yes'], dtype='<U3'))
    """

    l2_ratio: float = field(init=False, default=0.0)  # the rest of l1_ratio is the square
