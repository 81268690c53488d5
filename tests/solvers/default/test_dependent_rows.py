"""Structures whose rows depend on each other: shapes, repeated rows, few directions."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa
from stochadmm.certificates import certify

LOSSES = {"poisson": sa.Poisson(8.0), "logistic": sa.Logistic(), "huber": sa.Huber(0.5)}
PENALTIES = {"cone": sa.NonNegative(), "box": sa.Box(-0.3, 0.2), "l1": sa.L1(0.02)}


def _rows(seed, loss, n=40, d=10):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    t = 0.7 * X @ rng.standard_normal(d) + rng.standard_normal(n)
    if loss == "poisson":
        return X, rng.poisson(np.exp(np.clip(t, -2, 2))).astype(float)
    return X, np.sign(t) if loss == "logistic" else t


def _shapes(d):
    return sa.VStack([sa.Differences(d), sa.Differences(d, order=2)])


@pytest.mark.parametrize("solver", ["auto", "sampled-newton"])
@pytest.mark.parametrize("loss", LOSSES)
def test_coefficients_that_rise_faster_and_faster_are_found(loss, solver):
    X, y = _rows(0, loss)
    problem = sa.Problem.linear(
        LOSSES[loss], X, y, structure=_shapes(10), on_structure=sa.NonNegative(), intercept=True
    )
    found = sa.minimize(problem, solver)
    assert found.status is sa.Status.CONVERGED
    assert np.diff(found.coef).min() >= -1e-12
    assert np.diff(found.coef, 2).min() >= -1e-12


def _optimum(loss, penalty, X, y, A):
    """Return the optimal value by interior points."""
    w, c = cp.Variable(X.shape[1]), cp.Variable()
    z, image = X @ w + c, A @ w
    value = {
        "poisson": lambda: cp.sum(cp.exp(z) - cp.multiply(y, z)),
        "logistic": lambda: cp.sum(cp.logistic(cp.multiply(-y, z))),
        "huber": lambda: 0.5 * cp.sum(cp.huber(z - y, 0.5)),
    }[loss]() / len(y)
    inside = {"cone": [image >= 0], "box": [image >= -0.3, image <= 0.2], "l1": []}[penalty]
    price = 0.02 * cp.norm1(image) if penalty == "l1" else 0.0
    return cp.Problem(cp.Minimize(value + price), inside).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_half_the_rank_do_not_keep_a_run_from_its_end(seed, loss, penalty):
    X, y = _rows(seed, loss)
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, 5)) @ rng.standard_normal((5, 10))
    problem = sa.Problem.linear(
        LOSSES[loss], X, y, structure=A, on_structure=PENALTIES[penalty], intercept=True
    )
    found = sa.minimize(problem)
    assert found.status is sa.Status.CONVERGED
    assert found.objective == pytest.approx(_optimum(loss, penalty, X, y, A), rel=1e-5, abs=1e-6)


def test_a_point_is_moved_to_the_nearest_one_inside_and_not_to_zero():
    X, y = _rows(0, "huber")
    problem = sa.Problem.linear(
        LOSSES["huber"], X, y, structure=_shapes(10), on_structure=sa.NonNegative()
    )
    inside = np.linspace(0.0, 1.0, 10) ** 2
    outside = inside + 1e-4 * np.random.default_rng(0).standard_normal(10)
    found = certify(problem, sa.Pair(np.zeros(17), outside))
    # the mean is free, and put where it is best
    assert np.abs(np.diff(found.point.x2) - np.diff(outside)).max() <= 1e-3
    assert np.isfinite(found.objective)
