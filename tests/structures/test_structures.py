"""Structures: names, repeats, isolated nodes, and graphs from data that is hard."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from stochadmm.operators import Differences, GridDifferences
from stochadmm.structures import (
    chain,
    from_adjacency,
    from_edges,
    from_networkx,
    glasso_edges,
    graph,
    groups,
)
from stochadmm.testing import check_operator

NAMES = ["age", "height", "income", "weight"]


def test_edges_by_name_and_by_index_are_the_same():
    by_name = from_edges([("age", "weight"), ("income", "age")], names=NAMES)
    by_index = from_edges([(0, 3), (2, 0)], n_features=4)
    assert by_name == by_index
    check_operator(by_name)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_repeated_edges_add_their_weights(data):
    n = data.draw(st.integers(2, 6))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    edges = data.draw(st.lists(pair, max_size=12))
    weights = np.array(
        data.draw(st.lists(st.floats(0, 3), min_size=len(edges), max_size=len(edges)))
    )
    x = np.random.default_rng(0).normal(size=n)
    A = from_edges(edges, weights, n_features=n)
    assert len({frozenset(edge) for edge in np.asarray(A.edges).tolist()}) == A.shape[0]
    expected = sum(w * abs(x[i] - x[j]) for (i, j), w in zip(edges, weights, strict=True))
    assert np.abs(A @ x).sum() == pytest.approx(expected)


def test_edges_with_opposite_signs_stay_apart():
    A = from_edges([(0, 1), (1, 0), (0, 1)], signs=[1, -1, 1])
    x = np.array([1.0, 4.0])
    assert A.shape == (2, 2)
    assert np.abs(A @ x).sum() == 2 * 3.0 + 5.0


def test_triples_carry_weights_and_arrays_work():
    A = from_edges([(0, 1, 2.0), (1, 2, 0.5)])
    np.testing.assert_array_equal(A.weights, [2.0, 0.5])
    assert from_edges(np.array([[0, 1], [1, 2]])) == from_edges([(0, 1), (1, 2)])
    assert from_edges([], n_features=3).shape == (0, 3)


@pytest.mark.parametrize("kind", [np.array, sparse.csr_array, sparse.coo_matrix])
def test_adjacency_is_symmetric_or_upper(kind):
    full = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, -0.5], [0.0, -0.5, 1.0]])
    A = from_adjacency(kind(full))
    assert from_adjacency(kind(np.triu(full))) == A
    np.testing.assert_array_equal(A.edges, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(A.weights, [2.0, 0.5])
    assert A.signs is None
    np.testing.assert_array_equal(from_adjacency(kind(full), signed=True).signs, [1.0, -1.0])


def test_networkx_graphs_by_name_and_by_index():
    source = nx.Graph()
    source.add_edge("age", "income", weight=2.0)
    source.add_edge("income", "weight")
    A = graph(source, names=NAMES)
    np.testing.assert_array_equal(A.edges, [[0, 2], [2, 3]])
    np.testing.assert_array_equal(A.weights, [2.0, 1.0])
    path = nx.path_graph(3)
    path.add_node(5)
    assert from_networkx(path).shape == (2, 6)
    assert from_networkx(path, n_features=8).shape == (2, 8)
    both_ways = nx.DiGraph([(0, 1), (1, 0)])
    assert from_networkx(both_ways).shape == (1, 2)


def test_graph_tells_its_sources_apart():
    assert graph("chain", names=NAMES) == Differences(4) == chain(4)
    assert graph((2, 3), n_features=6) == GridDifferences((2, 3))
    assert graph(np.triu(np.ones((3, 3)))).shape == (3, 3)
    assert graph(sparse.eye_array(2)).shape == (0, 2)
    assert graph([("age", "height")], names=NAMES).shape == (1, 4)
    assert graph([(0, 1), (1, 2)]).shape == (2, 3)


def test_groups_by_name_may_overlap():
    A = groups({"who": ["age", "height"], "what": ["income", "age"]}, names=NAMES)
    assert A.groups == ((0, 1), (2, 0))
    assert groups([["age", "height"], [2, 0]], names=NAMES) == A
    assert groups([[0, 1], [1]], n_features=5).shape == (3, 5)
    weighted = groups({"a": [0], "b": [1]}, weights={"b": 2.0, "a": 1.0})
    np.testing.assert_array_equal(weighted.weights, [1.0, 2.0])
    check_operator(A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: from_edges([("age", "heigth")], names=NAMES),
            "unknown column 'heigth'; nearest: he",
        ),
        (lambda: from_edges([("age", "xyz")], names=NAMES), "columns are age, height, income"),
        (
            lambda: from_edges([("a", "b")]),
            "unknown column 'a'; give names, or use column indices",
        ),
        (lambda: from_edges([(0, 4)], n_features=4), "column 4 is out of range; .* from 0 to 3"),
        (lambda: from_edges([(0, -1)]), "column -1 is out of range"),
        (lambda: from_edges([(1, 1)]), "edge 0 joins node 1 to itself"),
        (lambda: from_edges([(0, 1), (0, 1, 2.0)]), "pairs .i, j., or triples"),
        (
            lambda: from_edges([(0, 1, 2.0)], weights=[1.0]),
            "triples .i, j, weight. without weights",
        ),
        (lambda: from_edges([(0, 1)], names=["a", "a"]), "names must be unique"),
        (lambda: graph([(0, 1)], names=NAMES, n_features=5), "4 names but n_features is 5"),
        (lambda: graph("ring"), "unknown graph 'ring'; use 'chain'"),
        (lambda: graph("chain"), "a chain needs n_features or names"),
        (lambda: graph((2, 2), n_features=5), "the graph has 4 nodes but there are 5 features"),
        (lambda: graph(np.eye(2)), "use from_edges or from_adjacency"),
        (lambda: from_adjacency(np.ones((2, 3))), "must be square"),
        (lambda: from_adjacency(np.array([[0, 1.0], [2.0, 0]])), "neither symmetric nor upper"),
        (lambda: from_adjacency(np.full((2, 2), np.nan)), "contains NaN"),
        (lambda: groups({"a": []}), "group 'a' is empty; drop it"),
        (lambda: groups({"a": "age"}, names=NAMES), "group 'a' is 'age'; give a list"),
        (lambda: groups({"a": [0, 0]}), "group 'a' names a column twice"),
        (lambda: groups({"a": ["agee"]}, names=NAMES), "nearest: age"),
        (lambda: groups({"a": [0], "b": [1]}, weights={"a": 1.0}), r"missing: \['b'\]"),
        (lambda: glasso_edges(np.ones(3)), "two dimensions and two rows"),
        (lambda: glasso_edges(np.ones((3, 2)), alpha=-1.0), "alpha must be a non-negative number"),
        (lambda: glasso_edges(np.array([[np.nan, 1], [1, 2]])), "X contains NaN or infinity"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def chain_data(n=3000, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = np.empty((n, d))
    X[:, 0] = rng.normal(size=n)
    for j in range(1, d):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * rng.normal(size=n)
    return X


def test_glasso_finds_a_chain_whatever_the_scale_and_storage():
    X = chain_data()
    expected = [[j, j + 1] for j in range(5)]
    np.testing.assert_array_equal(glasso_edges(X, alpha=0.15, threshold=0.2), expected)
    scaled = X * [1e-3, 1.0, 1e3, 1.0, 5.0, 1.0] + 7.0
    np.testing.assert_array_equal(glasso_edges(scaled, alpha=0.15, threshold=0.2), expected)
    np.testing.assert_array_equal(
        glasso_edges(sparse.csr_matrix(X), alpha=0.15, threshold=0.2), expected
    )
    np.testing.assert_array_equal(
        glasso_edges(X, alpha=0.15, threshold=0.2, max_rows=1500), expected
    )


def test_glasso_is_the_graphical_lasso_of_scikit_learn():
    from sklearn.covariance import graphical_lasso

    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 8))
    X[:, 1:] += 0.8 * X[:, :-1]
    correlation = np.corrcoef(X.T)
    inverse = graphical_lasso(correlation, alpha=0.1, tol=1e-5, max_iter=500)[1]
    known = np.argwhere(np.triu(np.abs(inverse) > 1e-4, 1))
    np.testing.assert_array_equal(glasso_edges(X, alpha=0.1, max_degree=None), known)


def test_glasso_of_collinear_columns_does_not_hang_on_rounding():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 12))
    X = np.column_stack([X, X[:, :4], X[:, 4:8] + X[:, :4]])
    edges = glasso_edges(X, threshold=1e-3)
    shaken = X * (1 + 1e-12 * rng.standard_normal(X.shape))
    np.testing.assert_array_equal(glasso_edges(shaken, threshold=1e-3), edges)
    assert {(k, 12 + k) for k in range(4)} <= set(map(tuple, edges.tolist()))


def test_glasso_limits_the_degree():
    rng = np.random.default_rng(0)
    center = rng.normal(size=500)
    X = np.column_stack([center, *(center + 0.3 * j * rng.normal(size=500) for j in range(1, 8))])
    edges = glasso_edges(X, alpha=0.01, max_degree=2)
    assert np.bincount(edges.ravel()).max() <= 2
    assert [0, 1] in edges.tolist()  # the strongest comes first
    assert len(glasso_edges(X, alpha=0.01, max_degree=None)) > len(edges)


@pytest.mark.parametrize("alpha", [0.0, 1e-4, 0.1])
def test_glasso_never_fails_on_collinear_or_constant_columns(alpha):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    X = np.column_stack([x, x, -2.0 * x, np.ones(40), np.zeros(40), rng.normal(size=(40, 60))])
    edges = glasso_edges(X, alpha=alpha)
    assert edges.shape[1] == 2
    assert not np.isin(edges, [3, 4]).any()
    assert (edges[:, 0] < edges[:, 1]).all()
    assert glasso_edges(np.ones((5, 3))).shape == (0, 2)
