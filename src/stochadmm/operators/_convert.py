"""From what users have to an operator."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import CompleteOperator, Operator
from ._matrices import Identity, Matrix, Wrapped, identity_scale


def as_operator(obj: Any, name: str = "structure", n_columns: int | None = None) -> Operator:
    """Return ``obj`` as an operator.

    Parameters
    ----------
    obj : operator, ndarray, SciPy sparse, LinearOperator, PyLops operator, or None
        Operators are returned as they are. None is the identity, and needs ``n_columns``.
    name : str
        What the error messages call it.
    n_columns : int, optional
        Number of columns it must have.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import as_operator
    >>> as_operator(np.ones((2, 3))).shape
    (2, 3)
    >>> as_operator(None, n_columns=4)
    Identity(n=4, scale=1.0)
    """
    operator = _convert(obj, name, n_columns)
    if n_columns is not None and operator.shape[1] != n_columns:
        raise ValueError(
            f"{name} has {operator.shape[1]} columns, expected {n_columns}: "
            "one per coefficient, the intercept not counted"
        )
    return operator


def simplest(A: Operator) -> Operator:
    """Return a multiple of the identity as `Identity`, whatever it is made of; others as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Matrix, simplest
    >>> simplest(Matrix(-2.0 * np.eye(3)))
    Identity(n=3, scale=-2.0)
    """
    rows, columns = A.shape
    known = identity_scale(A) is not None
    if known or rows != columns or rows == 0 or not offers(A, Has.SPARSE):
        return A
    matrix = sparse.csr_array(cast(CompleteOperator, A).tosparse())
    diagonal = matrix.diagonal()
    scale = float(diagonal[0])
    if scale == 0 or matrix.count_nonzero() != rows or not (diagonal == scale).all():
        return A
    return Identity(rows, scale=scale)


def _convert(obj: Any, name: str, n_columns: int | None) -> Operator:
    if obj is None:
        if n_columns is None:
            raise ValueError(f"{name} is None; give an operator, or n_columns for the identity")
        return Identity(n_columns)
    members = ("shape", "matvec", "rmatvec")
    if has_members(obj, *members, "norm2"):
        return obj  # type: ignore[no-any-return]
    if sparse.issparse(obj) or isinstance(obj, (np.ndarray, list)):
        try:
            return Matrix(obj)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    if has_members(obj, *members):
        return Wrapped(obj)
    raise TypeError(
        f"{name} must be an operator, a matrix, a sparse matrix or a LinearOperator, "
        f"got {type(obj).__name__}"
    )
