"""The small route: a whole solve with its certificate in one call, for one output in float64.

Only with the extension; without it, and where the route ends too early, the ordinary methods do
the work. ``docs/design/small.md`` says what is computed.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.protocols import Array
from .extension import core
from .views import DataView, PenaltyView


class SmallProblem(NamedTuple):
    """``mean loss + h(S w)`` with S in CSR form; the arrays after it are written.

    ``w`` (coefficients, then the intercept) and ``dual`` (a multiplier of ``S w``) are starts as
    well; ``z``, ``u`` and ``gradient`` are predictions, the derivative of each row's loss and the
    gradient of the mean loss at the answer.
    """

    f: DataView
    h: PenaltyView
    indptr: Array
    indices: Array
    data: Array
    w: Array
    dual: Array
    z: Array
    u: Array
    gradient: Array
    first: int = 0
    """Rows of the structure; those of single coefficients follow."""
    gram: Array | None = None
    """Room for the Hessian of a quadratic loss, which other penalties on the same rows share,"""
    gram_known: bool = False
    """and whether it is there."""


class SmallFound(NamedTuple):
    """What the route says about its answer."""

    value: float
    """Mean loss."""
    penalty: float
    bound: float
    """A lower bound on the minimum, minus infinity where none was found."""
    inner_penalty: float
    """Penalty parameter of the last small problem."""
    n_steps: int
    n_passes: int
    exact: bool
    """Whether zeros and ties are exact."""


def small_route(problem: SmallProblem) -> SmallFound:
    """Minimize, and bound the minimum."""
    return SmallFound(*core().small_route(problem))
