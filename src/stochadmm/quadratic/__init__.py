"""The small problem that never touches the data.

    min_w  <c, w - x> + 1/2 <w - x, H (w - x)> + h1(A w - b) + h2(w)

It is solved in two phases. A splitting method (ADMM with over-relaxation and a balanced penalty)
finds most of the active set, and is all that is needed for a few digits; the augmented Lagrangian
with Newton's method in w then needs a few linear systems for full accuracy, because its second
derivative is exact once the active set is. Throughout, the multiplier lies in the dual set of the
penalties.
"""

from ..linear_algebra.implicit import Implicit
from .model import QuadraticModel, QuadraticResult, minimize_quadratic
from .options import DEFAULTS, QuadraticOptions

__all__ = [
    "DEFAULTS",
    "Implicit",
    "QuadraticModel",
    "QuadraticOptions",
    "QuadraticResult",
    "minimize_quadratic",
]
