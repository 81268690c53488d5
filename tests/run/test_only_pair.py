"""Constraints that leave one pair, or one x2: it is the answer, and proved to be."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa

PENALTIES = {"none": None, "l1": sa.L1(0.1), "box": sa.Box(-5.0, 5.0), "l2": sa.ElasticNet(0.1)}


def _problem(seed, h1, h2, loss="squared", outputs=(), f1=None, more=0, loose=False):
    """Return a problem whose constraint holds at one pair only, and the pair."""
    rng = np.random.default_rng(seed)
    p, d = 2, 3
    x1, x2 = rng.standard_normal((p, *outputs)), rng.standard_normal((d, *outputs))
    A1, A2 = rng.standard_normal((p + d + more, p)), rng.standard_normal((p + d + more, d))
    if loose:  # x1 may move along (1, 1)
        A1 = np.c_[A1[:, 0], -A1[:, 0]]
    X, y = rng.standard_normal((20, d)), rng.standard_normal((20, *outputs))
    if loss == "logistic":
        f2 = sa.FiniteSum(sa.Logistic(), X, np.sign(y))
    else:
        f2 = sa.FiniteSum(sa.Squared(), X, y)
    made = sa.Problem(f2, f1=f1, h1=h1, h2=h2, A1=A1, A2=A2, b=A1 @ x1 + A2 @ x2)
    return made, sa.Pair(x1, x2)


@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("h2", ["none", "l1"])
@pytest.mark.parametrize("h1", PENALTIES)
def test_the_only_pair_is_found_and_certified(h1, h2, loss, more):
    problem, pair = _problem(len(h1), PENALTIES[h1], PENALTIES[h2], loss, more=more)
    found = sa.minimize(problem)
    assert found.status is sa.Status.CONVERGED
    assert found.relative_gap <= 1e-10
    np.testing.assert_allclose(found.x2, pair.x2, atol=1e-9)
    assert found.objective - found.gap <= problem.objective(pair)
    assert found.kkt_residual <= 1e-6


class _Quadratic:
    lipschitz = 1.0

    def value(self, x):
        return 0.5 * float(np.vdot(x, x))

    def gradient(self, x):
        return x


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "linearized-admm"])
@pytest.mark.parametrize(
    "more",
    [{"outputs": (2,)}, {"f1": _Quadratic()}, {"loose": True}],
    ids=["two outputs", "f1", "x1 is loose"],
)
def test_so_it_is_for_several_outputs_smooth_functions_and_a_loose_first_block(more, solver):
    problem, pair = _problem(7, None, sa.L1(0.1), **more)
    found = sa.minimize(problem, solver)
    assert found.status is sa.Status.CONVERGED
    np.testing.assert_allclose(found.x2, pair.x2, atol=1e-9)


def test_a_constraint_without_a_pair_is_refused():
    problem, _ = _problem(3, sa.L1(0.1), None)
    assert problem.b is not None
    impossible = sa.Problem(
        problem.f2,
        h1=problem.h1,
        A1=np.vstack([problem.A1.tosparse().toarray(), [[0, 0]]]),
        A2=np.vstack([problem.A2.tosparse().toarray(), [[0, 0, 0]]]),
        b=np.append(problem.b, 1.0),
    )
    with pytest.raises(ValueError, match="has no solution"):
        sa.minimize(impossible, max_passes=20)


def test_a_pair_outside_of_a_domain_never_converges():
    problem, _ = _problem(3, sa.Box(100.0, 200.0), None)
    assert sa.minimize(problem, max_passes=20).status is not sa.Status.CONVERGED
