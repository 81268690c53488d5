"""Penalties: convex functions with a cheap prox, their conjugates and what solvers ask of them."""

from ._elementwise import L1, Box, ElasticNet, NonNegative, Ridge, Zero
from ._fusion import TotalVariation1D
from ._groups import GroupL2, RowsL21
from ._norms import L2Ball, Nuclear
from ._separable import ElementwisePenalty as ElementwisePenalty
from ._separable import Separable
from ._separable import held_at_zero as held_at_zero
from ._sparse_groups import SparseGroupNorm
from ._stacked import Stacked
from ._stacked import segments as segments

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "GroupL2",
    "L2Ball",
    "NonNegative",
    "Nuclear",
    "Ridge",
    "RowsL21",
    "Separable",
    "SparseGroupNorm",
    "Stacked",
    "TotalVariation1D",
    "Zero",
]
