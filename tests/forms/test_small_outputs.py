"""The small route with several outputs: those that nothing joins are problems of their own."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.kernels.extension import available

pytestmark = pytest.mark.skipif(not available(), reason="the small route needs compiled kernels")


def rows(outputs=3, seed=0, n=50, d=6):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * [1, 5, 0.2, 1, 1, 3] + [0, 2, 0, 0, 0, 0]
    W = np.repeat(rng.standard_normal((2, outputs)), d // 2, axis=0)
    return X, X @ W + rng.standard_normal((n, outputs)) + 3.0


PARTS = {
    "l1": lambda d: {"on_coefficients": sa.L1(0.1)},
    "elastic": lambda d: {"on_coefficients": sa.Separable(0.1, 0.05)},
    "chain+l1": lambda d: {
        "structure": sa.Differences(d),
        "on_structure": sa.L1(0.2),
        "on_coefficients": sa.L1(0.05),
    },
    "chain+bounds": lambda d: {
        "structure": sa.Differences(d),
        "on_structure": sa.L1(0.1),
        "on_coefficients": sa.Separable(0.0, 0.0, -0.1, 0.4),
    },
}


@pytest.mark.parametrize("loss", [sa.Squared(), sa.Huber(1.0), sa.Logistic(), sa.SquaredHinge()])
@pytest.mark.parametrize("kind", list(PARTS))
@pytest.mark.parametrize("more", ["plain", "weights and offset", "float32", "csr"])
def test_outputs_are_problems_of_their_own(loss, kind, more):
    X, Y = rows()
    beside = {}
    if type(loss) in (sa.Logistic, sa.SquaredHinge):
        Y = np.where(np.median(Y, axis=0) < Y, 1.0, -1.0)
    if more == "weights and offset":
        rng = np.random.default_rng(5)
        beside = {"sample_weight": rng.uniform(0, 2, len(X))}
        beside["offset"] = 0.1 * rng.standard_normal(Y.shape)
    if more == "float32":
        X, Y = X.astype(np.float32), Y.astype(np.float32)
    if more == "csr":
        X = sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))

    def fitted(outputs):
        own = dict(beside)
        if "offset" in own:
            own["offset"] = own["offset"][:, outputs]
        problem = sa.Problem.linear(
            loss, X, Y[:, outputs], intercept=True, **PARTS[kind](X.shape[1]), **own
        )
        return sa.minimize(problem)

    together = fitted(slice(None))
    assert together.status is sa.Status.CONVERGED and together.info["route"] == "small"
    apart = [fitted(k) for k in range(Y.shape[1])]
    np.testing.assert_array_equal(together.coef, np.column_stack([one.coef for one in apart]))
    np.testing.assert_array_equal(together.intercept, [one.intercept for one in apart])
    total = sum(one.objective for one in apart)
    precision = np.finfo(X.dtype).eps
    np.testing.assert_allclose(together.objective, total, rtol=100 * precision)
    assert together.gap <= sum(one.gap for one in apart) + 1000 * precision * total


@pytest.mark.parametrize("kind", list(PARTS))
def test_bounds_of_several_outputs_are_below_the_optimum(kind):
    X, Y = rows(seed=3)
    n, d = X.shape
    problem = sa.Problem.linear(sa.Squared(), X, Y, intercept=True, **PARTS[kind](d))
    result = sa.minimize(problem)
    W, b = cp.Variable((d, Y.shape[1])), cp.Variable((1, Y.shape[1]))
    fit = cp.sum_squares(X @ W + np.ones((n, 1)) @ b - Y) / (2 * n)
    differences, size = cp.sum(cp.abs(cp.diff(W, axis=0))), cp.sum(cp.abs(W))
    penalty, bounds = {
        "l1": (0.1 * size, []),
        "elastic": (0.1 * size + 0.025 * cp.sum_squares(W), []),
        "chain+l1": (0.2 * differences + 0.05 * size, []),
        "chain+bounds": (0.1 * differences, [W >= -0.1, W <= 0.4]),
    }[kind]
    best = cp.Problem(cp.Minimize(fit + penalty), bounds)
    best.solve(solver="CLARABEL")
    assert result.info["route"] == "small"
    assert result.objective - result.gap <= best.value * (1 + 1e-7)
    np.testing.assert_allclose(result.objective, best.value, rtol=1e-7)
    np.testing.assert_allclose(result.coef, W.value, atol=1e-4)


def test_numbers_of_single_entries_reach_their_output():
    X, Y = rows()
    strength = np.random.default_rng(1).uniform(0.01, 0.5, (X.shape[1], Y.shape[1]))
    strength[0, 0] = 0.0

    def fitted(Y, strength):
        return sa.minimize(
            sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.L1(1.0, strength))
        )

    together = fitted(Y, strength)
    apart = [fitted(Y[:, k], strength[:, k]).coef for k in range(Y.shape[1])]
    np.testing.assert_array_equal(together.coef, np.column_stack(apart))


def test_a_nuclear_norm_joins_outputs_beyond_the_small_route():
    X, Y = rows()
    problem = sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.Nuclear(0.3))
    result = sa.minimize(problem)
    assert result.status is sa.Status.CONVERGED and result.info["route"] != "small"
    with pytest.raises(ValueError, match="rows of its own"):
        sa.minimize(problem, "small")


@pytest.mark.parametrize(
    "model",
    [
        sa.LassoRegressor(0.1),
        sa.FusedLassoRegressor(0.1, standardize=True),
        sa.TrendFilterRegressor(0.1, positive=True),
        sa.OverlappingGroupRegressor(0.1),
        sa.SparseGroupLassoRegressor(0.1, groups=[[0, 1, 2], [3, 4, 5]]),
        sa.LassoRegressorCV(alphas=5, cv=3),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:.*a smaller one may score better")
def test_a_column_of_targets_is_fitted_as_a_vector(model):
    X, Y = rows(1)
    coef = np.copy(model.fit(X, Y[:, 0]).coef_)
    vector = model.predict(X)
    column = model.fit(X, Y)
    assert column.coef_.shape == (1, X.shape[1]) and column.predict(X).shape == Y.shape
    np.testing.assert_array_equal(column.coef_[0], coef)
    np.testing.assert_allclose(column.predict(X)[:, 0], vector, rtol=1e-12)


def test_a_path_of_several_outputs_shares_its_hessian_and_changes_nothing():
    X, Y = rows()
    path = sa.FusedLassoRegressor().path(X, Y, alphas=[0.5, 0.1, 0.02])
    for alpha, coef in zip(path.alphas, path.coefs, strict=True):
        alone = sa.FusedLassoRegressor(alpha).fit(X, Y)
        np.testing.assert_allclose(coef, alone.coef_, rtol=1e-9, atol=1e-10)


def test_many_outputs_of_large_rows_take_another_route():
    X, Y = rows()
    limits = sa.solvers.get("small")().limits
    small = type(limits)(products=X.size * X.shape[1] * Y.shape[1] - 1)
    problem = sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.L1(0.1))
    assert limits.why_not(problem) is None
    assert small.why_not(problem) == "outputs are many"
