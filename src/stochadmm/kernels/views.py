"""Problems as plain arrays, the only thing compiled loops see.

Blocks are two-dimensional there, (rows, outputs) with one output for vectors, contiguous and of
the data's float type. A part without a compiled description makes the view ``None``. Each view
hands its arrays to the extension once, where every shape, type and index is checked; loops then
take ``native``, which is ``None`` where there is no extension.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from ..base.immutable import field_values
from ..base.protocols import Array
from .extension import available, core


@dataclass(frozen=True, eq=False)
class View:
    """Arrays and numbers, and what the extension made of them."""

    made_by: ClassVar[str]
    native: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        made = getattr(core(), self.made_by)(self) if available() else None
        object.__setattr__(self, "native", made)

    def __reduce__(self) -> Any:  # copies and other processes make their own
        held = field_values(self)
        return type(self), tuple(held[f.name] for f in fields(self) if f.init)


@dataclass(frozen=True, eq=False)
class DataView(View):
    """Rows, targets and loss; dense rows are in ``X``, CSR rows in the three arrays."""

    made_by = "Data"
    n_rows: int
    n_features: int
    outputs: int
    is_sparse: bool
    X: Array
    indptr: Array
    indices: Array
    data: Array
    y: Array
    weight: Array
    offset: Array
    intercept: bool
    loss: str
    p0: float
    p1: float


@dataclass(frozen=True, eq=False)
class PenaltyView(View):
    """Terms on consecutive rows; numbers per row, or per entry when ``per_entry``."""

    made_by = "Penalty"
    n_rows: int
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


@dataclass(frozen=True, eq=False)
class OperatorView(View):
    """A scaled identity, or a matrix and its transpose in CSR form."""

    made_by = "Operator"
    kind: int
    n_rows: int
    n_columns: int
    scale: float
    indptr: Array
    indices: Array
    data: Array
    t_indptr: Array
    t_indices: Array
    t_data: Array


@dataclass(frozen=True, eq=False)
class ProblemView(View):
    """The parts of a problem for a compiled loop; f1 is absent."""

    made_by = "Problem"
    f: DataView
    h1: PenaltyView
    h2: PenaltyView
    A1: OperatorView
    A2: OperatorView
    b: Array


def csr_parts(X: Any) -> tuple[Array, Array, Array, Array]:
    """Return an empty dense matrix, row pointers, columns and values of a CSR matrix."""
    pointers, indices = X.indptr, X.indices
    if pointers.dtype != indices.dtype or indices.dtype not in (np.int32, np.int64):
        pointers, indices = pointers.astype(np.int64), indices.astype(np.int64)
    return np.empty(0, X.dtype), pointers, indices, X.data
