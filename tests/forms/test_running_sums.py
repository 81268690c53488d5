"""Differences along a line are undone by running sums; other structures are not taken for such."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.forms.running_sums import RunningSums
from stochadmm.forms.structure import Structure


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_running_sums_undo_the_adjoint_of_weighted_differences(order):
    rng = np.random.default_rng(order)
    weights = sparse.diags_array(2.0 ** rng.integers(-3, 4, 50 - order))
    D = sparse.csr_array(weights @ sa.Differences(50, order).tosparse())
    sums, mu = RunningSums.of(D), rng.standard_normal((50 - order, 2))
    g = D.T @ mu
    largest = np.abs(mu).max() * 50.0**order
    np.testing.assert_allclose(sums.apply_transposed(g), mu, rtol=0, atol=1e-14 * largest)
    assert (sums.largest_transposed(np.abs(g)) >= np.abs(mu) - 1e-14 * largest).all()
    N = sums.null_basis().toarray()
    np.testing.assert_allclose(N.T @ N, np.eye(order), atol=1e-13)
    assert np.abs(D @ N).max() < 1e-12


def test_a_residual_is_absorbed_as_by_the_pseudo_inverse():
    rng = np.random.default_rng(0)
    D = sparse.csr_array(sa.Differences(30, 2).tosparse())
    mask = np.ones(28, dtype=bool)
    solver = Structure(D).solver(mask)
    r = rng.standard_normal(30)
    by_pinv = np.linalg.pinv(D.toarray().T) @ r
    np.testing.assert_allclose(solver.absorb(r), by_pinv, atol=1e-10 * np.abs(by_pinv).max())
    for _ in range(20):  # any residual of these sizes is absorbed by at most so much
        some = r * rng.choice([-1.0, 1.0], 30)
        assert (np.abs(solver.absorb(some)) <= solver.absorbed(np.abs(r)) * (1 + 1e-9)).all()


def test_other_structures_are_not_taken_for_differences_along_a_line():
    triangle = sparse.csr_array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])
    for D in (triangle, sa.GridDifferences((4, 4)).tosparse(), sparse.eye_array(4), -triangle[:0]):
        assert RunningSums.of(D) is None
    assert RunningSums.of(triangle[:2]).order == 1
