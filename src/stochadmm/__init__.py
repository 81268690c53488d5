"""Structured sparse and low-rank linear models by accelerated stochastic ADMM.

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)     s.t.  A1 x1 + A2 x2 = b

State a problem from parts, ``minimize`` it, read the certificate.
"""

from typing import TYPE_CHECKING, Any

from . import cluster, data, datasets, solvers
from .certificates import Certificate, certify
from .cluster import EngineLost
from .data import DataError
from .data import open_source as open
from .linear_algebra.threads import use_threads
from .losses import Huber, Logistic, Multinomial, Poisson, Quantile, Squared, SquaredHinge
from .operators import (
    Differences,
    GridDifferences,
    Identity,
    Incidence,
    Matrix,
    Selection,
    VStack,
    as_operator,
)
from .penalties import (
    L1,
    Box,
    ElasticNet,
    GroupL2,
    L2Ball,
    NonNegative,
    Nuclear,
    Ridge,
    RowsL21,
    Separable,
    Stacked,
    TotalVariation1D,
    Zero,
)
from .problem import Pair, Problem
from .risk import Evaluation, FiniteSum
from .run.minimize import iterate, minimize
from .run.result import Record, Result, Status
from .run.stopping import AllOf, AnyOf, Gap, Never, Residuals
from .solvers import (
    AADMM,
    ADMM,
    ASVRGADMM,
    LADMNE,
    LADMPSAP,
    OPGADMM,
    RDAADMM,
    SAGADMM,
    SDCAADMM,
    SPDHG,
    SVRGADMM,
    VRPDDY,
    AccSADMM,
    Auto,
    Continuation,
    FastLADMM,
    Gram,
    InertialADMM,
    Katyusha,
    LinearizedADMM,
    OptSADMM,
    ProxNewton,
    SampledNewton,
    Schedule,
    StocADMM,
    StreamedNewton,
    WorkingSet,
)
from .structures import Grid

if TYPE_CHECKING:
    from .estimators import (
        FusedLassoClassifier,
        FusedLassoClassifierCV,
        FusedLassoRegressor,
        FusedLassoRegressorCV,
        GeneralizedLassoClassifier,
        GeneralizedLassoClassifierCV,
        GeneralizedLassoRegressor,
        GeneralizedLassoRegressorCV,
        GraphFusedClassifier,
        GraphFusedClassifierCV,
        GraphFusedRegressor,
        GraphFusedRegressorCV,
        LassoRegressor,
        LassoRegressorCV,
        OverlappingGroupClassifier,
        OverlappingGroupClassifierCV,
        OverlappingGroupRegressor,
        OverlappingGroupRegressorCV,
        SparseLogisticClassifier,
        SparseLogisticClassifierCV,
        SparseLowRankClassifier,
        SparseLowRankClassifierCV,
        SparseLowRankRegressor,
        SparseLowRankRegressorCV,
        TrendFilterRegressor,
        TrendFilterRegressorCV,
    )

__version__ = "0.1.0"

__all__ = [
    "AADMM",
    "ADMM",
    "ASVRGADMM",
    "L1",
    "LADMNE",
    "LADMPSAP",
    "OPGADMM",
    "RDAADMM",
    "SAGADMM",
    "SDCAADMM",
    "SPDHG",
    "SVRGADMM",
    "VRPDDY",
    "AccSADMM",
    "AllOf",
    "AnyOf",
    "Auto",
    "Box",
    "Certificate",
    "Continuation",
    "DataError",
    "Differences",
    "ElasticNet",
    "EngineLost",
    "Evaluation",
    "FastLADMM",
    "FiniteSum",
    "FusedLassoClassifier",
    "FusedLassoClassifierCV",
    "FusedLassoRegressor",
    "FusedLassoRegressorCV",
    "Gap",
    "GeneralizedLassoClassifier",
    "GeneralizedLassoClassifierCV",
    "GeneralizedLassoRegressor",
    "GeneralizedLassoRegressorCV",
    "Gram",
    "GraphFusedClassifier",
    "GraphFusedClassifierCV",
    "GraphFusedRegressor",
    "GraphFusedRegressorCV",
    "Grid",
    "GridDifferences",
    "GroupL2",
    "Huber",
    "Identity",
    "Incidence",
    "InertialADMM",
    "Katyusha",
    "L2Ball",
    "LassoRegressor",
    "LassoRegressorCV",
    "LinearizedADMM",
    "Logistic",
    "Matrix",
    "Multinomial",
    "Never",
    "NonNegative",
    "Nuclear",
    "OptSADMM",
    "OverlappingGroupClassifier",
    "OverlappingGroupClassifierCV",
    "OverlappingGroupRegressor",
    "OverlappingGroupRegressorCV",
    "Pair",
    "Poisson",
    "Problem",
    "ProxNewton",
    "Quantile",
    "Record",
    "Residuals",
    "Result",
    "Ridge",
    "RowsL21",
    "SampledNewton",
    "Schedule",
    "Selection",
    "Separable",
    "SparseLogisticClassifier",
    "SparseLogisticClassifierCV",
    "SparseLowRankClassifier",
    "SparseLowRankClassifierCV",
    "SparseLowRankRegressor",
    "SparseLowRankRegressorCV",
    "Squared",
    "SquaredHinge",
    "Stacked",
    "Status",
    "StocADMM",
    "StreamedNewton",
    "TotalVariation1D",
    "TrendFilterRegressor",
    "TrendFilterRegressorCV",
    "VStack",
    "WorkingSet",
    "Zero",
    "as_operator",
    "certify",
    "cluster",
    "data",
    "datasets",
    "iterate",
    "minimize",
    "open",
    "solvers",
    "use_threads",
]

_DEFINED_HERE = frozenset(globals())


def __getattr__(name: str) -> Any:
    """Load the estimators, and scikit-learn with them, when the first one is asked for."""
    if name in __all__ and name not in _DEFINED_HERE:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
