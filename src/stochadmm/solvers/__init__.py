"""The methods, one per file."""

from ._base import Solver, State, as_solver, get, names, register
from ._steps import Continuation
from .aadmm import AADMM
from .acc_sadmm import AccSADMM, Schedule
from .ladm_ne import LADMNE
from .linearized_admm import LinearizedADMM

__all__ = [
    "AADMM",
    "LADMNE",
    "AccSADMM",
    "Continuation",
    "LinearizedADMM",
    "Schedule",
    "Solver",
    "State",
    "as_solver",
    "get",
    "names",
    "register",
]
