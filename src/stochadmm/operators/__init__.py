"""Linear operators with SciPy's names, on vectors and matrices, in float32 and float64."""

from ._algebra import Composed, PadColumns, Scaled, VStack
from ._algebra import row_sizes as row_sizes
from ._algebra import rows_times as rows_times
from ._algebra import tied_rows as tied_rows
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
