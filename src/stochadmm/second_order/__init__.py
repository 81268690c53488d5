"""Second-order steps: numbers of the method, sample of rows, model, line search.

A step reads the data once, for value and gradient of all rows; its Hessian comes from a sample
(`stochadmm.risk.curvature`), its minimizer from `stochadmm.quadratic`, and the dual point that
certifies it from `stochadmm.certificates`.
"""

from .full import (
    NEEDS,
    Damping,
    check_dense,
    full_hessian,
    is_quadratic,
)
from .line_search import backtrack, double, halve, rounding
from .model import curvature_along, inside, model_value, priced, structured, why_no_form
from .options import SecondOrderOptions
from .ray import Ray
from .sample_size import affordable, begins_with_part, first_sample, part_of

__all__ = [
    "NEEDS",
    "Damping",
    "Ray",
    "SecondOrderOptions",
    "affordable",
    "backtrack",
    "begins_with_part",
    "check_dense",
    "curvature_along",
    "double",
    "first_sample",
    "full_hessian",
    "halve",
    "inside",
    "is_quadratic",
    "model_value",
    "part_of",
    "priced",
    "rounding",
    "structured",
    "why_no_form",
]
