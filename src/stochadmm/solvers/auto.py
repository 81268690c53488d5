"""The automatic solver: nothing to choose, and it says what it chose.

Second-order steps from samples of rows serve most problems. Quadratic losses take the whole Gram
matrix once. Where columns are many and most of them stay at zero, a few at a time are worked on.
Problems that no model fits (operators without a matrix, tied columns by the thousand, a general
A1) go to ACC-SADMM with restarts, or to SDCA-ADMM when there are fewer rows than columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from ..certificates._composite import LARGEST_DENSE
from ..finite_sum import FiniteSum
from ..problem import Pair, Problem
from ..protocols import Array
from ._base import Solver, State, get, register
from ._newton import is_quadratic
from .sampled_newton import dual_rows, why_not
from .working_set import why_not_by_column

LARGEST_WIDE = 2000
"""Columns from which on fewer rows are worked on in their dual variables."""
SOME_COLUMNS, MANY_COLUMNS, ROWS_PER_COLUMN = 200, 2000, 10
"""Columns are worked on a few at a time from the second number on, and from the first on where
there are fewer rows than this per column."""
ROUTES = {"newton": "sampled-newton"}
"""Routes whose method has a longer name."""


@register
@dataclass(frozen=True)
class Auto(Solver):
    """Choose the method, its parameters and its certificate from the problem.

    Parameters
    ----------
    route : {"auto", "newton", "gram", "working-set", "sdca-admm", "acc-sadmm"}
        Second-order steps from samples of rows, the Gram matrix of a quadratic loss, a few of many
        columns at a time, steps in the dual variables of few rows, or ACC-SADMM.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 8))
    >>> y = np.sign(X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(500))
    >>> problem = sa.Problem.linear(
    ...     sa.Logistic(), X, y, structure=sa.Differences(8), on_structure=sa.L1(0.01)
    ... )
    >>> result = sa.minimize(problem, stop=sa.Gap(1e-8))
    >>> result.status.name, result.info["route"]
    ('CONVERGED', 'newton')
    """

    name: ClassVar[str] = "auto"
    has_kernel: ClassVar[bool] = True
    route: str = "auto"

    def choose(self, problem: Problem) -> tuple[str, str]:
        """Return the route and the reason, in words."""
        if self.route != "auto":
            return self.route, "asked for"
        reason = why_not(problem)
        n, d = problem.f2.n_terms, problem.shape2[0]
        if _few_columns_matter(n, d) and why_not_by_column(problem) is None:
            return "working-set", f"{d} columns, each of which a penalty can hold at zero"
        few = n < d and dual_rows(problem)
        if reason is not None:
            return "sdca-admm" if few else "acc-sadmm", reason
        if few and d > LARGEST_WIDE:
            return "sdca-admm", f"{n} rows are far fewer than {d} columns"
        if is_quadratic(problem):
            return "gram", "the loss is quadratic: one Gram matrix makes the rows superfluous"
        columns = cast(FiniteSum, problem.f2).n_columns
        if columns > LARGEST_DENSE:
            return "newton", f"{columns} columns: a model from products with some rows"
        return "newton", f"{columns} columns: a {columns} x {columns} model is cheap"

    def memory(self, problem: Problem) -> int:
        """Return the bytes that the chosen method keeps beyond the data."""
        return _method(self.choose(problem)[0]).memory(problem)

    def start(self, problem: Problem, x: Pair | None = None, dual: Array | None = None) -> State:
        """Return the state of the chosen method."""
        route, reason = self.choose(problem)
        solver = _method(route)
        solver.check(problem)
        state = solver.start(problem, x, dual)
        state.notes |= {"route": route, "reason": reason}
        return state

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Advance the chosen method by one epoch."""
        _method(state.notes["route"]).epoch(problem, state, rng)


def _few_columns_matter(n: int, d: int) -> bool:
    """Say whether columns are so many that most of them will hardly differ from zero."""
    return d >= MANY_COLUMNS or (d >= SOME_COLUMNS and n < ROWS_PER_COLUMN * d)


def _method(route: str) -> Solver:
    return get(ROUTES.get(route, route))()
