"""The rank and the kernel of sparse matrices, and the rank of a few columns of many rows."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from ..base.protocols import Array

MOST_COLUMNS = 1000
"""Of a dense decomposition that takes their cube; the rank of more is not looked for."""


def rank(A: Any) -> int:
    """Return the rank of a sparse matrix.

    A column with a single entry adds one to it and takes its row along, a row with a single entry
    its column, as nothing else can cancel it. What is left is small for the identity, differences
    and forests, and goes to a dense decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from stochadmm.linear_algebra.rank import rank
    >>> triangle = sparse.csr_array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    >>> rank(triangle), rank(triangle[:2])
    (2, 2)
    """
    entries = sparse.coo_array(A)
    rows, columns = entries.coords
    kept = entries.data != 0
    n_rows = entries.shape[0]
    near: list[set[int]] = [set() for _ in range(sum(entries.shape))]
    for row, column in zip(rows[kept].tolist(), (n_rows + columns[kept]).tolist(), strict=True):
        near[row].add(column)
        near[column].add(row)
    found = 0
    single = [line for line, crossing in enumerate(near) if len(crossing) == 1]
    while single:
        line = single.pop()
        if not near[line]:  # it went with another one
            continue
        (other,) = near[line]
        found += 1
        for crossing in near[other]:
            near[crossing].discard(other)
            if len(near[crossing]) == 1:
                single.append(crossing)
        near[other] = set()
    rest = np.flatnonzero([bool(crossing) for crossing in near])
    left, right = rest[rest < n_rows], rest[rest >= n_rows] - n_rows
    if not left.size:
        return found
    core = sparse.csr_array(entries)[left][:, right].toarray()
    return found + int(np.linalg.matrix_rank(core))


def kernel(A: Any) -> Array:
    """Return an orthonormal basis of the vectors w with ``A w = 0``, A sparse.

    Rows without dependences are completed to a square matrix by random ones: its sparse factors
    give a basis in the time of a few products. Others go to a dense decomposition.
    """
    d = A.shape[1]
    rows: Any = sparse.csc_array(A, dtype=np.float64)
    count = d - rows.shape[0]
    if rows.shape[0] == 0:
        return np.eye(d)
    if count < 0 or rank(rows) < rows.shape[0]:
        return np.asarray(linalg.null_space(rows.toarray()))
    if count == 0:
        return np.zeros((d, 0))
    more = np.random.default_rng(0).standard_normal((count, d))
    factors = splu(sparse.vstack([rows, sparse.csc_array(more)], format="csc"))
    ends = np.concatenate([np.zeros((rows.shape[0], count)), np.eye(count)])
    return np.asarray(np.linalg.qr(factors.solve(ends))[0])


def rank_of_columns(X: Any, basis: Any, intercept: bool) -> int:
    """Return the rank of ``[1, X B]``, without the column of ones where there is no intercept.

    A few rows have it, if none of their dependences is broken by another row: rows that break one
    join the few. With more than `MOST_COLUMNS` columns and rows, no dependences are looked for.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.linear_algebra.rank import rank_of_columns
    >>> one_hot = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    >>> rank_of_columns(one_hot, np.eye(3), intercept=True)
    3
    """
    n, count = X.shape[0], basis.shape[1] + intercept
    if min(n, count) > MOST_COLUMNS or not n * count:
        return int(min(n, count))
    rng, eps = np.random.default_rng(0), float(np.finfo(X.dtype).eps)
    few = np.sort(rng.choice(n, min(n, count + 10), replace=False))
    while True:
        M = _design(X[few], basis, intercept)
        size = np.linalg.norm(M, axis=0)
        size[size == 0] = 1.0
        M /= size
        noise = eps * max(M.shape)
        R = np.linalg.qr(M if M.shape[0] >= count else M.T, mode="r")
        pivots = np.abs(np.diag(R))
        full = pivots.min() > 10.0 * noise * pivots.max()  # 10: pivots are no singular values
        if full and (M.shape[0] >= count or M.shape[0] == n):
            return int(min(M.shape))
        # R instead of M: all left singular vectors of many rows would be a square matrix of them
        _, values, right = np.linalg.svd(R if M.shape[0] >= count else M)
        found = int(np.count_nonzero(values > noise * values.max()))
        if few.size == n or found == count:
            return found
        v = rng.standard_normal(count - found) @ right[found:]
        # every entry of v has an error of the size of the largest, also those that should be zero
        broken = _broken(X, basis, intercept, v / size, noise * np.linalg.norm(v) / size)
        broken[few] = False
        broken = np.flatnonzero(broken)
        if not broken.size:
            return found
        more = rng.choice(broken, min(broken.size, few.size), replace=False)
        few = np.sort(np.concatenate([few, more]))


def _design(X: Any, basis: Any, intercept: bool) -> Array:
    """Return ``[1, X B]`` of a few rows, in double precision."""
    M: Any = X @ basis
    dense = np.array(cast(Any, M).toarray() if sparse.issparse(M) else M, dtype=np.float64)
    return np.column_stack([np.ones(len(dense)), dense]) if intercept else dense


def _broken(X: Any, basis: Any, intercept: bool, v: Array, noise: Array) -> Array:
    """Return the rows of ``[1, X B]`` whose product with v is more than the noise in v."""
    w, constant = np.asarray(basis @ v[int(intercept) :]), v[0] if intercept else 0.0
    reach = np.asarray(abs(basis) @ noise[int(intercept) :])
    least = noise[0] if intercept else 0.0
    out = np.empty(X.shape[0], dtype=bool)
    step = 65536 if sparse.issparse(X) else 4096  # no second copy of X
    for start in range(0, len(out), step):
        rows = X[start : start + step]
        sums = abs(rows) @ reach + least
        out[start : start + step] = np.abs(rows @ w + constant) > 10.0 * sums
    return out
