"""Columns tied by a sparse structure: one factor of it, few rows as a correction, levels.

The parts of ``solvers.default.tied_newton``; the mathematics is in ``docs/design/wide.md``.
"""

from ._dual import Mixing, dual_point
from ._levels import Levels, Reduced, free_levels, levels_of
from ._pieces import Pieces
from ._rows import FewRows, ManyRows, Model, Rows, factored_rows
from ._splitting import Splitting
from ._structure import Structure
from .options import OPTIONS as TIED_OPTIONS
from .options import TiedOptions

__all__ = [
    "TIED_OPTIONS",
    "FewRows",
    "Levels",
    "ManyRows",
    "Mixing",
    "Model",
    "Pieces",
    "Reduced",
    "Rows",
    "Splitting",
    "Structure",
    "TiedOptions",
    "dual_point",
    "factored_rows",
    "free_levels",
    "levels_of",
]
