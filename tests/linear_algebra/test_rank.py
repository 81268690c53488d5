"""The rank of sparse matrices, against dense decompositions."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.linear_algebra.rank import kernel, rank, rank_of_columns


@pytest.mark.parametrize("seed", range(40))
def test_a_rank_is_that_of_a_dense_decomposition(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 14, 2)
    kept = rng.random(shape) < rng.uniform(0.05, 0.6)
    A = np.where(kept, rng.integers(-2, 3, shape), 0).astype(float)
    if shape[0] > 3:
        A[-1] = A[0] + A[1]
    expected = int(np.linalg.matrix_rank(A)) if A.size else 0
    assert rank(sparse.csr_array(A)) == expected


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_row_of_differences_counts(order):
    D = sparse.eye_array(300, format="csr")
    for _ in range(order):
        D = sparse.csr_array(sa.Differences(D.shape[0]).tosparse() @ D)
    some = np.random.default_rng(order).random(D.shape[0]) < 0.8
    assert rank(D[np.flatnonzero(some)]) == some.sum()


def test_entries_that_are_stored_zeros_are_none():
    A = sparse.csr_array((np.array([0.0, 2.0]), np.array([0, 1]), np.array([0, 1, 2])))
    assert rank(A) == 1


def test_degrees_of_freedom_are_the_dimension_of_the_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 9))
    cycle = np.eye(9) - np.roll(np.eye(9), 1, axis=1)
    y = X @ [1, 1, 1, 0, 0, 0, 2, 2, 2] + 0.1 * rng.standard_normal(60)
    model = sa.GeneralizedLassoRegressor(0.05, operator=cycle).fit(X, y)
    tied = np.flatnonzero(np.abs(cycle @ model.coef_) <= 1e-9)
    assert 0 < tied.size < 9
    assert model.dof_ == 9 - np.linalg.matrix_rank(cycle[tied]) + 1


@pytest.mark.parametrize("seed", range(6))
def test_a_kernel_is_orthonormal_and_complete(seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-1, 2, (rng.integers(0, 9), 8)).astype(float)
    A = np.concatenate([A, A[:1]]) if seed % 2 else A  # a dependence
    N = kernel(sparse.csr_array(A))
    assert N.shape[1] == 8 - (np.linalg.matrix_rank(A) if A.size else 0)
    np.testing.assert_allclose(N.T @ N, np.eye(N.shape[1]), atol=1e-13)
    np.testing.assert_allclose(A @ N, 0.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_the_rank_of_merged_columns_is_that_of_the_whole_design(seed):
    """Against ``numpy.linalg.matrix_rank`` of ``[1, X B]``; dependences that rare rows break."""
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(3, 400)), int(rng.integers(1, 12)), int(rng.integers(0, 14))
    X = rng.standard_normal((n, d)) if seed % 2 else np.eye(d)[rng.integers(0, d, n)]
    if d > 2:
        X[:, 0] = X[:, 1] + X[:, 2]
        X[rng.integers(0, n), 0] += seed % 3  # seldom, or never, not the sum
    B = rng.integers(-1, 2, (d, k)).astype(float)
    for intercept in (False, True):
        M = np.column_stack([np.ones(n), X @ B]) if intercept else X @ B
        expected = np.linalg.matrix_rank(M) if M.size else 0
        for rows in (X, sparse.csr_array(X)):
            assert rank_of_columns(rows, sparse.csc_array(B), intercept) == expected


def two_factors(rng):
    """Full one-hot factors of 6 and 5 levels: 11 columns that with the intercept have rank 10."""
    a, b = np.eye(6)[rng.integers(0, 6, 150)], np.eye(5)[rng.integers(0, 5, 150)]
    X = np.column_stack([a, b])
    return X, X @ rng.standard_normal(11) + rng.standard_normal(150)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_full_factors_beside_an_intercept_have_the_aic_of_least_squares(kind, standardize):
    X, y = two_factors(np.random.default_rng(0))
    model = sa.GeneralizedLassoRegressor(0.0, standardize=standardize, tol=1e-8).fit(kind(X), y)
    whole = np.column_stack([np.ones(150), X])
    residual = y - whole @ np.linalg.lstsq(whole, y)[0]
    likelihood = -75 * (np.log(2 * np.pi * (residual @ residual) / 150) + 1)
    assert model.dof_ == np.linalg.matrix_rank(whole) == 10
    assert model.aic_ == pytest.approx(-2 * likelihood + 2 * 10, rel=1e-6)
    assert model.bic_ == pytest.approx(-2 * likelihood + np.log(150) * 10, rel=1e-6)


def test_paths_count_ranks_of_merged_columns():
    rng = np.random.default_rng(1)
    X, y = two_factors(rng)
    path = sa.FusedLassoRegressor(l1_ratio=0.5).path(X, y, alphas=8)
    for coef, dof in zip(path.coefs, path.dof, strict=True):
        levels = [X[:, coef == value].sum(axis=1) for value in np.unique(coef[coef != 0])]
        # neighbors with one value are one level; equal values that do not touch would be two
        assert dof == np.linalg.matrix_rank(np.column_stack([np.ones(150), *levels]))
    assert path.dof[-1] <= 10


def test_rows_that_count_nothing_add_no_rank():
    X = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 5.0]])
    model = sa.FusedLassoRegressor(0.0, l1_ratio=1.0, unpenalized=[0, 1])
    model.fit(X, np.array([1.0, 2.0, 2.0, 9.0]), sample_weight=[1.0, 1.0, 1.0, 0.0])
    assert model.dof_ == 2


def test_a_matrix_of_low_rank_counts_independent_columns_of_the_data():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 3))
    X = np.column_stack([X, X[:, 0] - X[:, 1]])  # four columns of rank three
    W = np.outer(rng.standard_normal(4), rng.standard_normal(5))
    model = sa.SparseLowRankRegressor(1e-3, l1_ratio=0.0, tol=1e-8).fit(X, X @ W)
    assert model.rank_ == 1
    assert model.dof_ == 5 + (3 + 5 - 1)


def test_columns_that_depend_are_told_by_a_few_of_many_rows():
    n = 60_000
    codes = np.random.default_rng(0).integers(0, 3, n)
    X = sparse.csr_array(np.eye(3)[codes])
    basis = sparse.csc_array(np.concatenate([np.eye(3), -np.eye(3)[:, :2]], axis=1))
    tracemalloc.start()
    assert rank_of_columns(X, basis, intercept=False) == 3
    assert rank_of_columns(X[:, :2], np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), True) == 3
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * 20  # a decomposition of all rows, with a square factor, is far more
