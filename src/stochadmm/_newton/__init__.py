"""One inexact proximal Newton loop with four exchangeable parts; see ``docs/design/core.md``."""

from .composite import Composite, is_quadratic
from .interfaces import Candidate, NewtonState, Plan, Run, Verdict
from .line_search import backtrack, rounding
from .loop import solve, start, step
from .low_rank import LOW_RANK, MatrixProblem, MatrixState, settle, state_at
from .plans import METHODS
from .streamed import certificate_from_sample
from .tilted import TiltedSearch

__all__ = [
    "LOW_RANK",
    "METHODS",
    "Candidate",
    "Composite",
    "MatrixProblem",
    "MatrixState",
    "NewtonState",
    "Plan",
    "Run",
    "TiltedSearch",
    "Verdict",
    "backtrack",
    "certificate_from_sample",
    "is_quadratic",
    "rounding",
    "settle",
    "solve",
    "start",
    "state_at",
    "step",
]
