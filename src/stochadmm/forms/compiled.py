"""Problems, penalties and operators as the views that compiled loops take.

A part without a compiled description makes the view ``None``; ``why_not`` says which one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.workspace import Workspace
from ..kernels import codes
from ..kernels.extension import MissingKernels, available, chosen
from ..kernels.views import OperatorView, PenaltyView, ProblemView
from ..operators import identity_scale
from ..problem import Problem
from ..risk import loss_of_rows


def view(problem: Problem, workspace: Workspace | None = None) -> ProblemView | None:
    """Return the compiled description of a problem, ``None`` when a part has none."""
    return _explain(problem, workspace)[0]


def compiled_view(problem: Problem, workspace: Workspace | None = None) -> ProblemView:
    """Return the compiled description of a problem that is known to have one."""
    made, reason = _explain(problem, workspace)
    if made is None or made.native is None:
        raise MissingKernels(f"this problem does not run compiled: {reason or chosen().reason}")
    return made


def why_not(problem: Problem, workspace: Workspace | None = None) -> str | None:
    """Return what keeps a problem from running compiled, in words."""
    return _explain(problem, workspace)[1] if available() else chosen().reason


def _explain(
    problem: Problem, workspace: Workspace | None
) -> tuple[ProblemView | None, str | None]:
    return (workspace or Workspace()).once(_build, problem)


def _build(problem: Problem) -> tuple[ProblemView | None, str | None]:
    if problem.f1 is not None:
        return None, "f1 has no compiled form"
    f2 = loss_of_rows(problem.f2, Has.KERNEL)
    if f2 is None:
        rows = loss_of_rows(problem.f2)
        part = type(problem.f2 if rows is None else rows.loss).__name__
        return None, f"the loss {part} has no compiled form"
    if not f2.rows.has_view:
        return None, "rows of float16 have no compiled form"
    columns = 1 if f2.n_outputs is None else f2.n_outputs
    penalties = []
    blocks = (("h1", problem.h1, problem.shape1), ("h2", problem.h2, problem.shape2))
    for name, h, shape in blocks:
        made = penalty_view(h, shape[0], columns, problem.dtype)
        if made is None:
            return None, f"the penalty {name} ({type(h).__name__}) has no compiled form"
        penalties.append(made)
    operators = []
    for name, A, shape in (("A1", problem.A1, problem.shape1), ("A2", problem.A2, problem.shape2)):
        made_op = operator_view(A, problem.dtype, shape[0])
        if made_op is None:
            return None, f"the operator {name} ({type(A).__name__}) has no sparse form"
        operators.append(made_op)
    b = np.zeros((problem.shape_dual[0], columns), problem.dtype)
    if problem.b is not None:
        b[:] = problem.b.reshape(b.shape)
    return ProblemView(f2.view, penalties[0], penalties[1], operators[0], operators[1], b), None


def operator_view(A: Any, dtype: Any, n_columns: int) -> OperatorView | None:
    """Return an operator as a scaled identity or in CSR form both ways."""
    none, empty = np.empty(0, np.int32), np.empty(0, dtype)
    nothing = (none, none, empty, none, none, empty)
    if A is None:
        return OperatorView(codes.NOTHING, 0, n_columns, 0.0, *nothing)
    is_matrix: bool = sparse.issparse(A)
    scale = None if is_matrix else identity_scale(A)
    if scale is not None:
        return OperatorView(codes.SCALED_IDENTITY, n_columns, n_columns, scale, *nothing)
    if not is_matrix and not offers(A, Has.SPARSE):
        return None
    forward = sparse.csr_array(A if is_matrix else A.tosparse())
    if not forward.has_canonical_format:
        forward = forward.copy()
        forward.sum_duplicates()
    backward = sparse.csr_array(forward.T)
    n_rows, _ = forward.shape
    return OperatorView(
        codes.SPARSE, n_rows, n_columns, 1.0, *_parts(forward, dtype), *_parts(backward, dtype)
    )


def _parts(M: Any, dtype: Any) -> tuple[Array, Array, Array]:
    return M.indptr.astype(np.int32), M.indices.astype(np.int32), M.data.astype(dtype)


def penalty_view(penalty: Any, n_rows: int, columns: int, dtype: Any) -> PenaltyView | None:
    """Return the terms of a penalty on ``n_rows`` rows; no penalty is no term."""
    terms = [] if penalty is None else compiled_terms(penalty, n_rows)
    return None if terms is None else terms_view(terms, n_rows, columns, dtype)


def terms_view(terms: list[Any], n_rows: int, columns: int, dtype: Any) -> PenaltyView:
    """Return terms on consecutive rows as one penalty."""
    per_row = [term.per_row() for term in terms]
    per_entry = columns > 1 and any(
        numbers[0].size != term.size > 0 for term, numbers in zip(terms, per_row, strict=True)
    )
    width = columns if per_entry else 1
    numbers = np.zeros((4, n_rows * width))
    numbers[2], numbers[3] = -np.inf, np.inf
    starts, first_group = [0], [0]
    group_starts: list[int] = []
    group_stops: list[int] = []
    group_weights: list[float] = []
    for term, own in zip(terms, per_row, strict=True):
        start, stop = starts[-1], starts[-1] + term.size
        for row, values in enumerate(own):
            each = width > 1 and values.size == term.size
            numbers[row, start * width : stop * width] = (
                np.repeat(values, width) if each else values
            )
        sizes, weights = term.groups()
        if sizes.size:
            ends = start + np.cumsum(sizes)
            group_starts += (ends - sizes).tolist()
            group_stops += ends.tolist()
            group_weights += weights.tolist()
        starts.append(stop)
        first_group.append(len(group_weights))
    kinds = np.array([term.kind for term in terms], np.int64)
    l1, l2, lo, hi = (np.ascontiguousarray(row, dtype=dtype) for row in numbers)
    return PenaltyView(
        n_rows,
        kinds,
        np.array(starts, np.int64),
        l1,
        l2,
        lo,
        hi,
        per_entry,
        np.array(first_group, np.int64),
        np.array(group_starts, np.int64),
        np.array(group_stops, np.int64),
        np.array(group_weights, dtype),
        np.array([term.number() for term in terms], dtype),
    )
