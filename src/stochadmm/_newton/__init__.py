"""One inexact proximal Newton loop with four exchangeable parts; see ``docs/design/core.md``."""

from .composite import Composite, is_quadratic
from .interfaces import Candidate, NewtonState, Plan, Run, Verdict
from .line_search import backtrack, rounding
from .loop import solve, start, step
from .plans import METHODS
from .streamed import certificate_from_sample
from .tilted import TiltedSearch

__all__ = [
    "METHODS",
    "Candidate",
    "Composite",
    "NewtonState",
    "Plan",
    "Run",
    "TiltedSearch",
    "Verdict",
    "backtrack",
    "certificate_from_sample",
    "is_quadratic",
    "rounding",
    "solve",
    "start",
    "step",
]
