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
    from .groups import (
        OverlappingGroupClassifier,
        OverlappingGroupRegressor,
        SparseGroupLassoClassifier,
        SparseGroupLassoRegressor,
    )
    from .lasso import LassoRegressor, SparseLogisticClassifier
    from .lowrank import SparseLowRankClassifier, SparseLowRankRegressor
    from .structured import (
        StructuredClassifier,
        StructuredClassifierCV,
        StructuredRegressor,
        StructuredRegressorCV,
    )

_MODULES = {
    "fused": (
        "FusedLassoClassifier FusedLassoRegressor GraphFusedClassifier GraphFusedRegressor"
    ).split(),
    "generalized": (
        "GeneralizedLassoClassifier GeneralizedLassoRegressor TrendFilterRegressor"
    ).split(),
    "groups": (
        "OverlappingGroupClassifier OverlappingGroupRegressor "
        "SparseGroupLassoClassifier SparseGroupLassoRegressor"
    ).split(),
    "lasso": "LassoRegressor SparseLogisticClassifier".split(),
    "lowrank": "SparseLowRankClassifier SparseLowRankRegressor".split(),
}
"""Where the estimators of one alpha are."""
_MODULES["cv"] = [f"{name}CV" for names in _MODULES.values() for name in names]
_MODULES["structured"] = (
    "StructuredClassifier StructuredClassifierCV StructuredRegressor StructuredRegressorCV"
).split()

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
