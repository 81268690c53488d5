"""Rows, targets and loss of a finite sum as the view that compiled passes take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.views import DataView, csr_parts

if TYPE_CHECKING:
    from .finite_sum import FiniteSum


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
        n, f2.n_features, outputs, f2.storage == "csr", X, indptr, indices, entries, y, weight,
        offset, f2.intercept, str(name), float(p0), float(p1),
    )  # fmt: skip
