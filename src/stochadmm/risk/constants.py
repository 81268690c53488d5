"""Lipschitz constants of mean losses: of the mean, and of the mean over one run of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ..base.protocols import Array
from ..data import CSR
from .sampling import Runs

if TYPE_CHECKING:
    from .finite_sum import FiniteSum

GRAM_COLUMNS = 128
"""Columns up to which one Gram matrix is cheaper than a Lanczos iteration."""


def mean_constant(f2: FiniteSum) -> float:
    """Return Lf, a bound on the constant of the mean, within about one percent."""
    d, curvatures = f2.n_columns, f2.row_curvatures
    if f2.n_terms == 1 or not curvatures.any():
        return float(f2.loss.curvature_bound * curvatures.max())
    if d <= GRAM_COLUMNS:
        top = float(np.linalg.eigvalsh(f2.gram())[-1]) * (1 + 1e-9)
    else:
        # A'A and AA' have the same largest eigenvalue; ARPACK keeps twenty vectors of its side
        wide = d > 10 * f2.n_terms
        side, of = (f2.n_terms, _row_product(f2)) if wide else (d, f2.gram_product)
        start = np.ones(side, dtype=np.float64)
        product = LinearOperator((side, side), matvec=of, dtype=np.float64)
        top = 1.01 * float(eigsh(product, k=1, v0=start, tol=3e-3, return_eigenvectors=False)[0])
    mean = float(curvatures.astype(np.float64).mean())
    return float(f2.loss.curvature_bound * min(top, mean))


def _row_product(f2: FiniteSum) -> Callable[[Array], Array]:
    """Return the product with ``Q^(1/2) A A' Q^(1/2) / n``, rows on both sides."""
    root = np.ones(f2.n_terms) if f2.row_weight is None else np.sqrt(f2.row_weight)

    def product(v: Array) -> Array:
        u = root * np.ravel(v)
        image = f2.rows.matvec(f2.rows.rmatvec(u.astype(f2.dtype))) + f2.intercept * u.sum()
        return np.asarray(root * image / f2.n_terms, dtype=np.float64)

    return product


def mean_row_curvature(f2: FiniteSum) -> float:
    """Return the mean constant of the terms without the loss's bound; one read."""
    return float(np.mean(f2.row_curvatures, dtype=np.float64))


def run_constant(f2: FiniteSum, runs: Runs) -> float:
    """Return a bound on the largest constant of the mean over one run of rows.

    By the largest absolute row sum of the run's Gram matrix, which is at least its norm.
    """
    if runs.n_runs == runs.n_rows:
        return f2.lipschitz_max
    largest = 0.0
    edges = np.arange(runs.n_runs + 1) * runs.n_rows // runs.n_runs
    # sums over the runs of a block are dense for dense rows only
    dense = f2.storage != CSR
    width = 8 * f2.n_features if dense else 1 + f2.n_entries // f2.n_terms
    per_block = max(1, (1 << 19) // (width * runs.length))
    for first in range(0, runs.n_runs, per_block):
        largest = max(largest, _largest_sum(f2, edges[first : first + per_block + 1]))
    return float(min(f2.loss.curvature_bound * largest, f2.lipschitz_max))


def _largest_sum(f2: FiniteSum, edges: Array) -> float:
    """Return the largest row sum of a run's Gram matrix, over consecutive runs."""
    rows, sizes = slice(int(edges[0]), int(edges[-1])), np.diff(edges)
    root = None if f2.row_weight is None else np.sqrt(f2.row_weight[rows])
    block = abs(f2.rows.take(rows).X)
    which = np.repeat(np.arange(sizes.size), sizes)
    ones = np.ones(which.size, dtype=f2.dtype)
    member = sparse.csr_array((ones, (which, np.arange(which.size))))
    # |G|_inf <= max_i sum_k |a_i|.|a_k|, with equality for rows of one sign
    if f2.storage == CSR:
        block = block if root is None else sparse.diags_array(root) @ block
        near = np.asarray(block.multiply((member @ block)[which]).sum(axis=1)).ravel()
    else:
        block = block if root is None else block * root[:, None]
        near = np.einsum("ij,ij->i", block, (member @ block)[which])
    if f2.intercept:
        own = np.ones(which.size) if root is None else root
        near = near + own * (member @ own)[which]
    return float((near / sizes[which]).max())
