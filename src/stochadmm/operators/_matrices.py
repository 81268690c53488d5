"""Operators that are a matrix: given, scaled identity, or known by its products alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Capabilities, Has, declared, fact, has_members, require
from ..base.immutable import as_float, set_field, store
from ..base.protocols import Array
from ..base.validation import as_csr, refuse_masked
from ._base import LinearMap, dense_norm2, estimated_norm2, sparse_norm2


@dataclass(frozen=True, eq=False)
class Identity(LinearMap):
    """A multiple of the identity.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    scale : float
        The multiple.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity
    >>> Identity(2, scale=-1.0) @ np.array([1.0, 2.0])
    array([-1., -2.])
    """

    n: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(f"n must be non-negative, got {self.n}")

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    @property
    def norm2(self) -> float:
        return float(self.scale) ** 2

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        return np.asarray(np.multiply(as_float(x), float(self.scale), out=out))

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        return self.matvec(u, out)

    def csr_parts(self) -> tuple[Array, Array, Array]:
        return np.arange(self.n + 1), np.arange(self.n), np.full(self.n, float(self.scale))

    def tosparse(self) -> Any:
        """Return the operator as a CSR array in float64."""
        pointers, columns, values = self.csr_parts()
        return sparse.csr_array((values, columns, pointers), shape=(self.n, self.n))


def identity_scale(A: object) -> float | None:
    """Return s where an operator is ``s`` times the identity and s is not 0; None otherwise.

    Examples
    --------
    >>> from stochadmm.operators import Differences, Identity, identity_scale
    >>> identity_scale(Identity(3, scale=-1.0)), identity_scale(Differences(3))
    (-1.0, None)
    """
    return (float(A.scale) or None) if isinstance(A, Identity) else None


Apply = Callable[[Array], Any]
"""A product with one array."""


class _InMemory(LinearMap):
    """Holds the matrix and its transpose for products with either dtype."""

    _forms: dict[np.dtype[Any], tuple[Any, Any]]

    @property
    def _wide(self) -> Any:
        return self._forms[np.dtype(np.float64)][0]


@dataclass(frozen=True, eq=False)
class Matrix(_InMemory):
    """A matrix in memory, dense or sparse.

    It is not copied, so it must not be changed afterwards; of a float32 matrix a float64 copy is
    made for products with float64 vectors. A float64 matrix takes float32 vectors as they are,
    sums in float64 and rounds once.

    Parameters
    ----------
    A : ndarray or SciPy sparse
        Two-dimensional and real; sparse ones are taken as CSR.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Matrix
    >>> A = Matrix(np.array([[1.0, 1.0], [0.0, 2.0]]))
    >>> A @ np.array([1.0, 2.0]), A.rmatvec(np.array([1.0, 0.0]))
    (array([3., 4.]), array([1., 1.]))
    """

    A: Any

    def __post_init__(self) -> None:
        given: Any = self.A
        in_csr = has_members(given, "tocsr")
        if in_csr:
            A: Any = as_csr(given, "the matrix")
        else:
            refuse_masked(given, "the matrix")
            A = np.asarray(given)
        if A.ndim != 2:
            raise ValueError(f"Matrix needs two dimensions, got shape {A.shape}")
        if A.dtype.kind not in "biuf":
            raise ValueError(f"Matrix needs real numbers, got dtype {A.dtype}")
        if A.dtype not in (np.float32, np.float64):
            A = A.astype(np.float64)
        if not np.isfinite(A.data if in_csr else A).all():
            raise ValueError("Matrix contains NaN or infinity")
        set_field(self, "A", A)
        wide = A.astype(np.float64, copy=False)
        forms = {np.dtype(np.float64): (wide, wide.T), np.dtype(np.float32): (A, A.T)}
        set_field(self, "_forms", forms)

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape  # type: ignore[no-any-return]

    @property
    def norm2(self) -> float:
        """An upper bound on the squared spectral norm.

        Exact up to rounding for small matrices, certain for sparse ones; for large dense ones
        an estimate by Lanczos iterations with a margin.
        """
        if sparse.issparse(self.A):
            return sparse_norm2(self._wide)
        return dense_norm2(self.A)

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        x = as_float(x)
        return store((self._forms[x.dtype][0] @ x).astype(x.dtype, copy=False), out)

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        u = as_float(u)
        return store((self._forms[u.dtype][1] @ u).astype(u.dtype, copy=False), out)

    def tosparse(self) -> Any:
        """Return the operator as a CSR array in float64."""
        return sparse.csr_array(self._wide)


@dataclass(frozen=True, eq=False)
class Wrapped(LinearMap):
    """A SciPy or PyLops linear operator: anything with ``shape``, ``matvec`` and ``rmatvec``.

    Matrices go through ``matmat`` and ``rmatmat`` where these exist, column by column otherwise.
    There is no ``tosparse`` unless the object has one.

    Parameters
    ----------
    operator : object
        The operator, on real numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import aslinearoperator
    >>> from stochadmm.operators import Wrapped
    >>> A = Wrapped(aslinearoperator(np.array([[1.0, 2.0], [0.0, 1.0]])))
    >>> A @ np.array([1.0, 1.0])
    array([3., 1.])
    """

    operator: Any

    def __post_init__(self) -> None:
        require(self.operator, "operator", "shape", "matvec", "rmatvec")
        if np.dtype(fact(self.operator, "dtype") or np.float64).kind == "c":
            raise ValueError("Wrapped needs an operator on real numbers, got a complex one")

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.operator.shape
        return int(n_rows), int(n_columns)

    @property
    def norm2(self) -> float:
        return estimated_norm2(self.shape, self.matvec, self.rmatvec)

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What the operator offers: a sparse form when the wrapped object has one."""
        return declared(self.operator) & {Has.SPARSE}

    def tosparse(self) -> Any:
        """Return a CSR array in float64; the wrapped object must offer it."""
        return sparse.csr_array(self.operator.tosparse(), dtype=np.float64)

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        many = self.operator.matmat if has_members(self.operator, "matmat") else None
        return store(_applied(self.operator.matvec, many, as_float(x)), out)

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        many = self.operator.rmatmat if has_members(self.operator, "rmatmat") else None
        return store(_applied(self.operator.rmatvec, many, as_float(u)), out)


def _applied(one: Apply, many: Apply | None, x: Array) -> Array:
    """Return the product with a vector, or with the columns of a matrix, together if possible."""
    if x.ndim == 1:
        result = one(x)
    elif many is not None:
        result = many(x)
    else:
        result = np.column_stack([np.ravel(one(column)) for column in x.T])
    return np.asarray(result).astype(x.dtype, copy=False)
