"""The methods, one per file."""

from ._base import Solver, State, as_solver, get, names, register
from .acc_sadmm import AccSADMM, Schedule

__all__ = ["AccSADMM", "Schedule", "Solver", "State", "as_solver", "get", "names", "register"]
