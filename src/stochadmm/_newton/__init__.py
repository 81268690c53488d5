"""One inexact proximal Newton loop with four exchangeable parts; see ``docs/design/core.md``."""

from .composite import Composite
from .interfaces import Candidate, NewtonState, Plan, Run, Verdict
from .loop import solve, start, step
from .plans import PLANS

__all__ = [
    "PLANS",
    "Candidate",
    "Composite",
    "NewtonState",
    "Plan",
    "Run",
    "Verdict",
    "solve",
    "start",
    "step",
]
