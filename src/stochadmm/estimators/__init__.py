"""Estimators with the API of scikit-learn, which is loaded when the first one is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from .lowrank import SparseLowRankClassifier, SparseLowRankRegressor
    from .plain import LassoRegressor, SparseLogisticClassifier
    from .sparse_groups import (
        SparseGroupLassoClassifier,
        SparseGroupLassoClassifierCV,
        SparseGroupLassoRegressor,
        SparseGroupLassoRegressorCV,
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
    "plain": (
        "LassoRegressor",
        "SparseLogisticClassifier",
    ),
    "sparse_groups": (
        "SparseGroupLassoClassifier",
        "SparseGroupLassoClassifierCV",
        "SparseGroupLassoRegressor",
        "SparseGroupLassoRegressorCV",
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
    "TrendFilterRegressor",
    "TrendFilterRegressorCV",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
