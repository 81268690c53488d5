"""Operators made of operators: stacked, padded, scaled, composed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Capabilities, Has, offers
from ..base.immutable import as_float, set_field, store
from ..base.protocols import Array
from ._base import LinearMap, csr_parts, sparse_norm2
from ._convert import as_operator
from ._graphs import Incidence
from ._matrices import Matrix


class _Combination(LinearMap):
    """Has a sparse form when all its parts have one."""

    _shape: tuple[int, int]

    def _parts(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _build(self) -> Any:
        raise NotImplementedError

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the operator offers: a sparse form when all its parts have one."""
        known = all(offers(part, Has.SPARSE) for part in self._parts())
        return frozenset({Has.SPARSE} if known else ())

    def tosparse(self) -> Any:
        """Return the operator as a new CSR array in float64; every part must have one."""
        return sparse.csr_array(self._build())


@dataclass(frozen=True, eq=False)
class VStack(_Combination):
    """Operators on the same vector, one above the other.

    Pairs with `stochadmm.penalties.Stacked`.

    Parameters
    ----------
    operators : sequence
        Anything `as_operator` takes, all with the same number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity, Incidence, VStack
    >>> A = VStack([Incidence([(0, 1)], n_nodes=2), Identity(2)])
    >>> A @ np.array([3.0, 1.0])
    array([2., 3., 1.])
    """

    operators: Sequence[Any]

    def __post_init__(self) -> None:
        operators = tuple(as_operator(op, name="operators") for op in self.operators)
        if not operators:
            raise ValueError("VStack needs at least one operator")
        widths = [op.shape[1] for op in operators]
        if len(set(widths)) > 1:
            raise ValueError(f"operators to stack have different numbers of columns: {widths}")
        set_field(self, "operators", operators)
        set_field(self, "_shape", (sum(op.shape[0] for op in operators), widths[0]))

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def norm2(self) -> float:
        total = float(sum(op.norm2 for op in self.operators))
        return min(total, sparse_norm2(self.tosparse())) if offers(self, Has.SPARSE) else total

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        x = as_float(x)
        out = np.empty((self.shape[0], *x.shape[1:]), dtype=x.dtype) if out is None else out
        start = 0
        for op in self.operators:
            stop = start + op.shape[0]
            op.matvec(x, out[start:stop])
            start = stop
        return out

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        u = as_float(u)
        total, start = None, 0
        for op in self.operators:
            stop = start + op.shape[0]
            part = op.rmatvec(u[start:stop])
            total = part if total is None else total + part
            start = stop
        assert total is not None
        return store(total, out)

    def _parts(self) -> tuple[Any, ...]:
        return tuple(self.operators)

    def csr_parts(self) -> tuple[Array, Array, Array]:
        found = [csr_parts(op) for op in self.operators]
        pointers, columns, values = zip(*found, strict=True)
        before = np.cumsum([0, *(int(p[-1]) for p in pointers)])
        rest = [p[1:] + first for p, first in zip(pointers, before, strict=False)]
        return np.concatenate([[0], *rest]), np.concatenate(columns), np.concatenate(values)

    def _build(self) -> Any:
        return sparse.vstack([op.tosparse() for op in self.operators])


@dataclass(frozen=True, eq=False)
class PadColumns(_Combination):
    """An operator with empty columns on its right, for coordinates it does not see.

    Parameters
    ----------
    A : operator
        Anything `as_operator` takes.
    n_extra : int
        Number of empty columns.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity, PadColumns
    >>> A = PadColumns(Identity(2), 1)
    >>> A @ np.array([1.0, 2.0, 9.0]), A.rmatvec(np.array([1.0, 2.0]))
    (array([1., 2.]), array([1., 2., 0.]))
    """

    A: Any
    n_extra: int

    def __post_init__(self) -> None:
        set_field(self, "A", as_operator(self.A, name="A"))
        if self.n_extra < 0:
            raise ValueError(f"n_extra must be non-negative, got {self.n_extra}")

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.A.shape[1] + self.n_extra

    @property
    def norm2(self) -> float:
        return float(self.A.norm2)

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        result: Array = self.A.matvec(as_float(x)[: self.A.shape[1]], out)
        return result

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        u = as_float(u)
        width = self.A.shape[1]
        out = np.empty((self.shape[1], *u.shape[1:]), dtype=u.dtype) if out is None else out
        self.A.rmatvec(u, out[:width])
        out[width:] = 0.0
        return out

    def _parts(self) -> tuple[Any, ...]:
        return (self.A,)

    def csr_parts(self) -> tuple[Array, Array, Array]:
        return csr_parts(self.A)

    def _build(self) -> Any:
        matrix = self.A.tosparse()
        triple = (matrix.data, matrix.indices, matrix.indptr)
        return sparse.csr_array(triple, shape=self.shape)


@dataclass(frozen=True, eq=False)
class Scaled(_Combination):
    """An operator times a number.

    Parameters
    ----------
    A : operator
        Anything `as_operator` takes.
    factor : float
        The number.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Differences
    >>> (2.0 * Differences(3)) @ np.array([0.0, 1.0, 3.0])
    array([2., 4.])
    """

    A: Any
    factor: float

    def __post_init__(self) -> None:
        set_field(self, "A", as_operator(self.A, name="A"))
        set_field(self, "factor", float(self.factor))

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape  # type: ignore[no-any-return]

    @property
    def norm2(self) -> float:
        return float(self.A.norm2) * self.factor**2

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        result: Array = self.A.matvec(as_float(x), out)
        return np.multiply(result, self.factor, out=out)

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        result: Array = self.A.rmatvec(as_float(u), out)
        return np.multiply(result, self.factor, out=out)

    def _parts(self) -> tuple[Any, ...]:
        return (self.A,)

    def _build(self) -> Any:
        return self.A.tosparse() * self.factor


@dataclass(frozen=True, eq=False)
class Composed(_Combination):
    """One operator after another, ``A (B x)``.

    Parameters
    ----------
    A, B : operators
        Anything `as_operator` takes; A has as many columns as B has rows.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Differences
    >>> (Differences(3) @ Differences(4)) @ np.array([0.0, 1.0, 4.0, 9.0])
    array([2., 2.])
    """

    A: Any
    B: Any

    def __post_init__(self) -> None:
        set_field(self, "A", as_operator(self.A, name="A"))
        set_field(self, "B", as_operator(self.B, name="B"))
        if self.A.shape[1] != self.B.shape[0]:
            raise ValueError(
                f"cannot compose shapes {self.A.shape} and {self.B.shape}: "
                f"{self.A.shape[1]} columns meet {self.B.shape[0]} rows"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[0], self.B.shape[1]

    @property
    def norm2(self) -> float:
        bound = float(self.A.norm2 * self.B.norm2)
        return min(bound, sparse_norm2(self.tosparse())) if offers(self, Has.SPARSE) else bound

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        result: Array = self.A.matvec(self.B.matvec(x), out)
        return result

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        result: Array = self.B.rmatvec(self.A.rmatvec(u), out)
        return result

    def _parts(self) -> tuple[Any, ...]:
        return self.A, self.B

    def _build(self) -> Any:
        return self.A.tosparse() @ self.B.tosparse()


def tied_rows(A: Any) -> Array:
    """Return the mask of the rows that are edges of infinite weight: exact ties.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity, Incidence, VStack, tied_rows
    >>> tied_rows(VStack([Identity(2), Incidence([(0, 1)], n_nodes=2, weights=[np.inf])]))
    array([False, False,  True])
    """
    if isinstance(A, Incidence):
        return A.tied
    if isinstance(A, VStack):
        return np.concatenate([tied_rows(part) for part in A.operators])
    if isinstance(A, Composed) and tied_rows(A.B).any():
        raise ValueError("an edge of infinite weight is mixed with others; give it a finite one")
    if isinstance(A, (PadColumns, Composed, Scaled)):
        return tied_rows(A.A)
    return np.zeros(A.shape[0], dtype=bool)


def row_sizes(A: Any) -> Array | None:
    """Return the largest size of an entry of every row, None where there is no matrix.

    Examples
    --------
    >>> from stochadmm.operators import Matrix, row_sizes
    >>> row_sizes(Matrix([[1.0, -3.0], [0.5, 0.0]]))
    array([3. , 0.5])
    """
    if isinstance(A, PadColumns):
        return row_sizes(A.A)
    if isinstance(A, VStack):
        sizes = [row_sizes(part) for part in A.operators]
        known = [size for size in sizes if size is not None]
        return np.concatenate(known) if len(known) == len(sizes) else None
    if isinstance(A, Matrix) and isinstance(A.A, np.ndarray):
        return np.asarray(np.abs(A.A).max(axis=1, initial=0.0), dtype=np.float64)
    if not offers(A, Has.SPARSE):
        return None
    matrix = sparse.csr_array(A.tosparse())
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # it may share the user's arrays
        matrix.sum_duplicates()
    largest, filled = np.zeros(matrix.shape[0]), np.flatnonzero(np.diff(matrix.indptr))
    largest[filled] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[filled])
    return largest


def rows_times(scale: Array, A: Any) -> Any:
    """Return an operator with its rows multiplied by numbers, as sparse as it was.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity, rows_times
    >>> rows_times(np.array([2.0, 3.0]), Identity(2)) @ np.ones(2)
    array([2., 3.])
    """
    if isinstance(A, PadColumns):
        return PadColumns(rows_times(scale, A.A), A.n_extra)
    if isinstance(A, Matrix) and isinstance(A.A, np.ndarray):
        dense = scale[:, None] * A.A
        # few entries: a product without BLAS, whose fused sums leave rounding where ties are exact
        few = np.count_nonzero(dense) <= dense.size // 4
        return Matrix(sparse.csr_array(dense) if few else dense)
    return Matrix(sparse.csr_array(sparse.diags_array(scale) @ sparse.csr_array(A.tosparse())))
