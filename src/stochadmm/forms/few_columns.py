"""Problems whose columns are held one by one, as the compiled working set takes them.

``mean loss + sum_j h_j(x2_j)`` for a single output: an l1 norm with weights, squares and bounds,
on the coefficients or on an identity before them. See ``docs/design/small.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.terms import Elementwise
from ..base.workspace import Workspace
from ..data import CSR
from ..kernels.few_columns import ColumnsFound, ColumnsProblem, few_columns
from ..kernels.views import DataView
from ..problem import Problem
from ..risk import FiniteSum, loss_of_rows
from .small import all_terms, structure_rows, why_not_one_call


@dataclass(frozen=True)
class ColumnLimits:
    """Which problems are taken, and how many of their columns at a time.

    Parameters
    ----------
    numbers : int
        Entries of the columns of the largest set, which are copied one after the other as they are
        needed: half a gigabyte, which is rarely taken.
    sparse_numbers : int
        Entries of X, zeros included, where it is sparse: beyond, dense copies of its columns cost
        as much as the call saves.
    first : int
        Columns of the first set: their square matrix costs next to nothing.
    most : int
        Columns of the largest set, whose square matrices take 100 MB.
    work : float
        Products of one call, some tenths of a second: between calls a run can be interrupted.
    """

    numbers: int = 67_108_864
    sparse_numbers: int = 8_388_608
    first: int = 64
    most: int = 2048
    work: float = 4e9

    def why_not(self, problem: Problem, workspace: Workspace) -> str | None:
        """Return what keeps a problem from being solved so, in words."""
        reason = why_not_one_call(problem)
        if reason is not None:
            return reason
        f2 = loss_of_rows(problem.f2)
        assert f2 is not None
        sparse = f2.storage == CSR and f2.n_terms * f2.n_columns > self.sparse_numbers
        if sparse or f2.n_terms * min(f2.n_columns, self.most) > self.numbers:
            return "its columns are too long to be copied"
        if workspace.once(column_form, problem, workspace) is None:
            return "a penalty that does not hold columns one by one"
        return None


@dataclass(frozen=True)
class ColumnForm:
    """The numbers that hold each column, and the row of the structure that does."""

    f: DataView
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    columns: Array
    """The column that each row of the structure holds."""

    def solve(
        self, x2: Array, limits: ColumnLimits, deadline: Deadline = NEVER
    ) -> tuple[ColumnsProblem, ColumnsFound]:
        """Return arrays and numbers of the answer, from a start."""
        n, p = self.f.n_rows, x2.size
        problem = ColumnsProblem(
            self.f,
            self.l1,
            self.l2,
            self.lo,
            self.hi,
            x2.astype(np.float64),
            np.empty(n),
            np.empty(n),
            np.empty(p),
            limits.first,
            limits.most,
            limits.work,
            deadline.seconds_left(),
        )
        return problem, few_columns(problem)


def column_form(problem: Problem, workspace: Workspace) -> ColumnForm | None:
    """Return the form of a problem, None where a penalty ties columns or holds too few of them."""
    terms = all_terms(problem, workspace)
    if not terms or not all(term.kind == Elementwise.kind for term in terms):
        return None
    p, rows = problem.shape2[0], problem.shape1[0]
    own = p if problem.h2 is not None else 0
    indptr, columns, values = workspace.shared.once(structure_rows, problem.A2, own)
    single = (np.diff(indptr) == 1).all() and (values == 1).all()
    if not single or np.unique(columns).size < columns.size:
        return None
    l1, l2, lo, hi = np.zeros(p), np.zeros(p), np.full(p, -np.inf), np.full(p, np.inf)
    per_row = zip(*(term.per_row() for term in terms), strict=True)
    for per_column, parts in zip((l1, l2, lo, hi), per_row, strict=True):
        per_column[columns] = np.concatenate(parts)
    if 2 * np.count_nonzero(l1) < p:
        return None
    return ColumnForm(cast(FiniteSum, problem.f2).view, l1, l2, lo, hi, columns[:rows])
