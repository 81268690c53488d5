"""The methods, one per file."""

from ..base.validation import Unsuitable
from ..base.workspace import Workspace
from ._base import (
    ENGINES,
    AnySolver,
    Solver,
    State,
    as_solver,
    choose_engine,
    get,
    names,
    register,
    start_point,
)
from ._steps import Continuation
from .comparison.aadmm import AADMM
from .comparison.admm import ADMM
from .comparison.asvrg_admm import ASVRGADMM
from .comparison.fast_ladmm import FastLADMM
from .comparison.inertial_admm import InertialADMM
from .comparison.katyusha import Katyusha
from .comparison.ladm_ne import LADMNE
from .comparison.ladmpsap import LADMPSAP
from .comparison.linearized_admm import LinearizedADMM
from .comparison.opg_admm import OPGADMM
from .comparison.opt_sadmm import OptSADMM
from .comparison.rda_admm import RDAADMM
from .comparison.sag_admm import SAGADMM
from .comparison.sdca_admm import SDCAADMM
from .comparison.spdhg import SPDHG
from .comparison.stoc_admm import StocADMM
from .comparison.svrg_admm import SVRGADMM
from .comparison.vr_pddy import VRPDDY
from .default.acc_sadmm import AccSADMM, Schedule
from .default.auto import Auto
from .default.few_columns import FewColumns
from .default.low_rank_gram import LowRankGram
from .default.low_rank_newton import LowRankNewton
from .default.small import Small
from .newton import Newton

__all__ = [
    "AADMM",
    "ADMM",
    "ASVRGADMM",
    "ENGINES",
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
    "AnySolver",
    "Auto",
    "Continuation",
    "FastLADMM",
    "FewColumns",
    "InertialADMM",
    "Katyusha",
    "LinearizedADMM",
    "LowRankGram",
    "LowRankNewton",
    "Newton",
    "OptSADMM",
    "Schedule",
    "Small",
    "Solver",
    "State",
    "StocADMM",
    "Unsuitable",
    "Workspace",
    "as_solver",
    "choose_engine",
    "get",
    "names",
    "register",
    "start_point",
]
