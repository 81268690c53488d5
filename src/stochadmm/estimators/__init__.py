"""Estimators with the API of scikit-learn, which is loaded when the first one is asked for."""

from typing import TYPE_CHECKING, Any

from ..base import lazy

if TYPE_CHECKING:
    from .cv import (
        FusedLassoClassifierCV,
        FusedLassoRegressorCV,
        GeneralizedLassoClassifierCV,
        GeneralizedLassoRegressorCV,
        GraphFusedClassifierCV,
        GraphFusedRegressorCV,
        LassoRegressorCV,
        OverlappingGroupClassifierCV,
        OverlappingGroupRegressorCV,
        SparseGroupLassoClassifierCV,
        SparseGroupLassoRegressorCV,
        SparseLogisticClassifierCV,
        SparseLowRankClassifierCV,
        SparseLowRankRegressorCV,
        TrendFilterRegressorCV,
    )
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
    from .sparse_groups import (
        SparseGroupLassoClassifier,
        SparseGroupLassoRegressor,
    )
    from .structured import (
        StructuredClassifier,
        StructuredClassifierCV,
        StructuredRegressor,
        StructuredRegressorCV,
    )

_MODULES = {
    "cv": (
        "FusedLassoClassifierCV",
        "FusedLassoRegressorCV",
        "GeneralizedLassoClassifierCV",
        "GeneralizedLassoRegressorCV",
        "GraphFusedClassifierCV",
        "GraphFusedRegressorCV",
        "LassoRegressorCV",
        "OverlappingGroupClassifierCV",
        "OverlappingGroupRegressorCV",
        "SparseGroupLassoClassifierCV",
        "SparseGroupLassoRegressorCV",
        "SparseLogisticClassifierCV",
        "SparseLowRankClassifierCV",
        "SparseLowRankRegressorCV",
        "TrendFilterRegressorCV",
    ),
    "fused": (
        "FusedLassoClassifier",
        "FusedLassoRegressor",
        "GraphFusedClassifier",
        "GraphFusedRegressor",
    ),
    "generalized": (
        "GeneralizedLassoClassifier",
        "GeneralizedLassoRegressor",
        "TrendFilterRegressor",
    ),
    "groups": (
        "OverlappingGroupClassifier",
        "OverlappingGroupRegressor",
    ),
    "lowrank": (
        "SparseLowRankClassifier",
        "SparseLowRankRegressor",
    ),
    "lasso": (
        "LassoRegressor",
        "SparseLogisticClassifier",
    ),
    "sparse_groups": (
        "SparseGroupLassoClassifier",
        "SparseGroupLassoRegressor",
    ),
    "structured": (
        "StructuredClassifier",
        "StructuredClassifierCV",
        "StructuredRegressor",
        "StructuredRegressorCV",
    ),
}
"""Where the estimators are."""

__all__ = [
    "FusedLassoClassifier",
    "FusedLassoClassifierCV",
    "FusedLassoRegressor",
    "FusedLassoRegressorCV",
    "GeneralizedLassoClassifier",
    "GeneralizedLassoClassifierCV",
    "GeneralizedLassoRegressor",
    "GeneralizedLassoRegressorCV",
    "GraphFusedClassifier",
    "GraphFusedClassifierCV",
    "GraphFusedRegressor",
    "GraphFusedRegressorCV",
    "LassoRegressor",
    "LassoRegressorCV",
    "OverlappingGroupClassifier",
    "OverlappingGroupClassifierCV",
    "OverlappingGroupRegressor",
    "OverlappingGroupRegressorCV",
    "SparseGroupLassoClassifier",
    "SparseGroupLassoClassifierCV",
    "SparseGroupLassoRegressor",
    "SparseGroupLassoRegressorCV",
    "SparseLogisticClassifier",
    "SparseLogisticClassifierCV",
    "SparseLowRankClassifier",
    "SparseLowRankClassifierCV",
    "SparseLowRankRegressor",
    "SparseLowRankRegressorCV",
    "StructuredClassifier",
    "StructuredClassifierCV",
    "StructuredRegressor",
    "StructuredRegressorCV",
    "TrendFilterRegressor",
    "TrendFilterRegressorCV",
]


def __getattr__(name: str) -> Any:
    return lazy.load(__name__, _MODULES, name)
