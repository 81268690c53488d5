"""Structured sparse and low-rank linear models by accelerated stochastic ADMM.

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)     s.t.  A1 x1 + A2 x2 = b

State a problem from parts, ``minimize`` it, read the certificate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import estimators, losses, penalties
from .base import lazy
from .base.names import did_you_mean
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
from .structures import Grid

if TYPE_CHECKING:
    from . import cluster, data, datasets, solvers, terms
    from .certificates.certify import Certificate, certify
    from .cluster import EngineLost
    from .comparison import Comparison, compare
    from .data import DataError
    from .estimators import *  # noqa: F403
    from .linear_algebra.threads import use_threads
    from .problem import Pair, Problem
    from .risk import Evaluation, FiniteSum
    from .run.checkpoint import CheckpointError
    from .run.minimize import iterate, minimize
    from .run.result import Record, Result, Status
    from .run.stopping import AllOf, AnyOf, Gap, Never, Residuals
    from .solvers import (
        SVRGADMM,
        AccSADMM,
        Auto,
        Continuation,
        Newton,
        Schedule,
    )

    open = data.open_source

__version__ = "0.1.0"

__all__ = [
    "SVRGADMM",
    "AccSADMM",
    "AllOf",
    "AnyOf",
    "Auto",
    "Certificate",
    "CheckpointError",
    "Comparison",
    "Continuation",
    "DataError",
    "Differences",
    "EngineLost",
    "Evaluation",
    "FiniteSum",
    "Gap",
    "Grid",
    "GridDifferences",
    "Identity",
    "Incidence",
    "Matrix",
    "Never",
    "Newton",
    "Pair",
    "Problem",
    "Record",
    "Residuals",
    "Result",
    "Schedule",
    "Selection",
    "Status",
    "VStack",
    "as_operator",
    "certify",
    "cluster",
    "compare",
    "data",
    "datasets",
    "iterate",
    "minimize",
    "solvers",
    "terms",
    "use_threads",
]
__all__ += losses.__all__
__all__ += penalties.__all__
__all__ += estimators.__all__


_PLACES = {
    "certificates": ("Certificate", "certify"),
    "cluster": ("EngineLost",),
    "comparison": ("Comparison", "compare"),
    "data": ("DataError", "open = open_source"),
    "estimators": estimators.__all__,
    "linear_algebra.threads": ("use_threads",),
    "problem": ("Pair", "Problem"),
    "risk": ("Evaluation", "FiniteSum"),
    "run.checkpoint": ("CheckpointError",),
    "run.minimize": ("iterate", "minimize"),
    "run.result": ("Record", "Result", "Status"),
    "run.stopping": ("AllOf", "AnyOf", "Gap", "Never", "Residuals"),
    "solvers": (
        "SVRGADMM",
        "AccSADMM",
        "Auto",
        "Continuation",
        "Newton",
        "Schedule",
    ),
}
"""Where the names are that are loaded when they are asked for; parts are there at once."""
_PACKAGES = (
    "_newton",
    "certificates",
    "cluster",
    "comparison",
    "data",
    "datasets",
    "exact",
    "forms",
    "linear_algebra",
    "low_rank",
    "paper",
    "plots",
    "problem",
    "quadratic",
    "risk",
    "run",
    "solvers",
    "terms",
    "testing",
    "tied",
)
"""Modules of the package that ``stochadmm.NAME`` loads without an import of their own."""


def __getattr__(name: str) -> Any:
    """Load what works on the parts, and scikit-learn with estimators, when it is asked for."""
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name not in __all__ and name != "open":  # an import of * keeps the built-in open
        hint = ""
        if not name.startswith("_"):
            methods = import_module(".solvers", __name__).__all__
            hint = (
                f"it is {__name__}.solvers.{name}"
                if name in methods
                else did_you_mean(name, __all__)
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint and '; '}{hint}")
    globals()[name] = found = lazy.load(__name__, _PLACES, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "open"})
