"""Estimators that choose their strength by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass

from ._docs import documented
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
from .groups import OverlappingGroupClassifier, OverlappingGroupRegressor
from .lasso import LassoRegressor, SparseLogisticClassifier
from .lowrank import SparseLowRankClassifier, SparseLowRankRegressor


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LassoRegressorCV(PathCV, LassoRegressor):
    """`LassoRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import LassoRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    >>> model = LassoRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SparseLogisticClassifierCV(PathCV, SparseLogisticClassifier):
    """`SparseLogisticClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLogisticClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = SparseLogisticClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FusedLassoRegressorCV(PathCV, FusedLassoRegressor):
    """`FusedLassoRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import FusedLassoRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    >>> model = FusedLassoRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class FusedLassoClassifierCV(PathCV, FusedLassoClassifier):
    """`FusedLassoClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import FusedLassoClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = FusedLassoClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GraphFusedRegressorCV(PathCV, GraphFusedRegressor):
    """`GraphFusedRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GraphFusedRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    >>> model = GraphFusedRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GraphFusedClassifierCV(PathCV, GraphFusedClassifier):
    """`GraphFusedClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GraphFusedClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = GraphFusedClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class TrendFilterRegressorCV(PathCV, TrendFilterRegressor):
    """`TrendFilterRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

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


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OverlappingGroupRegressorCV(PathCV, OverlappingGroupRegressor):
    """`OverlappingGroupRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import OverlappingGroupRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    >>> model = OverlappingGroupRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OverlappingGroupClassifierCV(PathCV, OverlappingGroupClassifier):
    """`OverlappingGroupClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import OverlappingGroupClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = OverlappingGroupClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GeneralizedLassoRegressorCV(PathCV, GeneralizedLassoRegressor):
    """`GeneralizedLassoRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GeneralizedLassoRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60)
    >>> model = GeneralizedLassoRegressorCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class GeneralizedLassoClassifierCV(PathCV, GeneralizedLassoClassifier):
    """`GeneralizedLassoClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GeneralizedLassoClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = GeneralizedLassoClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SparseLowRankRegressorCV(PathCV, SparseLowRankRegressor):
    """`SparseLowRankRegressor` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

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


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SparseLowRankClassifierCV(PathCV, SparseLowRankClassifier):
    """`SparseLowRankClassifier` with alpha chosen by cross-validation.

    Parameters
    ----------
    {cv}
    {own}
    {shared}

    Attributes
    ----------
    {cv_attributes}
    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLowRankClassifierCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4))
    >>> y = X[:, 0] - X[:, 1] + rng.standard_normal(60) > 0
    >>> model = SparseLowRankClassifierCV(alphas=5, cv=3).fit(X, y)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """
