"""The rank of sparse matrices, against dense decompositions."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.linear_algebra.rank import rank


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
