"""A basis of columns that no penalty sees: their units and how nearly they depend are arbitrary.

Whatever is made of squares of such columns, a Gram matrix or a Hessian, loses twice the digits
that their condition number has: of a column in units of 1e-7 beside an intercept, or of two that
differ by 1e-8 of their size, nothing is left, and no certificate made of the same squares would
miss it. In an orthonormal basis of the same space, found from the columns themselves, it is the
same problem with nothing to lose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..base.protocols import Array


@dataclass(frozen=True)
class FreeBasis:
    """Columns ``Q = X T`` of mean square one, as many as before: zeros for those that depend."""

    columns: Array
    """Q."""
    out: Array
    """T: coefficients of X are T times those of Q."""
    into: Array
    """Coefficients of Q from those of X."""


def free_basis(X: Array) -> FreeBasis | None:
    """Return an orthonormal basis of columns, None where they serve as they are.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, -1.0, 2.0, 0.0])
    >>> free_basis(np.column_stack([x, np.ones(4)])) is None
    True
    >>> basis = free_basis(np.column_stack([x, 1e-9 * np.arange(4)]))
    >>> np.allclose(basis.columns.T @ basis.columns / 4, np.eye(2))
    True
    """
    if not X.size:
        return None
    values = linalg.eigvalsh(X.T @ X)
    if values[0] > 1e-2**2 * values[-1]:  # squares of these columns lose four digits of sixteen
        return None
    size = np.sqrt(np.einsum("ij,ij->j", X, X))
    size = np.where(size > 0, size, 1.0)
    U, s, Wt = linalg.svd(X / size, full_matrices=False)
    n, f = X.shape
    Q, out, into = np.zeros((n, f)), np.zeros((f, f)), np.zeros((f, f))
    k = int(np.count_nonzero(s > 1e-13 * s[0]))  # some hundred units of rounding
    root = np.sqrt(float(n))
    Q[:, :k] = root * U[:, :k]
    out[:, :k] = root * (Wt[:k].T / s[:k]) / size[:, None]
    into[:k] = s[:k, None] * Wt[:k] * size / root
    return FreeBasis(Q, out, into)
