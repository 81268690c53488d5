"""Huge and infinite weights of edges: ties, as if the columns were one.

The truth is the optimum over coefficients of merged columns, by a conic solver.
"""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import stochadmm as sa

N, P, ALPHA = 80, 24, 0.05
EDGES = np.array([(j, j + 1) for j in range(P - 1)] + [(0, 12), (3, 20)])
TIED = np.isin(np.arange(len(EDGES)), [4, 5, 13, 23])
HUGE = [1e9, 1e20, 1e300, np.inf]


@cache
def data(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P))
    z = X @ np.repeat(rng.standard_normal(P // 4), 4)
    if loss == "squared":
        return X, z + 0.3 * rng.standard_normal(N), sa.Squared()
    return X, np.where(z + rng.logistic(size=N) > 0, 1.0, -1.0), sa.Logistic()


def merged(edges=EDGES[TIED]):
    graph = sparse.csr_array((np.ones(len(edges)), edges.T), shape=(P, P))
    count, labels = connected_components(graph)
    return np.eye(count)[labels]


@cache
def truth(loss):
    """Return the optimum where tied columns share a coefficient."""
    X, y, _ = data(loss)
    v = cp.Variable(merged().shape[1])
    c = cp.Variable()
    w = merged() @ v
    z = X @ w + c
    if loss == "squared":
        data_term = cp.sum_squares(z - y) / (2 * N)
    else:
        data_term = cp.sum(cp.logistic(-cp.multiply(y, z))) / N
    i, j = EDGES[~TIED].T
    penalty = ALPHA * (cp.norm1(w[i] - w[j]) + 0.4 * cp.norm1(w))
    problem = cp.Problem(cp.Minimize(data_term + penalty))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return problem.value


def weights(size):
    return np.where(TIED, size, 1.0)


def matrix(size):
    rows = np.zeros((len(EDGES), P))
    rows[np.arange(len(EDGES)), EDGES[:, 0]] = weights(size)
    rows[np.arange(len(EDGES)), EDGES[:, 1]] = -weights(size)
    return rows


FORMS = {
    "edges": lambda size: (sa.Incidence(EDGES, P, weights(size)), sa.L1(ALPHA)),
    "l1": lambda size: (sa.Incidence(EDGES, P), sa.L1(ALPHA, weights(size))),
    "csr": lambda size: (sparse.csr_array(matrix(size)), sa.L1(ALPHA)),
    "dense": lambda size: (matrix(size), sa.L1(ALPHA)),
    "stacked": lambda size: (
        sa.VStack([sa.Incidence(EDGES, P, weights(size)), sa.Identity(P)]),
        sa.Stacked([(sa.L1(ALPHA), len(EDGES)), (sa.L1(0.0), P)]),
    ),
}


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_huge_weight_is_a_tie_and_the_gap_is_that_of_the_user(loss, form, size):
    if size == np.inf and form in ("csr", "dense"):
        pytest.skip("a matrix has finite entries")
    X, y, f = data(loss)
    structure, penalty = FORMS[form](size)
    problem = sa.Problem.linear(
        f,
        X,
        y,
        structure=structure,
        on_structure=penalty,
        on_coefficients=sa.L1(0.4 * ALPHA),
        intercept=True,
    )
    found = sa.minimize(problem, stop=sa.Gap(1e-7), max_passes=1000)
    best = truth(loss)
    i, j = EDGES[TIED].T
    assert (found.coef[i] == found.coef[j]).all()
    assert found.status is sa.Status.CONVERGED
    assert abs(found.objective - best) <= 1e-6 * best
    assert found.objective - found.gap <= best * (1 + 1e-9)
    assert (found.x1[: len(EDGES)][TIED] == 0).all()
    if form != "dense":  # BLAS may leave rounding of 1e20 w
        assert problem.objective(found.pair) == pytest.approx(found.objective, rel=1e-12)


@pytest.mark.parametrize("size", HUGE)
def test_a_huge_weight_in_a_graph_of_an_estimator_is_a_tie(size):
    X, y, _ = data("squared")
    graph = [(*edge, size if tied else 1.0) for edge, tied in zip(EDGES, TIED, strict=True)]
    model = sa.GraphFusedRegressor(alpha=1.4 * ALPHA, l1_ratio=0.4 / 1.4, graph=graph, tol=1e-8)
    model.fit(X, y)
    w = model.coef_
    i, j = EDGES[~TIED].T
    value = np.sum((X @ w + model.intercept_ - y) ** 2) / (2 * N)
    value += ALPHA * (np.abs(w[i] - w[j]).sum() + 0.4 * np.abs(w).sum())
    assert value == pytest.approx(truth("squared"), rel=1e-7)
    i, j = EDGES[TIED].T
    assert (w[i] == w[j]).all() and (model.levels_[i] == model.levels_[j]).all()


def test_an_edge_of_weight_minus_infinity_makes_coefficients_opposite():
    X, _, _ = data("squared")
    y = X[:, 0] - 0.5 * X[:, 1]
    model = sa.GraphFusedRegressor(alpha=0.01, graph=[(0, 1, -np.inf), (2, 3, 1.0)]).fit(X, y)
    assert model.coef_[0] == -model.coef_[1] != 0


def test_contradicting_ties_leave_zero():
    X, y, _ = data("squared")
    graph = [(0, 1, -np.inf), (1, 2, np.inf), (0, 2, np.inf), (3, 4, 1.0)]
    model = sa.GraphFusedRegressor(alpha=0.01, graph=graph).fit(X, y)
    assert (model.coef_[:3] == 0).all() and model.coef_[3:].any()


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.3])
def test_the_largest_alpha_is_that_of_merged_columns(size, l1_ratio):
    X, y, _ = data("squared")
    graph = [(*edge, size if tied else 1.0) for edge, tied in zip(EDGES, TIED, strict=True)]
    found = sa.GraphFusedRegressor(graph=graph, l1_ratio=l1_ratio).alpha_max(X, y)
    i, j = EDGES[~TIED].T
    labels = merged().argmax(axis=1)
    wanted = merged_alpha_max(X, y, labels[i], labels[j], l1_ratio)
    assert found == pytest.approx(wanted, rel=1e-6)


def merged_alpha_max(X, y, i, j, l1_ratio):
    """Return min t with ``g = D' u + v``, |u| and |v| within t times the strengths."""
    Q = merged()
    free = np.ones((N, 1)) if l1_ratio else np.column_stack([np.ones(N), X.sum(axis=1)])
    rest = y - free @ np.linalg.lstsq(free, y, rcond=None)[0]
    D = np.zeros((len(i), Q.shape[1]))
    np.add.at(D, (np.arange(len(i)), i), 1.0)
    np.add.at(D, (np.arange(len(i)), j), -1.0)
    t, u, v = cp.Variable(), cp.Variable(len(i)), cp.Variable(Q.shape[1])
    held = [D.T @ u + v == (X @ Q).T @ rest / N]
    held += [cp.abs(u) <= (1 - l1_ratio) * t, cp.abs(v) <= l1_ratio * t * Q.sum(axis=0)]
    problem = cp.Problem(cp.Minimize(t), held)
    problem.solve(solver="CLARABEL")
    return problem.value


def test_a_path_of_strengths_keeps_infinite_ties():
    X, y, _ = data("squared")
    graph = [(*edge, np.inf if tied else 1.0) for edge, tied in zip(EDGES, TIED, strict=True)]
    model = sa.GraphFusedRegressorCV(graph=graph, alphas=5, cv=3).fit(X, y)
    i, j = EDGES[TIED].T
    assert (model.coef_[i] == model.coef_[j]).all()


def test_an_infinite_weight_of_a_coefficient_holds_it_at_zero():
    X, y, f = data("squared")
    weight = np.ones(P)
    weight[[1, 7]] = np.inf
    held = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.02, weight))
    without = sa.Problem.linear(f, np.delete(X, [1, 7], 1), y, on_coefficients=sa.L1(0.02))
    found, wanted = (sa.minimize(problem, stop=sa.Gap(1e-9)) for problem in (held, without))
    assert found.converged and (found.coef[[1, 7]] == 0).all()
    assert found.objective == pytest.approx(wanted.objective, rel=1e-8)


def test_a_certificate_of_a_broken_tie_is_infinite():
    X, y, f = data("squared")
    problem = sa.Problem.linear(
        f, X, y, structure=sa.Incidence(EDGES, P, weights(np.inf)), on_structure=sa.L1(ALPHA)
    )
    w = np.arange(P, dtype=np.float64)
    from stochadmm.certificates import certify

    assert certify(problem, sa.Pair(problem.A2.matvec(w), w)).objective == np.inf


def test_a_tie_needs_an_l1_norm():
    X, y, f = data("squared")
    with pytest.raises(ValueError, match="infinite weight"):
        sa.Problem.linear(
            f,
            X,
            y,
            structure=sa.Incidence(EDGES, P, weights(np.inf)),
            on_structure=sa.GroupL2(1.0, [len(EDGES)]),
        )
