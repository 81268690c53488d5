"""Rows, targets and loss of a finite sum as the view that compiled passes take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..kernels.extension import available
from ..kernels.views import DataView, csr_parts

if TYPE_CHECKING:
    from .finite_sum import FiniteSum


def dense_view(f2: FiniteSum, columns: Array) -> DataView:
    """Return targets, weights and loss of a finite sum with other columns, in float64.

    ``columns`` takes the place of the rows; an intercept is one of them.
    """
    none = np.empty(0)
    y, weight, offset = (
        none if a is None else np.ascontiguousarray(a, dtype=np.float64)
        for a in (f2.y, f2.weight, f2.offset)
    )
    loss: Any = f2.loss
    name, p0, p1 = loss.kernel
    X = np.ascontiguousarray(columns, dtype=np.float64)
    return DataView(
        len(X),
        X.shape[1],
        1,
        False,
        X,
        none,
        none,
        none,
        y.reshape(-1, 1),
        weight,
        offset,
        False,
        str(name),
        float(p0),
        float(p1),
    )


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


def joint_view(f2: FiniteSum) -> DataView:
    """Return all outputs as a single one, in float64: every target is a row of ``kron(X, I)``."""
    outputs = f2.n_outputs or 1
    X = f2.X.toarray() if f2.storage == "csr" else f2.X
    if f2.intercept:
        X = np.column_stack([X, np.ones(f2.n_terms)])
    none = np.empty(0)
    weight = none if f2.weight is None else np.repeat(f2.weight, outputs).astype(np.float64)
    offset = none if f2.offset is None else f2.offset.astype(np.float64).ravel()
    loss: Any = f2.loss
    name, p0, p1 = loss.kernel
    return DataView(
        f2.n_terms * outputs,
        X.shape[1] * outputs,
        1,
        False,
        np.kron(X.astype(np.float64), np.eye(outputs)),
        none,
        none,
        none,
        f2.y.astype(np.float64).reshape(-1, 1),
        weight,
        offset,
        False,
        str(name),
        float(p0),
        float(p1),
    )


def data_view(f2: FiniteSum) -> DataView:
    """Return the rows of a finite sum; nothing is copied."""
    dtype = f2.dtype
    n, outputs = f2.n_terms, 1 if f2.n_outputs is None else f2.n_outputs
    y = np.ascontiguousarray(f2.y, dtype=dtype).reshape(n, -1)
    none = np.empty(0, dtype)
    weight, offset = (none if a is None else a for a in (f2.weight, f2.offset))
    loss: Any = f2.loss
    name, p0, p1 = loss.kernel
    X, indptr, indices, entries = (
        csr_parts(f2.X) if f2.storage == "csr" else (f2.X, none, none, none)
    )
    return DataView(
        n,
        f2.n_features,
        outputs,
        f2.storage == "csr",
        X,
        indptr,
        indices,
        entries,
        y,
        weight,
        offset,
        f2.intercept,
        str(name),
        float(p0),
        float(p1),
    )
