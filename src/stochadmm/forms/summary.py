"""A problem with a squared loss over rows in files, as one over a few rows in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..problem import Pair, Problem
from ..risk import StreamedSum
from ..risk.moments import Rounding, Summary, summarize
from .equilibrate import free_intercept


@dataclass(frozen=True)
class Summarized:
    """The same problem without the rows; x2 may differ by what moved against the intercept."""

    original: Problem
    problem: Problem
    shift: Array | None
    level: Array
    rounding: Rounding

    def into(self, x: Pair) -> Pair:
        """Return a point in the coordinates of the small problem."""
        return Pair(x.x1, self._moved(x.x2, 1.0))

    def back(self, x: Pair) -> Pair:
        """Return a point in the coordinates of the user."""
        return Pair(x.x1, self._moved(x.x2, -1.0))

    def _moved(self, x2: Array, sign: float) -> Array:
        moved = x2.copy()
        if self.shift is not None:
            moved[-1] += sign * (self.shift @ x2[:-1])
        if self.level.any():
            moved[-1] -= sign * self.level
        return moved


def summarized(problem: Problem, workspace: Workspace) -> Summarized | None:
    """Return the problem without its rows, None where they are in memory or needed.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.base.workspace import Workspace
    >>> source = sa.data.ArraySource(np.eye(4), np.arange(4.0))
    >>> problem = sa.Problem.linear(sa.Squared(), source, on_coefficients=sa.L1(0.1))
    >>> small = summarized(problem, Workspace())
    >>> x = np.array([1.0, 0.0, 2.0, -1.0])
    >>> round(small.problem.f2.value(x) - problem.f2.value(x), 12)
    0.0
    """
    f2 = problem.f2
    if not isinstance(f2, StreamedSum) or not offers(f2.loss, Has.SQUARE):
        return None
    # eight square matrices are held at a time by a pass and its sums
    if 8 * 8 * (f2.n_columns + (f2.n_outputs or 1)) ** 2 > f2.memory:
        return None
    # the strengths of a path share the read
    made: Summary = workspace.rows.once(summarize, f2, f2.intercept and free_intercept(problem))
    small = replace(problem, f2=made.f2)
    return Summarized(problem, small, made.shift, made.level, made.rounding)


def checked_against_rows(whole: Summarized, x2: Array) -> tuple[Array, float]:
    """Return a point of the user's problem and F there, from one more read of the rows."""
    pair = whole.back(Pair(np.zeros(0), x2))
    problem = whole.original
    point = problem.feasible(Pair(problem.zeros().x1, pair.x2))
    return pair.x2, problem.penalty(point) + float(problem.f2.value(pair.x2))
