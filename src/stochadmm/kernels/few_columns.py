"""Many columns, each with a penalty of its own: a whole solve in one call, for one output.

Only with the extension; without it, and where the set of columns gets too large, the ordinary
methods do the work. ``docs/design/small.md`` says what is computed.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.protocols import Array
from .extension import core
from .views import DataView


class ColumnsProblem(NamedTuple):
    """``mean loss + sum_j (l1_j |w_j| + l2_j w_j^2 / 2)`` within bounds, the intercept last.

    ``w`` is a start as well; ``z``, ``u`` and ``gradient`` are predictions, the derivative of each
    row's loss and the gradient of the mean loss at the answer.
    """

    f: DataView
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    w: Array
    z: Array
    u: Array
    gradient: Array
    first: int
    """Columns that are taken to begin with,"""
    most: int
    """and at most."""
    work: float
    """Products,"""
    seconds: float
    """and time after which it is left where it is."""


class ColumnsFound(NamedTuple):
    """What the route says about its answer."""

    value: float
    """Mean loss."""
    penalty: float
    bound: float
    """A lower bound on the minimum, minus infinity where none was found."""
    n_steps: int
    n_passes: int
    n_columns: int
    """Columns that were worked on."""
    late: bool
    """Whether it was left before its end."""
    rests: bool
    """Whether derivatives are held as far as rounding allows."""


def few_columns(problem: ColumnsProblem) -> ColumnsFound:
    """Minimize, or come as far as so many columns allow."""
    return ColumnsFound(*core().few_columns(problem))
