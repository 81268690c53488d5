"""Structured sparse and low-rank linear models by accelerated stochastic ADMM.

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)     s.t.  A1 x1 + A2 x2 = b

State a problem from parts, ``minimize`` it, read the certificate.
"""

from typing import TYPE_CHECKING, Any

from . import cluster, data, datasets, estimators, losses, penalties, solvers
from .base.names import did_you_mean
from .certificates import Certificate, certify
from .cluster import EngineLost
from .data import DataError
from .data import open_source as open
from .linear_algebra.threads import use_threads
from .losses import *  # noqa: F403
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
from .penalties import *  # noqa: F403
from .problem import Pair, Problem
from .risk import Evaluation, FiniteSum
from .run.checkpoint import CheckpointError
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
    from .estimators import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "AADMM",
    "ADMM",
    "ASVRGADMM",
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
    "Certificate",
    "CheckpointError",
    "Continuation",
    "DataError",
    "Differences",
    "EngineLost",
    "Evaluation",
    "FastLADMM",
    "FiniteSum",
    "Gap",
    "Gram",
    "Grid",
    "GridDifferences",
    "Identity",
    "Incidence",
    "InertialADMM",
    "Katyusha",
    "LinearizedADMM",
    "Matrix",
    "Never",
    "OptSADMM",
    "Pair",
    "Problem",
    "ProxNewton",
    "Record",
    "Residuals",
    "Result",
    "SampledNewton",
    "Schedule",
    "Selection",
    "Status",
    "StocADMM",
    "StreamedNewton",
    "VStack",
    "WorkingSet",
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
__all__ += losses.__all__
__all__ += penalties.__all__
__all__ += estimators.__all__


def __getattr__(name: str) -> Any:
    """Load the estimators, and scikit-learn with them, when the first one is asked for."""
    if name in estimators.__all__:
        return getattr(estimators, name)
    hint = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint and '; '}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
