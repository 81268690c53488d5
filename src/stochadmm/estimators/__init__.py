"""Estimators with the API of scikit-learn."""

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
    "SparseLogisticClassifier",
    "SparseLogisticClassifierCV",
    "SparseLowRankClassifier",
    "SparseLowRankClassifierCV",
    "SparseLowRankRegressor",
    "SparseLowRankRegressorCV",
    "TrendFilterRegressor",
    "TrendFilterRegressorCV",
]
