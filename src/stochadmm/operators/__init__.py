"""Linear operators with SciPy's names, on vectors and matrices, in float32 and float64."""

from ._algebra import Composed, PadColumns, Scaled, VStack
from ._base import csr_parts, squared_norm
from ._convert import as_operator, simplest
from ._differences import Differences, GridDifferences
from ._graphs import Incidence, Selection
from ._matrices import Identity, Matrix, Wrapped, identity_scale

__all__ = [
    "Composed",
    "Differences",
    "GridDifferences",
    "Identity",
    "Incidence",
    "Matrix",
    "PadColumns",
    "Scaled",
    "Selection",
    "VStack",
    "Wrapped",
    "as_operator",
    "csr_parts",
    "identity_scale",
    "simplest",
    "squared_norm",
]
