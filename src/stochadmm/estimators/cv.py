"""Estimators that choose their strength by cross-validation."""

from __future__ import annotations

from ._docs import estimator
from ._search import PathCV
from .fused import (
    FusedLassoClassifier,
    FusedLassoRegressor,
    GraphFusedClassifier,
    GraphFusedRegressor,
)
from .generalized import (
    GeneralizedLassoClassifier,
    GeneralizedLassoRegressor,
    TrendFilterRegressor,
)
from .groups import (
    OverlappingGroupClassifier,
    OverlappingGroupRegressor,
    SparseGroupLassoClassifier,
    SparseGroupLassoRegressor,
)
from .lasso import LassoRegressor, SparseLogisticClassifier
from .lowrank import SparseLowRankClassifier, SparseLowRankRegressor


@estimator
class LassoRegressorCV(PathCV, LassoRegressor):
    """`LassoRegressor` with alpha chosen by cross-validation."""


@estimator
class SparseLogisticClassifierCV(PathCV, SparseLogisticClassifier):
    """`SparseLogisticClassifier` with alpha chosen by cross-validation."""


@estimator
class FusedLassoRegressorCV(PathCV, FusedLassoRegressor):
    """`FusedLassoRegressor` with alpha chosen by cross-validation."""


@estimator
class FusedLassoClassifierCV(PathCV, FusedLassoClassifier):
    """`FusedLassoClassifier` with alpha chosen by cross-validation."""


@estimator
class GraphFusedRegressorCV(PathCV, GraphFusedRegressor):
    """`GraphFusedRegressor` with alpha chosen by cross-validation."""


@estimator
class GraphFusedClassifierCV(PathCV, GraphFusedClassifier):
    """`GraphFusedClassifier` with alpha chosen by cross-validation."""


@estimator
class TrendFilterRegressorCV(PathCV, TrendFilterRegressor):
    """`TrendFilterRegressor` with alpha chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import TrendFilterRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X @ [0, 1, 2, 3] + 3 * rng.standard_normal(60)
    >>> model = TrendFilterRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@estimator
class OverlappingGroupRegressorCV(PathCV, OverlappingGroupRegressor):
    """`OverlappingGroupRegressor` with alpha chosen by cross-validation."""


@estimator
class OverlappingGroupClassifierCV(PathCV, OverlappingGroupClassifier):
    """`OverlappingGroupClassifier` with alpha chosen by cross-validation."""


@estimator
class GeneralizedLassoRegressorCV(PathCV, GeneralizedLassoRegressor):
    """`GeneralizedLassoRegressor` with alpha chosen by cross-validation."""


@estimator
class GeneralizedLassoClassifierCV(PathCV, GeneralizedLassoClassifier):
    """`GeneralizedLassoClassifier` with alpha chosen by cross-validation."""


@estimator
class SparseLowRankRegressorCV(PathCV, SparseLowRankRegressor):
    """`SparseLowRankRegressor` with alpha chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLowRankRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> Y = X[:, :2] @ [[1, 2, 0], [1, 2, 0]] + rng.standard_normal((60, 3))
    >>> model = SparseLowRankRegressorCV(alphas=5, cv=3).fit(X, Y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@estimator
class SparseLowRankClassifierCV(PathCV, SparseLowRankClassifier):
    """`SparseLowRankClassifier` with alpha chosen by cross-validation."""


@estimator
class SparseGroupLassoRegressorCV(PathCV, SparseGroupLassoRegressor):
    """`SparseGroupLassoRegressor` with alpha chosen by cross-validation."""


@estimator
class SparseGroupLassoClassifierCV(PathCV, SparseGroupLassoClassifier):
    """`SparseGroupLassoClassifier` with alpha chosen by cross-validation."""
