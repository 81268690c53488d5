"""Columns tied by a sparse structure: one factor of it, few rows as a correction, levels.

The parts of ``solvers.tied_newton``; the mathematics is in ``docs/design/wide.md``.
"""

from ._dual import dual_point
from ._levels import Levels, Reduced, levels_of
from ._pieces import Pieces
from ._rows import FewRows, ManyRows, Model, Rows
from ._splitting import Splitting
from ._structure import MOST_ENTRIES, Structure

__all__ = [
    "MOST_ENTRIES",
    "FewRows",
    "Levels",
    "ManyRows",
    "Model",
    "Pieces",
    "Reduced",
    "Rows",
    "Splitting",
    "Structure",
    "dual_point",
    "levels_of",
]
