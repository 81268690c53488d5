"""Rows, targets and loss of a finite sum as the view that compiled passes take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.validation import is_sparse
from ..kernels.extension import available
from ..kernels.views import DataView, csr_parts

if TYPE_CHECKING:
    from .finite_sum import FiniteSum


def data_view(f2: FiniteSum) -> DataView:
    """Return the rows of a finite sum; nothing is copied."""
    return _view(f2, f2.X, f2.y, f2.weight, f2.offset, f2.n_outputs or 1, f2.intercept)


def dense_view(f2: FiniteSum, columns: Array) -> DataView:
    """Return targets, weights and loss of a finite sum with other columns, in float64.

    ``columns`` takes the place of the rows; an intercept is one of them.
    """
    return _view(f2, np.ascontiguousarray(columns, np.float64), f2.y, f2.weight, f2.offset)


def joint_view(f2: FiniteSum) -> DataView:
    """Return all outputs as a single one, in float64: every target is a row of ``kron(X, I)``."""
    outputs = f2.n_outputs or 1
    X = f2.X.toarray() if is_sparse(f2.X) else f2.X
    if f2.intercept:
        X = np.column_stack([X, np.ones(f2.n_terms)])
    weight = None if f2.weight is None else np.repeat(f2.weight, outputs)
    offset = None if f2.offset is None else f2.offset.ravel()
    return _view(f2, np.kron(X.astype(np.float64), np.eye(outputs)), f2.y, weight, offset)


def _view(
    f2: FiniteSum,
    X: Any,
    y: Array,
    weight: Array | None,
    offset: Array | None,
    outputs: int = 1,
    intercept: bool = False,
) -> DataView:
    """Return a view in the type of X."""
    n, d = X.shape
    none = np.empty(0, X.dtype)
    weight, offset = (
        none if a is None else np.ascontiguousarray(a, X.dtype) for a in (weight, offset)
    )
    dense, indptr, indices, data = csr_parts(X) if is_sparse(X) else (X, none, none, none)
    y = np.ascontiguousarray(y, X.dtype).reshape(n, -1)
    matrix = (n, d, outputs, is_sparse(X), dense, indptr, indices, data)
    name, p0, p1 = f2.loss.kernel
    return DataView(*matrix, y, weight, offset, intercept, str(name), float(p0), float(p1))


def pass_view(f2: FiniteSum) -> DataView | None:
    """Return the rows for compiled passes, every index checked; None where these are not.

    Passes over a single output with a known loss are compiled, where there is an extension that
    may run.
    """
    plain = (
        f2.rows.has_view and f2.n_outputs is None and (f2.weight is None or f2.weight.ndim == 1)
    )
    return data_view(f2) if plain and offers(f2.loss, Has.KERNEL) and available() else None


def in_single_outputs(f2: FiniteSum) -> bool:
    """Say whether compiled passes know the loss of each output by itself: a sum of them is f2."""
    if f2.compiled:
        return True
    each = f2.y.ndim == 2 and (f2.weight is None or f2.weight.ndim == 1)
    return each and f2.rows.has_view and offers(f2.loss, Has.KERNEL) and available()


def single_views(f2: FiniteSum) -> list[DataView]:
    """Return the rows with the targets of one output after the other; X is not copied."""
    if f2.n_outputs is None:
        return [f2.view]
    every = data_view(f2)
    return [
        replace(
            every,
            outputs=1,
            y=np.ascontiguousarray(every.y[:, [k]]),
            offset=np.ascontiguousarray(every.offset[:, k]) if every.offset.size else every.offset,
        )
        for k in range(f2.n_outputs)
    ]
