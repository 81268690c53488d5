"""The methods, one per file."""

from ._base import Solver, State, as_solver, get, names, register
from ._steps import Continuation
from .aadmm import AADMM
from .acc_sadmm import AccSADMM, Schedule
from .admm import ADMM
from .asvrg_admm import ASVRGADMM
from .auto import Auto
from .fast_ladmm import FastLADMM
from .gram import Gram
from .inertial_admm import InertialADMM
from .katyusha import Katyusha
from .ladm_ne import LADMNE
from .ladmpsap import LADMPSAP
from .linearized_admm import LinearizedADMM
from .low_rank_gram import LowRankGram, LowRankGramOptions
from .low_rank_newton import LowRankNewton, LowRankNewtonOptions
from .opg_admm import OPGADMM
from .opt_sadmm import OptSADMM
from .prox_newton import ProxNewton
from .rda_admm import RDAADMM
from .sag_admm import SAGADMM
from .sampled_newton import SampledNewton
from .sdca_admm import SDCAADMM
from .spdhg import SPDHG
from .stoc_admm import StocADMM
from .streamed_newton import StreamedNewton
from .svrg_admm import SVRGADMM
from .tied_newton import TiedNewton
from .vr_pddy import VRPDDY
from .working_set import WorkingSet

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
    "Auto",
    "Continuation",
    "FastLADMM",
    "Gram",
    "InertialADMM",
    "Katyusha",
    "LinearizedADMM",
    "LowRankGram",
    "LowRankGramOptions",
    "LowRankNewton",
    "LowRankNewtonOptions",
    "OptSADMM",
    "ProxNewton",
    "SampledNewton",
    "Schedule",
    "Solver",
    "State",
    "StocADMM",
    "StreamedNewton",
    "TiedNewton",
    "WorkingSet",
    "as_solver",
    "get",
    "names",
    "register",
]
