"""A few of many columns: the same answers as from all of them, certified for all of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

import stochadmm as sa
from stochadmm._newton.columns import ByColumn
from stochadmm.base.workspace import Workspace

N, D = 120, 400


def rows(seed=0, d=D):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d))
    w = np.zeros(d)
    w[:6] = [2.0, -1.5, 1.0, -1.0, 0.7, 0.5]
    return rng, X, X @ w + 0.3 * rng.standard_normal(N)


def lasso():
    _, X, y = rows()
    return sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.2))


def weighted_logistic():
    rng, X, z = rows(1)
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        np.where(z > 0, 1.0, -1.0),
        on_coefficients=sa.L1(0.05),
        intercept=True,
        sample_weight=rng.integers(0, 3, N).astype(float),
    )


def elastic_net_csr():
    _, X, z = rows(2)
    X = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    return sa.Problem.linear(
        sa.Huber(1.0), X, z, intercept=True, on_coefficients=sa.ElasticNet(0.1, 0.8)
    )


def free_columns():
    _, X, z = rows(3)
    weights = np.ones(D)
    weights[[5, 300]] = 0.0
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z,
        structure=sa.Identity(D, scale=2.0),
        on_structure=sa.L1(0.1, weights=weights),
    )


def non_negative():
    _, X, z = rows(4)
    return sa.Problem.linear(sa.Squared(), X, z, on_coefficients=sa.L1(0.1) + sa.NonNegative())


def multitask_rows():
    rng, X, z = rows(5)
    Y = np.outer(z, [1.0, -0.5, 2.0]) + rng.standard_normal((N, 3))
    return sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.RowsL21(0.4))


def sparse_and_low_rank():
    rng, X, z = rows(6, d=250)
    y = np.digitize(z + rng.standard_normal(N), np.quantile(z, [0.33, 0.66]))
    return sa.Problem.linear(
        sa.Multinomial(3),
        X,
        y,
        intercept=True,
        structure=sa.VStack([sa.Identity(250), sa.Identity(250)]),
        on_structure=sa.Stacked([(sa.L1(0.05), 250), (sa.Nuclear(0.05), 250)]),
    )


PROBLEMS = [
    lasso,
    weighted_logistic,
    elastic_net_csr,
    free_columns,
    non_negative,
    multitask_rows,
    sparse_and_low_rank,
]
each = pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)


@each
def test_the_answer_is_that_of_all_columns_and_is_certified_from_outside(make):
    problem = make()
    found = sa.minimize(problem, "working-set", stop=sa.Gap(1e-8))
    whole = sa.minimize(make(), "sampled-newton", stop=sa.Gap(1e-8))
    assert found.converged and found.info["columns"] < problem.shape2[0]
    assert abs(found.objective - whole.objective) <= 2e-8 * abs(whole.objective)
    best = min(
        (sa.certify(problem, found.pair, found.dual, strength=s) for s in ("scaled", "corrected")),
        key=lambda c: c.gap,
    )
    assert best.gap <= 1e-7 * best.objective


@each
def test_the_bound_that_is_claimed_is_below_the_optimum(make):
    problem = make()
    whole = sa.minimize(make(), "sampled-newton", stop=sa.Gap(1e-10), max_passes=300)
    bounds = []
    sa.minimize(
        problem, "working-set", stop=sa.Gap(1e-9), callback=lambda r, s: bounds.append(s.bound)
    )
    assert np.isfinite(bounds[-1])
    assert max(bounds) <= whole.objective * (1 + 1e-12)


def test_agrees_with_scikit_learn():
    _, X, y = rows()
    peer = Lasso(alpha=0.2, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y)
    found = sa.minimize(lasso(), "working-set", stop=sa.Gap(1e-12))
    assert found.converged
    np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-7)
    assert np.array_equal(found.coef != 0, peer.coef_ != 0)


@each
def test_every_column_outside_is_held(make):
    problem = make()
    found = sa.minimize(problem, "working-set", stop=sa.Gap(1e-9))
    zero = found.x2 == 0 if found.x2.ndim == 1 else ~found.x2.any(axis=1)
    violation = ByColumn(problem, Workspace()).violation(problem.f2.gradient(found.x2))
    if make is not sparse_and_low_rank:  # there the nuclear norm may help to hold a column
        assert violation[zero].max() <= 1 + 1e-3


def test_float32_rows_and_a_start():
    p = lasso()
    narrow = replace(p, f2=sa.FiniteSum(p.f2.loss, p.f2.X.astype(np.float32), p.f2.y))
    first = sa.minimize(narrow, "working-set", stop=sa.Gap(1e-5))
    again = sa.minimize(narrow, "working-set", stop=sa.Gap(1e-5), start=first)
    assert first.converged and again.converged and again.n_epochs <= 2
    assert first.coef.dtype == np.float32


def test_dense_solutions_end_with_all_columns():
    _, X, y = rows()
    problem = sa.Problem.linear(sa.Squared(), X[:, :60], y, on_coefficients=sa.L1(1e-4))
    found = sa.minimize(problem, "working-set", stop=sa.Gap(1e-9))
    assert found.converged and found.info["columns"] == 60


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (lambda X, y: {"structure": sa.Differences(D), "on_structure": sa.L1(0.1)}, "ties"),
        (lambda X, y: {"on_coefficients": sa.Ridge(0.1)}, "holds"),
        (lambda X, y: {"on_coefficients": sa.GroupL2(0.1, [D // 2, D // 2])}, "restricted"),
    ],
)
def test_problems_that_are_refused(problem, reason):
    _, X, y = rows()
    p = sa.Problem.linear(sa.Squared(), X, y, **problem(X, y))
    assert reason in sa.Newton("working-set").why_not(p)
    with pytest.raises(ValueError, match=reason):
        sa.minimize(p, "working-set")


@pytest.mark.parametrize(
    "penalty",
    [
        sa.L1(0.5),
        sa.L1(0.5, weights=np.arange(1.0, 7.0)),
        sa.ElasticNet(0.7, 0.4),
        sa.L1(0.3) + sa.NonNegative(),
        sa.RowsL21(0.8, weights=np.arange(1.0, 7.0)),
        sa.Nuclear(0.5),
        sa.L2Ball(2.0),
        sa.Box(-1.0, 2.0),
    ],
    ids=lambda p: type(p).__name__,
)
def test_a_restricted_penalty_is_the_penalty_with_zeros_elsewhere(penalty):
    rng, kept = np.random.default_rng(0), np.array([1, 2, 5])
    x = np.zeros((6, 3))
    x[kept] = penalty.prox(rng.standard_normal((6, 3)), 0.5)[kept]
    small = penalty.restricted(kept)
    assert small.value(x[kept]) == pytest.approx(penalty.value(x), rel=1e-12)
    if hasattr(penalty, "violation"):
        u = rng.standard_normal((6, 3))
        stays = ~penalty.prox(1e-6 * u, 1e-6).any(axis=1)
        np.testing.assert_array_equal(penalty.violation(u) <= 1, stays)
