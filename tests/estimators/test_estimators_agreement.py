"""Agreement with independent tools: scikit-learn, and CVXPY with Clarabel."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import stochadmm as sa

cp = pytest.importorskip("cvxpy")
pytest.importorskip("clarabel")

ALPHA = 0.05


def sample(n=60, d=6, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = np.outer([1.0, 1.0, 0.0, 0.0, -1.0, 0.5], [1.0, -1.0, 2.0])
    Y = X @ W + 0.5 * rng.standard_normal((n, 3))
    return X, Y[:, 0] if outputs is None else Y


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
@pytest.mark.parametrize("positive", [False, True])
def test_lasso_and_elastic_net(l1_ratio, positive):
    X, y = sample()
    weight = np.linspace(0.5, 1.5, len(y))
    model = sa.LassoRegressor(alpha=ALPHA, l1_ratio=l1_ratio, positive=positive)
    model.fit(X, y, sample_weight=weight)
    kind = Lasso(ALPHA) if l1_ratio == 1 else ElasticNet(ALPHA, l1_ratio=l1_ratio)
    kind.set_params(positive=positive, tol=1e-14, max_iter=100_000)
    kind.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, kind.coef_, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, kind.intercept_, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_logistic_regression(classes):
    X, y = sample()
    y = np.digitize(y, [0.0] if classes == 2 else [-0.5, 0.5])
    model = sa.SparseLogisticClassifier(alpha=ALPHA).fit(X, y)
    reference = LogisticRegression(
        C=1 / (ALPHA * len(y)), l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=100_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of parameters changed between versions
        reference.fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-4)


# ---------------------------------------------------------------- CVXPY


def difference(w, graph, order=1):
    if graph == "chain":
        return cp.norm1(cp.diff(w, order))
    return sum(cp.abs(w[i] - w[j]) for i, j in graph)


def group_norms(w, groups):
    return sum(cp.norm(w[g]) for g in groups)


def mean_loss(kind, X, y, w, b):
    z = X @ w + b
    if kind == "squared":
        return cp.sum_squares(z - y) / (2 * len(y))
    return cp.sum(cp.logistic(-cp.multiply(y, z))) / len(y)


GROUPS = [[0, 1, 2], [2, 3], [3, 4, 5]]
GRAPH = [(0, 1), (1, 2), (0, 2), (3, 5)]
CASES = {
    "FusedLasso": ({"l1_ratio": 0.4}, lambda w: 0.6 * difference(w, "chain") + 0.4 * cp.norm1(w)),
    "GraphFused": (
        {"graph": GRAPH, "l1_ratio": 0.4},
        lambda w: 0.6 * difference(w, GRAPH) + 0.4 * cp.norm1(w),
    ),
    "OverlappingGroup": (
        {"groups": GROUPS, "l1_ratio": 0.25},
        lambda w: 0.75 * group_norms(w, GROUPS) + 0.25 * cp.norm1(w),
    ),
    "TrendFilter": ({"order": 1}, lambda w: difference(w, "chain", 2)),
    "GeneralizedLasso": (
        {"operator": np.tri(6)},
        lambda w: cp.norm1(np.tri(6) @ w),
    ),
}


@pytest.mark.parametrize("kind", ["squared", "logistic"])
@pytest.mark.parametrize("name", CASES)
def test_structures_agree_with_a_conic_solver(name, kind):
    role = "Regressor" if kind == "squared" else "Classifier"
    if not hasattr(sa, name + role):
        pytest.skip("regression only")
    params, penalty = CASES[name]
    X, y = sample()
    y = y if kind == "squared" else np.where(y > 0, 1.0, -1.0)
    model = getattr(sa, name + role)(alpha=ALPHA, **params).fit(X, y)
    w, b = cp.Variable(6), cp.Variable()
    problem = cp.Problem(cp.Minimize(mean_loss(kind, X, y, w, b) + ALPHA * penalty(w)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert abs(model.result_.objective - problem.value) <= 1e-6 * problem.value
    np.testing.assert_allclose(np.ravel(model.coef_), w.value, atol=1e-4)
    np.testing.assert_allclose(np.ravel(model.intercept_)[0], b.value, atol=1e-4)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_latent_groups_agree_with_a_conic_solver(l1_ratio):
    X, y = sample()
    model = sa.OverlappingGroupRegressor(
        alpha=0.3, groups=GROUPS, latent=True, l1_ratio=l1_ratio
    ).fit(X, y)
    parts = [cp.Variable(len(group)) for group in GROUPS]
    w, b = cp.Variable(6), cp.Variable()
    total = sum(np.eye(6)[:, group] @ v for group, v in zip(GROUPS, parts, strict=True))
    penalty = (1 - l1_ratio) * sum(cp.norm(v) for v in parts) + l1_ratio * cp.norm1(w)
    objective = mean_loss("squared", X, y, w, b) + 0.3 * penalty
    problem = cp.Problem(cp.Minimize(objective), [w == total])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert abs(model.result_.objective - problem.value) <= 1e-6 * problem.value
    np.testing.assert_allclose(model.coef_, w.value, atol=1e-4)


@pytest.mark.parametrize("sparsity", ["entries", "rows"])
@pytest.mark.parametrize("kind", ["squared", "multinomial"])
def test_sparse_and_low_rank_agrees_with_a_conic_solver(sparsity, kind):
    X, Y = sample(outputs=3)
    W, b = cp.Variable((6, 3)), cp.Variable((1, 3))
    Z = X @ W + np.ones((len(X), 1)) @ b
    if kind == "squared":
        target, model = Y, sa.SparseLowRankRegressor(alpha=ALPHA, sparsity=sparsity)
        loss = cp.sum_squares(Z - Y) / (2 * len(X))
    else:
        target = Y.argmax(axis=1)
        model = sa.SparseLowRankClassifier(alpha=ALPHA, sparsity=sparsity)
        hit = np.eye(3)[target]
        loss = (cp.sum(cp.log_sum_exp(Z, axis=1)) - cp.sum(cp.multiply(hit, Z))) / len(X)
    model.fit(X, target)
    sparse = cp.sum(cp.abs(W)) if sparsity == "entries" else cp.sum(cp.norm(W, axis=1))
    objective = loss + ALPHA * (0.5 * cp.normNuc(W) + 0.5 * sparse)
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL)
    assert abs(model.result_.objective - problem.value) <= 1e-6 * abs(problem.value)
    np.testing.assert_allclose(model.coef_, W.value.T, atol=1e-4)


@pytest.mark.parametrize("unpenalized", [(), (1,)])
def test_a_multiple_of_the_identity_counts_with_its_scale(unpenalized):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    y = X @ np.array([1.0, 0.5, 0.0, -1.0]) + 0.1 * rng.standard_normal(40)
    size = 4 - len(unpenalized)
    options = {"alpha": 0.1, "unpenalized": unpenalized, "tol": 1e-12}
    found = sa.GeneralizedLassoRegressor(operator=sa.Identity(size, scale=2.0), **options)
    wanted = sa.GeneralizedLassoRegressor(operator=2.0 * np.eye(size), **options)
    assert np.allclose(found.fit(X, y).coef_, wanted.fit(X, y).coef_, rtol=0, atol=1e-7)
