"""Problems as named tuples of arrays, the only thing compiled loops see.

Blocks are two-dimensional here, (rows, outputs) with one output for vectors, contiguous and of the
data's float type. A part without a compiled description makes the view ``None``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..finite_sum import CSR, FiniteSum
from ..operators import Identity
from ..problem import Problem
from ..protocols import Array
from ..terms import Elementwise, GroupNorms
from . import codes


class DataView(NamedTuple):
    """Rows, targets and loss; dense rows are in ``X``, CSR rows in the three arrays."""

    is_sparse: bool
    X: Array
    indptr: Array
    indices: Array
    data: Array
    y: Array
    weight: Array
    offset: Array
    intercept: bool
    loss: int
    p0: float
    p1: float


class PenaltyView(NamedTuple):
    """Terms on consecutive rows; numbers per row, or per entry when ``per_entry``."""

    kinds: Array
    starts: Array
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    per_entry: bool
    first_group: Array
    group_starts: Array
    group_stops: Array
    group_weights: Array
    variation: Array


class OperatorView(NamedTuple):
    """A scaled identity, or a matrix and its transpose in CSR form."""

    kind: int
    scale: float
    indptr: Array
    indices: Array
    data: Array
    t_indptr: Array
    t_indices: Array
    t_data: Array


class ProblemView(NamedTuple):
    """The parts of a problem for a compiled loop; f1 is absent."""

    f: DataView
    h1: PenaltyView
    h2: PenaltyView
    A1: OperatorView
    A2: OperatorView
    b: Array


def view(problem: Problem) -> ProblemView | None:
    """Return the compiled description of a problem, ``None`` when a part has none."""
    return _explain(problem)[0]


def why_not(problem: Problem) -> str | None:
    """Return the part that keeps a problem from running compiled, in words."""
    return _explain(problem)[1]


def _explain(problem: Problem) -> tuple[ProblemView | None, str | None]:
    cached = problem.__dict__.get("_kernel_view")
    if cached is None:
        cached = _build(problem)
        problem.__dict__["_kernel_view"] = cached
    return cached  # type: ignore[no-any-return]


def _build(problem: Problem) -> tuple[ProblemView | None, str | None]:
    f2 = problem.f2
    if problem.f1 is not None:
        return None, "f1 has no compiled form"
    if not isinstance(f2, FiniteSum) or getattr(f2.loss, "kernel", None) is None:
        part = type(f2.loss).__name__ if isinstance(f2, FiniteSum) else type(f2).__name__
        return None, f"the loss {part} has no compiled form"
    columns = 1 if f2.n_outputs is None else f2.n_outputs
    penalties = []
    for name, shape in (("h1", problem.shape1), ("h2", problem.shape2)):
        part = getattr(problem, name)
        made = penalty_view(part, shape[0], columns, problem.dtype)
        if made is None:
            return None, f"the penalty {name} ({type(part).__name__}) has no compiled form"
        penalties.append(made)
    operators = []
    for name in ("A1", "A2"):
        A = getattr(problem, name)
        made_op = operator_view(A, problem.dtype)
        if made_op is None:
            return None, f"the operator {name} ({type(A).__name__}) has no sparse form"
        operators.append(made_op)
    b = np.zeros((problem.shape_dual[0], columns), problem.dtype)
    if problem.b is not None:
        b[:] = problem.b.reshape(b.shape)
    return ProblemView(
        data_view(f2), penalties[0], penalties[1], operators[0], operators[1], b
    ), None


def data_view(f2: FiniteSum) -> DataView:
    """Return the rows of a finite sum; nothing is copied."""
    dtype = f2.dtype
    n, columns = f2.n_terms, 1 if f2.n_outputs is None else f2.n_outputs
    y = np.ascontiguousarray(f2.y, dtype=dtype).reshape(n, -1)
    weight = np.empty((0, 0), dtype) if f2.weight is None else f2.weight.reshape(n, -1)
    offset = np.empty((0, 0), dtype) if f2.offset is None else f2.offset.reshape(n, columns)
    loss: Any = f2.loss
    code, p0, p1 = loss.kernel
    if f2.storage == CSR:
        # unsigned indices spare the compiled loops the test for negative ones
        unsigned = np.dtype(f"u{f2.X.indices.dtype.itemsize}")
        pointers, indices = f2.X.indptr.view(unsigned), f2.X.indices.view(unsigned)
        rows = (np.empty((0, 0), dtype), pointers, indices, f2.X.data)
    else:
        none = np.empty(0, np.uint32)
        rows = (f2.X, none, none, np.empty(0, dtype))
    return DataView(
        f2.storage == CSR, *rows, y, weight, offset, f2.intercept, int(code), float(p0), float(p1)
    )


def operator_view(A: Any, dtype: Any) -> OperatorView | None:
    """Return an operator as a scaled identity or in CSR form both ways."""
    none, empty = np.empty(0, np.uint32), np.empty(0, dtype)
    if A is None:
        return OperatorView(codes.NOTHING, 0.0, none, none, empty, none, none, empty)
    if isinstance(A, Identity):
        return OperatorView(
            codes.SCALED_IDENTITY, float(A.scale), none, none, empty, none, none, empty
        )
    if not hasattr(A, "tosparse"):
        return None
    forward = sparse.csr_array(A.tosparse())
    backward = sparse.csr_array(forward.T)
    parts = []
    for M in (forward, backward):
        parts += [M.indptr.astype(np.uint32), M.indices.astype(np.uint32), M.data.astype(dtype)]
    return OperatorView(codes.SPARSE, 1.0, *parts)


def penalty_view(penalty: Any, n_rows: int, columns: int, dtype: Any) -> PenaltyView | None:
    """Return the terms of a penalty on ``n_rows`` rows; no penalty is no term."""
    terms: list[Any] | None = []
    if penalty is not None:
        terms = penalty.terms(n_rows) if hasattr(penalty, "terms") else None
    if terms is None:
        return None
    per_entry = columns > 1 and any(
        isinstance(t, Elementwise) and t.size > 0 and t.l1.size != t.size for t in terms
    )
    width = columns if per_entry else 1
    numbers = np.zeros((4, n_rows * width))
    numbers[2], numbers[3] = -np.inf, np.inf
    kinds, starts, first_group, variation = [], [0], [0], []
    group_starts: list[int] = []
    group_stops: list[int] = []
    group_weights: list[float] = []
    for term in terms:
        start, stop = starts[-1], starts[-1] + term.size
        variation.append(0.0)
        if isinstance(term, Elementwise):
            kinds.append(codes.ELEMENTWISE)
            for row, values in enumerate((term.l1, term.l2, term.lo, term.hi)):
                spread = np.repeat(values, width) if values.size == term.size else values
                numbers[row, start * width : stop * width] = spread
        elif isinstance(term, GroupNorms):
            kinds.append(codes.GROUP_NORMS)
            ends = start + np.cumsum(term.sizes)
            group_starts += [int(s) for s in ends - term.sizes]
            group_stops += [int(s) for s in ends]
            group_weights += [float(w) for w in term.weights]
        else:
            kinds.append(codes.TOTAL_VARIATION)
            variation[-1] = term.weight
        starts.append(stop)
        first_group.append(len(group_weights))
    l1, l2, lo, hi = (np.ascontiguousarray(row, dtype=dtype) for row in numbers)
    return PenaltyView(
        np.array(kinds, np.int64), np.array(starts, np.int64), l1, l2, lo, hi, per_entry,
        np.array(first_group, np.int64), np.array(group_starts, np.int64),
        np.array(group_stops, np.int64),
        np.array(group_weights, dtype), np.array(variation, dtype),
    )  # fmt: skip
