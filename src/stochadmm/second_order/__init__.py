"""What second-order methods share: Hessian of all rows, backtracking, points inside domains."""

from .full import (
    NEEDS,
    Damping,
    check_dense,
    full_hessian,
    is_quadratic,
)
from .line_search import backtrack, rounding
from .model import inside, priced, structured, why_no_form

__all__ = [
    "NEEDS",
    "Damping",
    "backtrack",
    "check_dense",
    "full_hessian",
    "inside",
    "is_quadratic",
    "priced",
    "rounding",
    "structured",
    "why_no_form",
]
