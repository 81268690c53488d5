"""The rank of sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


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
