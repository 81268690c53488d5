"""The sparse group lasso as one penalty: formulas, compiled prox, minima, certificates."""

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.capabilities import Has, declared
from stochadmm.forms.compiled import penalty_view
from stochadmm.kernels import _numpy
from stochadmm.testing import check_penalty

SIZES = [2, 3, 1]


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", [(6,), (6, 3)])
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"weights": [1.0, 0.0, 2.0]},
        {"l1_weights": [1, 0, 2, 1, 0, 1]},
        {"order": [5, 0, 2, 4, 1, 3]},
    ],
)
def test_the_penalty_passes_the_public_checks(ratio, shape, extra):
    check_penalty(sa.SparseGroupNorm(0.7, SIZES, ratio, **extra), shape)


def test_the_prox_is_the_minimizer_that_clarabel_finds():
    v = np.random.default_rng(0).normal(scale=2.0, size=6)
    u = cp.Variable(6)
    norms = cp.norm2(u[:2]) + cp.norm2(u[2:5]) + cp.norm2(u[5:])
    h = 0.8 * (0.6 * norms + 0.4 * cp.norm1(u))
    cp.Problem(cp.Minimize(h + cp.sum_squares(u - v) / (2 * 0.5))).solve(solver="CLARABEL")
    found = sa.SparseGroupNorm(0.8, SIZES, l1_ratio=0.4).prox(v, 0.5)
    # the objective is 2-strongly convex and solved to 1e-8: its minimizer is known to 1e-4
    np.testing.assert_allclose(found, u.value, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_and_numpy_prox_agree_with_the_penalty(outputs, dtype):
    penalty = sa.SparseGroupNorm(0.7, SIZES, 0.4, l1_weights=[1, 0, 2, 1, 0, 1])
    v = np.random.default_rng(1).normal(size=(6, outputs)).astype(dtype)
    view = penalty_view(penalty, 6, outputs, np.dtype(dtype))
    out = np.empty_like(v)
    _numpy.prox(view, v, 0.9, out)
    np.testing.assert_allclose(out, penalty.prox(v, 0.9), rtol=1e-5)
    if view.native is not None:
        from stochadmm.kernels.extension import core

        again = np.empty_like(v)
        core().prox(view.native, v, 0.9, again)
        np.testing.assert_allclose(again, out, rtol=1e-5)


def test_groups_that_are_not_consecutive_have_no_compiled_form():
    assert Has.TERMS in declared(sa.SparseGroupNorm(1.0, SIZES))
    assert Has.TERMS not in declared(sa.SparseGroupNorm(1.0, [1, 1], order=[1, 0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"l1_ratio": 1.5}, "l1_ratio must lie between 0 and 1"),
        ({"l1_weights": [1.0]}, "l1_weights have shape"),
        ({"weights": [1.0]}, "weights have shape"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sa.SparseGroupNorm(1.0, SIZES, **arguments)


@pytest.mark.parametrize("loss", [sa.Squared(), sa.Logistic()])
@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
def test_minima_are_those_of_clarabel_and_bounds_hold(loss, solver):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 6))
    y = X @ [1.0, -1.0, 0, 0, 0, 0.5] + rng.standard_normal(80)
    y = np.where(y > 0, 1.0, -1.0) if isinstance(loss, sa.Logistic) else y
    w = cp.Variable(6)
    z = X @ w
    fit = (
        cp.sum(cp.logistic(cp.multiply(-y, z)))
        if isinstance(loss, sa.Logistic)
        else 0.5 * cp.sum_squares(z - y)
    )
    norms = cp.norm2(w[:2]) + cp.norm2(w[2:5]) + cp.norm2(w[5:])
    best = cp.Problem(cp.Minimize(fit / 80 + 0.1 * (0.6 * norms + 0.4 * cp.norm1(w)))).solve(
        solver="CLARABEL"
    )
    penalty = sa.SparseGroupNorm(0.1, SIZES, l1_ratio=0.4)
    problem = sa.Problem.linear(loss, X, y, on_coefficients=penalty)
    result = sa.minimize(problem, solver, stop=sa.Gap(1e-6), max_passes=200)
    assert result.objective - result.gap <= best + 1e-7
    assert result.objective == pytest.approx(best, abs=1e-4 * best)
    if solver == "auto":
        assert result.relative_gap <= 1e-6
        np.testing.assert_allclose(result.coef, w.value, atol=1e-3)
        np.testing.assert_array_equal(result.coef == 0, np.abs(w.value) < 1e-5)
