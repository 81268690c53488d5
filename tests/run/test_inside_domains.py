"""float64 coefficients are inside of the domains of penalties, rows of structures as computed."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.certificates.repair import pulled_inside

D = 9
STRUCTURES = {
    "differences": np.diff(np.eye(D), axis=0),
    "second differences": np.diff(np.eye(D), n=2, axis=0),
    "dense": np.random.default_rng(1).standard_normal((6, D)),
    "stacked": np.vstack([np.diff(np.eye(D), axis=0), np.eye(D)]),
}
DOMAINS = {
    "box": sa.Box(-0.1, 0.3),
    "from above": sa.Separable(l1=0.01, upper=0.13),
    "ball": sa.L2Ball(0.7),
    "not negative": sa.NonNegative(),
}


def problem(structure, domain, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, D))
    y = X @ np.cumsum(rng.standard_normal(D)) + 0.1 * rng.standard_normal(60)
    return sa.Problem.linear(
        sa.Squared(), X, y, structure=STRUCTURES[structure], on_structure=DOMAINS[domain]
    )


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_computed_rows_of_an_answer_are_inside(structure, domain, method):
    for seed in range(2):
        given = problem(structure, domain, seed)
        result = sa.minimize(given, method, stop=1e-6, max_passes=60)
        assert np.isfinite(DOMAINS[domain].value(STRUCTURES[structure] @ result.coef))
        assert np.isfinite(given.penalty(given.feasible(result.pair)))


def test_pulling_inside_keeps_exact_zeros_and_ties():
    structure = sa.VStack([sa.Differences(D), sa.Identity(D)])
    edge = 0.3 - 0.1  # not the number 0.2
    X = np.random.default_rng(0).standard_normal((20, D))
    given = sa.Problem.linear(
        sa.Squared(),
        X,
        X[:, 0],
        structure=structure,
        on_structure=sa.Separable(l1=0.05, lower=-np.inf, upper=edge),
    )
    x2 = np.array([0.0, 0.0, 0.1, 0.1, 0.1, 0.2, 0.2, 0.0, -0.4])
    assert given.penalty(given.feasible(sa.Pair(np.zeros(given.shape1), x2))) == np.inf
    found = pulled_inside(given, x2)
    assert np.isfinite(given.penalty(found))
    np.testing.assert_allclose(found.x2, x2, rtol=1e-14)
    before, after = structure.matvec(x2), structure.matvec(found.x2)
    np.testing.assert_array_equal(before == 0, after == 0)


def test_what_is_further_out_than_rounding_is_not_pulled():
    given = problem("differences", "box", 0)
    assert pulled_inside(given, np.arange(D) * 0.30001) is None
