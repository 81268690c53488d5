"""Structures whose factor is full: graphs without small separators."""

import numpy as np
from scipy import sparse

import stochadmm as sa
from stochadmm._newton.factor import factored_structure
from stochadmm.forms.structure import fills_in


def tangle(d, rng):
    """Return edges of every node to two earlier ones."""
    return [(i, int(rng.integers(i))) for i in range(1, d) for _ in range(2)]


def test_systems_of_a_full_factor_are_solved_by_iterations():
    rng = np.random.default_rng(0)
    d = 2500
    edges = sa.Incidence(tangle(d, rng), d).tosparse()
    S = sparse.csr_array(sparse.hstack([edges, sparse.csr_array((edges.shape[0], 2))]))
    assert fills_in(sparse.csr_array(edges.T @ edges))
    found = factored_structure(S, np.ones(S.shape[0], bool), np.ones(S.shape[0]), np.ones(d + 2))
    L = S.T @ S + sparse.diags_array(found.shift)
    right = rng.standard_normal((d + 2, 3))
    np.testing.assert_allclose(L @ found.solve(right), right, atol=1e-6)
    direct = right[:, 0] - right[:d, 0].mean()
    direct[d:] = 0.0
    np.testing.assert_allclose(S.T @ found.absorb(direct), direct, atol=1e-10)


def test_a_grid_is_factored():
    side = 40
    pairs = [(i, i + 1) for i in range(side**2 - 1) if (i + 1) % side]
    pairs += [(i, i + side) for i in range(side**2 - side)]
    S = sa.Incidence(pairs, side**2).tosparse()
    assert not fills_in(sparse.csr_array(S.T @ S))


def test_few_rows_on_a_graph_without_small_separators_are_certified():
    rng = np.random.default_rng(0)
    n, d = 40, 2500
    X = rng.standard_normal((n, d))
    y = X[:, :50].sum(axis=1) + rng.standard_normal(n)
    l1 = {"on_structure": sa.L1(0.05), "on_coefficients": sa.L1(0.05)}
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Incidence(tangle(d, rng), d), intercept=True, **l1
    )
    found = sa.minimize(problem, stop=sa.Gap(1e-5), max_passes=2000)
    assert found.info["route"] == "tied-newton"
    assert found.converged
