"""Matrices and energies of the x2 step: same numbers for every storage, no dense copies."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.risk.metrics import column_energies, row_scores, run_energies


def rows(storage, n=53, d=7, outputs=3, weighted=True, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.4, rng.standard_normal((n, d)), 0).astype(dtype)
    weight = rng.uniform(0.5, 2, n) if weighted else None
    Y = rng.standard_normal((n, outputs)) if outputs > 1 else rng.standard_normal(n)
    return sa.FiniteSum(sa.Squared(), storage(X), Y, weight, intercept=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_runs", [1, 5, 53])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_energies_of_columns_are_means_of_squares(storage, n_runs, weighted):
    f2 = rows(storage, weighted=weighted)
    dense = np.column_stack([rows(np.asarray).X, np.ones(f2.n_terms)])
    weight = np.ones(f2.n_terms) if f2.row_weight is None else f2.row_weight
    squares = weight[:, None] * dense**2
    np.testing.assert_allclose(column_energies(f2), squares.mean(axis=0))
    edges = np.arange(n_runs + 1) * f2.n_terms // n_runs
    parts = [squares[a:b].mean(axis=0) for a, b in itertools.pairwise(edges)]
    np.testing.assert_allclose(run_energies(f2, n_runs), np.max(parts, axis=0))
    energy = squares.mean(axis=0)
    np.testing.assert_allclose(row_scores(f2, energy), squares @ (1 / energy))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_energies_of_several_outputs_make_no_dense_copy_of_the_rows(storage):
    n, d = 2000, 1000
    X = sparse.random_array((n, d), density=1e-3, random_state=0, format="csr")
    data = X.toarray() if storage is np.asarray else X
    f2 = sa.FiniteSum(sa.Squared(), data, np.ones((n, 2)))
    tracemalloc.start()
    try:
        run_energies(f2, 50)
        row_scores(f2, np.ones(d))
        column_energies(f2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * d / 5
