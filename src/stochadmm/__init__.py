"""Structured sparse and low-rank linear models by accelerated stochastic ADMM.

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)     s.t.  A1 x1 + A2 x2 = b

State a problem from parts, ``minimize`` it, read the certificate.
"""

from . import datasets, solvers
from .certificates import Certificate, certify
from .driver import iterate, minimize
from .finite_sum import FiniteSum, Snapshot
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
from .result import Record, Result, Status
from .solvers import (
    AADMM,
    ADMM,
    ASVRGADMM,
    LADMNE,
    OPGADMM,
    RDAADMM,
    SAGADMM,
    SDCAADMM,
    SPDHG,
    SVRGADMM,
    VRPDDY,
    AccSADMM,
    Continuation,
    Gram,
    Katyusha,
    LinearizedADMM,
    OptSADMM,
    ProxNewton,
    Schedule,
    StocADMM,
)
from .stopping import AllOf, AnyOf, Gap, Never, Residuals

__version__ = "0.1.0"

__all__ = [
    "AADMM",
    "ADMM",
    "ASVRGADMM",
    "L1",
    "LADMNE",
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
    "Box",
    "Certificate",
    "Continuation",
    "Differences",
    "ElasticNet",
    "FiniteSum",
    "Gap",
    "Gram",
    "GridDifferences",
    "GroupL2",
    "Huber",
    "Identity",
    "Incidence",
    "Katyusha",
    "L2Ball",
    "LinearizedADMM",
    "Logistic",
    "Matrix",
    "Multinomial",
    "Never",
    "NonNegative",
    "Nuclear",
    "OptSADMM",
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
    "Schedule",
    "Selection",
    "Separable",
    "Snapshot",
    "Squared",
    "SquaredHinge",
    "Stacked",
    "Status",
    "StocADMM",
    "TotalVariation1D",
    "VStack",
    "Zero",
    "as_operator",
    "certify",
    "datasets",
    "iterate",
    "minimize",
    "solvers",
]
