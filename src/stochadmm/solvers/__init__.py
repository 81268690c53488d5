"""The methods, one per file."""

from ._base import Solver, State, as_solver, get, names, register
from ._steps import Continuation
from .aadmm import AADMM
from .acc_sadmm import AccSADMM, Schedule
from .katyusha import Katyusha
from .ladm_ne import LADMNE
from .linearized_admm import LinearizedADMM
from .vr_pddy import VRPDDY

__all__ = [
    "AADMM",
    "LADMNE",
    "VRPDDY",
    "AccSADMM",
    "Continuation",
    "Katyusha",
    "LinearizedADMM",
    "Schedule",
    "Solver",
    "State",
    "as_solver",
    "get",
    "names",
    "register",
]
