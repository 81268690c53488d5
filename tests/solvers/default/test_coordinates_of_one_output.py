"""Sparse rows with one output and many columns: coordinate by coordinate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.kernels.extension import available

cp = pytest.importorskip("cvxpy")
pytestmark = pytest.mark.skipif(not available(), reason="needs the compiled kernels")


def texts(n=120, d=80, seed=0, dtype=np.float64):
    """Return sparse rows of counts, targets that depend on a few columns, and their signs."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.08, rng=rng, format="csr")
    X.data[:] = rng.integers(1, 4, X.nnz)
    w = rng.standard_normal(d) * (rng.random(d) < 0.3)
    y = X @ w + 0.5 * rng.standard_normal(n)
    return sparse.csr_array(X.astype(dtype)), y, np.where(y > 0, 1.0, -1.0)


LOSSES = {
    "squared": (sa.Squared(), lambda z, y: 0.5 * cp.square(z - y)),
    "logistic": (sa.Logistic(), lambda z, y: cp.logistic(-cp.multiply(y, z))),
    "huber": (sa.Huber(0.5), lambda z, y: 0.5 * cp.huber(z - y, 0.5)),
    "poisson": (sa.Poisson(), lambda z, y: cp.exp(z) - cp.multiply(y, z)),
}


def targets(name, y, signs):
    return signs if name == "logistic" else np.floor(np.exp(y / 3)) if name == "poisson" else y


@pytest.mark.parametrize("given", ["plain", "intercept", "weights", "offset", "signs", "ridge"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_optimum_is_that_of_an_interior_point_method(name, given):
    X, y, signs = texts()
    n, d = X.shape
    loss, expression = LOSSES[name]
    y = targets(name, y, signs)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.0, 2.0, n) if given == "weights" else np.ones(n)
    offset = rng.standard_normal(n) if given == "offset" else np.zeros(n)
    options = {
        "intercept": {"intercept": True},
        "weights": {"sample_weight": weight},
        "offset": {"offset": offset},
    }.get(given, {})
    penalty = sa.L1(0.02)
    penalty = penalty + sa.NonNegative() if given == "signs" else penalty
    penalty = sa.ElasticNet(0.02, 0.3) if given == "ridge" else penalty
    problem = sa.Problem.linear(loss, X, y, on_coefficients=penalty, **options)
    found = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9), max_passes=1000)

    w, b = cp.Variable(d), cp.Variable()
    z = X.toarray() @ w + b + offset
    share = 0.3 if given == "ridge" else 1.0
    own = 0.02 * (share * cp.norm1(w) + (1 - share) / 2 * cp.sum_squares(w))
    held = [] if given == "intercept" else [b == 0]
    held += [w >= 0] if given == "signs" else []
    value = cp.sum(cp.multiply(weight / weight.sum(), expression(z, y))) + own
    best = cp.Problem(cp.Minimize(value), held).solve(solver=cp.CLARABEL)
    assert found.converged and found.x2.shape == (d + (given == "intercept"),)
    assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-7)
    assert found.objective - found.gap <= best + 1e-7 * abs(best)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_auto_takes_it_for_sparse_rows_with_many_columns_and_says_so(loss):
    X, y, signs = texts(300, 1200, seed=2)
    problem = sa.Problem.linear(
        LOSSES[loss][0], X, targets(loss, y, signs), on_coefficients=sa.L1(0.01), intercept=True
    )
    found = sa.minimize(problem, stop=1e-8)
    assert found.converged and found.info["route"] == "coordinate-newton"
    other = sa.minimize(problem, sa.Auto(route="working-set"), stop=1e-8, max_passes=1000)
    assert found.objective == pytest.approx(other.objective, rel=1e-7)


def test_dense_rows_and_few_columns_have_other_routes():
    X, y, _ = texts(300, 1200, seed=2)
    few = sa.Problem.linear(sa.Squared(), X[:, :400], y, on_coefficients=sa.L1(0.01))
    dense = sa.Problem.linear(sa.Squared(), X.toarray() + 1.0, y, on_coefficients=sa.L1(0.01))
    for problem in (few, dense):
        assert sa.Auto().choose(problem)[0] != "coordinate-newton"


def test_a_vector_is_a_matrix_of_one_column():
    X, _, signs = texts(seed=3)
    penalty = {"on_coefficients": sa.L1(0.01), "intercept": True}
    vector = sa.Problem.linear(sa.Logistic(), X, signs, **penalty)
    matrix = sa.Problem.linear(sa.Logistic(), X, signs[:, None], **penalty)
    one, other = (sa.minimize(p, "coordinate-newton", stop=1e-10) for p in (vector, matrix))
    np.testing.assert_array_equal(one.x2, other.x2[:, 0])
    assert one.objective == other.objective and one.gap == pytest.approx(other.gap, abs=1e-12)


def test_float32_rows_give_what_float64_rows_do():
    X, _, signs = texts(seed=4)
    wide = sa.Problem.linear(sa.Logistic(), X, signs, on_coefficients=sa.L1(0.01))
    narrow = sa.Problem.linear(
        sa.Logistic(), X.astype(np.float32), signs, on_coefficients=sa.L1(0.01)
    )
    one, other = (sa.minimize(p, "coordinate-newton", stop=1e-5) for p in (wide, narrow))
    assert other.converged and other.x2.dtype == np.float32
    assert one.objective == pytest.approx(other.objective, rel=1e-5)


def test_a_row_of_weight_two_is_a_row_twice_and_weight_zero_is_none():
    X, _, signs = texts(seed=5)
    weight = np.ones(len(signs))
    weight[:30], weight[30:40] = 2.0, 0.0
    rows = np.concatenate([np.arange(30), np.arange(30), np.arange(40, len(signs))])
    penalty = {"on_coefficients": sa.L1(0.01), "intercept": True}
    once = sa.Problem.linear(sa.Logistic(), X, signs, sample_weight=weight, **penalty)
    again = sa.Problem.linear(sa.Logistic(), X[rows], signs[rows], **penalty)
    one, other = (sa.minimize(p, "coordinate-newton", stop=1e-10) for p in (once, again))
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    np.testing.assert_allclose(one.x2, other.x2, atol=1e-4)


def test_runs_go_on_from_starts_and_results():
    X, y, _ = texts(300, 1200, seed=6)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.003))
    whole = sa.minimize(problem, "coordinate-newton", stop=1e-10)
    again = sa.minimize(problem, "coordinate-newton", stop=1e-9, start=whole)
    assert again.converged and again.n_passes < whole.n_passes
    part = sa.minimize(problem, "coordinate-newton", stop=1e-12, max_passes=2)
    assert not part.converged and part.objective - part.gap <= whole.objective
    resumed = sa.minimize(problem, "coordinate-newton", stop=1e-10, resume=part)
    assert resumed.objective == pytest.approx(whole.objective, rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_estimators_take_it(intercept):
    from sklearn.linear_model import Lasso

    X, y, _ = texts(300, 1500, seed=7)
    own = sa.LassoRegressor(0.01, fit_intercept=intercept, tol=1e-9).fit(X, y)
    other = Lasso(0.01, fit_intercept=intercept, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(own.coef_, other.coef_, atol=1e-5)
    assert own.result_.info["route"] == "coordinate-newton"
