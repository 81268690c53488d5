"""Strengths chosen by cross-validation, with a warm-started path in every fold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from ..losses import Squared
from ..progress import counted
from ..protocols import Array
from ._docs import documented
from ._plots import standard_error
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
from .lowrank import SparseLowRankClassifier, SparseLowRankRegressor
from .plain import LassoRegressor, SparseLogisticClassifier

TIED = 1e-8


@dataclass(eq=False, repr=False, kw_only=True)
class PathCV:
    """What turns an estimator into one that chooses its own alpha."""

    alpha: float = field(init=False, default=0.01)
    alphas: Any = None
    n_alphas: int = 50
    eps: float = 1e-2
    cv: Any = None
    scoring: Any = None
    one_standard_error: bool = False
    n_jobs: int | None = None

    @property
    def _strength(self) -> float:
        return self.alpha_

    def _fit(self: Any, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        X, y, sample_weight, offset = indexable(X, y, sample_weight, offset)
        if _num_samples(X) < 2:
            raise ValueError("cross-validation needs several rows, got n_samples = 1")
        model = self._plain()
        fitting = model._prepare(X, y, sample_weight, offset)
        grid = model._grid(fitting, self.alphas, self.n_alphas, self.eps, otherwise=1.0)
        self.alphas_ = np.array(grid)
        folds = list(check_cv(self.cv, y, classifier=is_classifier(self)).split(X, y))
        total = len(folds) * len(self.alphas_)
        with counted(f"{type(self).__name__}, fits", total, bool(self.verbose)) as advance:
            serial = effective_n_jobs(self.n_jobs) == 1  # a bar does not travel to other processes
            work = (
                delayed(_fold)(
                    self._plain(), X, y, sample_weight, offset, self.alphas_, train, test,
                    self.scoring, advance if serial else None,
                )
                for train, test in folds
            )  # fmt: skip
            scores = []
            for score in Parallel(n_jobs=self.n_jobs, return_as="generator")(work):
                scores.append(score)
                advance(0 if serial else len(self.alphas_))
        self.score_path_ = np.stack(scores, axis=1)
        if isinstance(fitting.data.loss, Squared) and self.scoring is None:
            self.mse_path_ = -self.score_path_
        self.best_index_ = best_index(self.score_path_, self.one_standard_error)
        self.alpha_ = float(self.alphas_[self.best_index_])
        return super()._fit(X, y, sample_weight, offset)  # type: ignore[misc]

    def _plain(self: Any) -> Any:
        """Return the estimator without cross-validation, with the same parameters."""
        base: Any = next(c for c in type(self).__mro__ if not issubclass(c, PathCV))
        names = base._get_param_names()
        return base(**{name: getattr(self, name) for name in names} | {"verbose": False})

    def plot_path(self: Any, ax: Any = None) -> Any:
        """Draw the scores against alpha, with the chosen one; returns the axes."""
        from ._plots import plot_scores

        return plot_scores(self.alphas_, self.score_path_, self.alpha_, ax)


def _fold(
    model: Any, X: Any, y: Any, weight: Any, offset: Any, alphas: Array, train: Array, test: Array,
    scoring: Any, advance: Any,
) -> Array:  # fmt: skip
    """Return the score of every alpha on the rows left out; ``advance`` counts them."""

    def part(array: Any, rows: Array) -> Any:
        return None if array is None else _safe_indexing(array, rows)

    held = part(X, test), part(y, test), part(weight, test), part(offset, test)
    fitting = model._prepare(*(part(array, train) for array in (X, y, weight, offset)))
    scorer = None if scoring is None else check_scoring(model, scoring)
    scores = []
    for _ in model._walk(fitting, alphas.tolist(), last_digits=False):
        if scorer is None:
            scores.append(-model._held_out_loss(*held))
        elif weight is None:
            scores.append(scorer(model, held[0], held[1]))
        else:
            scores.append(scorer(model, held[0], held[1], sample_weight=held[2]))
        if advance is not None:
            advance(1)
    return np.array(scores)


def best_index(scores: Array, one_standard_error: bool) -> int:
    """Return the place of the best mean score, or of the first within one standard error of it.

    Of scores that differ by less than the accuracy of the fits the first is best.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.estimators.cv import best_index
    >>> scores = np.array([[0.0, 0.4], [0.4, 0.6], [0.4, 0.7]])
    >>> best_index(scores, False), best_index(scores, True)
    (2, 1)
    """
    mean = scores.mean(axis=1)
    best = int(np.argmax(mean))
    room = standard_error(scores)[best] if one_standard_error else 0.0
    return int(np.argmax(mean >= mean[best] - max(room, TIED * abs(mean[best]))))


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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = LassoRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = SparseLogisticClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = FusedLassoRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = FusedLassoClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = GraphFusedRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = GraphFusedClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = TrendFilterRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = OverlappingGroupRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = OverlappingGroupClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = GeneralizedLassoRegressorCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1])
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = GeneralizedLassoClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> Y = X[:, :2] @ [[1, 2, 0], [1, 2, 0]]
    >>> model = SparseLowRankRegressorCV(n_alphas=5, cv=3).fit(X, Y)
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
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> model = SparseLowRankClassifierCV(n_alphas=5, cv=3).fit(X, X[:, 0] - X[:, 1] > 0)
    >>> model.score_path_.shape, bool(model.alpha_ == model.alphas_[model.best_index_])
    ((5, 3), True)
    """
