"""Limits of time and memory hold inside of steps, not only between them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.clock import Deadline
from stochadmm.forms.structure import gram

MEGABYTE = 1 << 20


def test_sparse_rows_of_many_tied_columns_are_not_copied_as_dense_ones():
    rng = np.random.default_rng(0)
    n, d = 400, 200_000
    X = sparse.random_array((n, d), density=1e-4, rng=rng, format="csr")
    y = X @ np.ones(d) + rng.standard_normal(n)
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(d), on_structure=sa.L1(0.01)
    )
    tracemalloc.start()
    try:
        result = sa.minimize(problem, max_seconds=1.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.info["route"] != "tied-newton" and np.isfinite(result.objective)
    # a dense copy alone takes 640 MB
    assert peak <= 20 * 8 * (X.nnz + d) + 500 * MEGABYTE
    with pytest.raises(sa.solvers.Unsuitable, match="dense matrices of its rows would take"):
        sa.minimize(problem, "tied-newton")


def test_an_epoch_of_sdca_ends_with_its_time_and_counts_what_it_did():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 30)), rng.standard_normal(200)
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(30), on_structure=sa.L1(0.1)
    )
    method = sa.solvers.SDCAADMM(batch_size=1)
    plain, limited, late = (next(sa.iterate(problem, method)) for _ in range(3))
    draws = [np.random.default_rng(1) for _ in range(3)]
    limited.deadline, late.deadline = Deadline.after(1e6), Deadline.after(0.0)
    for state, rng in zip((plain, limited, late), draws, strict=True):
        method.epoch(problem, state, rng)
    np.testing.assert_array_equal(plain.x.x2, limited.x.x2)
    assert plain.n_passes == limited.n_passes > late.n_passes


@pytest.mark.parametrize("shape", [(40, 30), (300, 20), (5, 200)])
@pytest.mark.parametrize("density", [0.05, 1.0])
def test_the_gram_matrix_of_a_structure_is_the_same_however_it_is_made(shape, density):
    S = sparse.random_array(shape, density=density, rng=np.random.default_rng(0), format="csr")
    np.testing.assert_allclose(gram(S).toarray(), (S.T @ S).toarray(), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", [sa.Squared(), sa.Logistic(), sa.Poisson()])
def test_a_start_that_overflows_gives_a_status_and_no_warnings(loss):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 4)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    y = np.abs(y) if isinstance(loss, sa.Poisson) else y
    problem = sa.Problem.linear(loss, X, y, on_coefficients=sa.L1(0.1))
    result = sa.minimize(problem, "acc-sadmm", start=np.full(4, 1e300), max_passes=20)
    assert not result.converged or result.gap <= 1e-6 * result.objective
