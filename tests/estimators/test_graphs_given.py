"""Graphs as users give them: every form is the same fit, negative edges, weights of zero."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

import stochadmm as sa
from stochadmm.structures import from_edges, graph, groups

EDGES = [(0, 1, 1.0), (0, 2, -2.0), (3, 4, -0.5), (4, 5, 1.0)]
NAMES = list("abcdef")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    return X, X @ [1.0, 1.0, -1.0, 0.0, 0.5, 0.0] + 0.3 * rng.standard_normal(80)


def adjacency(edges=EDGES, n=6):
    A = np.zeros((n, n))
    for i, j, weight in edges:
        A[i, j] = A[j, i] = weight
    return A


def network():
    made = nx.Graph()
    made.add_weighted_edges_from(EDGES)
    return made


# ---------------------------------------------------------------- negative edges


def reference(X, y, edges, alpha, ratio, positive=False):
    cp = pytest.importorskip("cvxpy")
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    fusion = sum(abs(c) * cp.abs(w[i] - np.sign(c) * w[j]) for i, j, c in edges)
    penalty = (1 - ratio) * fusion + ratio * cp.norm1(w)
    loss = cp.sum_squares(y - X @ w - b) / (2 * len(y))
    problem = cp.Problem(cp.Minimize(loss + alpha * penalty), [w >= 0] if positive else [])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return w.value


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("ratio", [0.0, 0.5])
@pytest.mark.parametrize("positive", [False, True])
def test_negative_edges_solve_the_problem_that_is_documented(rows, alpha, ratio, positive):
    options = {"graph": EDGES, "l1_ratio": ratio, "positive": positive, "tol": 1e-9}
    model = sa.GraphFusedRegressor(alpha, **options).fit(*rows)
    expected = reference(*rows, EDGES, alpha, ratio, positive)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-6)


def test_more_columns_than_rows_may_have_negative_edges():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 60))
    edges = [(j, j + 1, (-1.0) ** j) for j in range(59)] + [(0, 30, -2.0)]
    y = X[:, :10] @ np.repeat([1.0, -1.0], 5)
    model = sa.GraphFusedRegressor(0.1, graph=edges, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.coef_, reference(X, y, edges, 0.1, 0.5), atol=1e-5)


def test_coefficients_joined_by_a_negative_edge_are_exactly_opposite(rows):
    X, y = rows
    model = sa.GraphFusedRegressor(0.3, graph=EDGES, l1_ratio=0).fit(X, y)
    assert model.coef_[0] == model.coef_[1] == -model.coef_[2]
    np.testing.assert_array_equal(model.levels_, [0, 0, 0, 1, 2, 2])
    assert model.dof_ == 3 + 1
    assert "3 sets of equal or opposite coefficients" in model.summary()
    plain = sa.GraphFusedRegressor(0.3, graph=[(0, 1)], l1_ratio=0).fit(X, y)
    assert "sets of equal coefficients" in plain.summary()


def test_a_refit_keeps_opposite_levels_opposite(rows):
    X, y = rows
    model = sa.GraphFusedRegressor(0.3, graph=EDGES, l1_ratio=0, refit=True).fit(X, y)
    pooled = np.column_stack([X[:, 0] + X[:, 1] - X[:, 2], X[:, 3], X[:, 4] + X[:, 5]])
    own = LinearRegression().fit(pooled, y).coef_
    np.testing.assert_allclose(
        model.coef_, own[[0, 0, 0, 1, 2, 2]] * [1, 1, -1, 1, 1, 1], atol=1e-6
    )


def test_a_level_at_zero_takes_its_signs_from_the_graph():
    x = np.random.default_rng(0).standard_normal(40)
    X = np.column_stack([x, x])  # opposite coefficients of equal columns do nothing
    model = sa.GraphFusedRegressor(5.0, graph=[(0, 1, -1.0)], l1_ratio=0, refit=True)
    model.fit(X, x)
    assert model.levels_.tolist() == [0, 0] and model.dof_ == 1  # the intercept alone
    np.testing.assert_allclose(model.coef_[0], -model.coef_[1], atol=1e-12)
    np.testing.assert_allclose(model.predict(X), x.mean(), atol=1e-6)


@pytest.mark.parametrize("edges", [[(0, 1, 1), (1, 2, 1), (0, 2, -1)], [(0, 1, 1), (0, 1, -1)]])
def test_ties_that_contradict_each_other_hold_a_level_at_zero(rows, edges):
    X, y = rows[0][:, :3], rows[1]
    model = sa.GraphFusedRegressor(9.0, graph=edges, l1_ratio=0, refit=True).fit(X, y)
    held = sorted({end for edge in edges for end in edge[:2]})
    assert not model.coef_[held].any() and not model.penalized_coef_[held].any()
    assert model.dof_ == 1 + 3 - len(held)


def test_opposite_coefficients_that_are_not_negative_are_zero_in_a_refit(rows):
    X, y = rows
    model = sa.GraphFusedRegressor(
        9.0, graph=[(0, 1, -1.0)], l1_ratio=0, positive=True, refit=True, unpenalized=[2, 3, 4, 5]
    ).fit(X, y)
    assert not model.coef_[:2].any() and model.dof_ == 1 + 4


def test_several_outputs_have_ties_of_their_own(rows):
    X, y = rows
    Y = np.column_stack([y, -y, X[:, 3] - X[:, 4]])
    model = sa.GraphFusedRegressor(0.1, graph=EDGES, refit=True).fit(X, Y)
    for k in range(3):
        alone = sa.GraphFusedRegressor(0.1, graph=EDGES, refit=True).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], alone.coef_, atol=1e-5)
        np.testing.assert_array_equal(model.levels_[k], alone.levels_)
    classes = sa.GraphFusedClassifier(0.02, graph=EDGES).fit(X, np.digitize(y, [-0.5, 0.5]))
    assert classes.levels_.shape == (3, 6)


def test_the_largest_alpha_of_a_signed_graph_is_the_end_of_its_path(rows):
    X, y = rows
    options = {"graph": EDGES, "l1_ratio": 0.0, "tol": 1e-9}
    largest = sa.GraphFusedRegressor(**options).alpha_max(X, y)
    above, below = (
        sa.GraphFusedRegressor(f * largest, **options).fit(X, y) for f in (1.001, 0.98)
    )
    assert len(set(above.levels_)) == 2 < len(set(below.levels_))


def test_negative_edges_are_broken_lines(rows):
    pytest.importorskip("matplotlib").use("agg")
    ax = sa.GraphFusedRegressor(0.1, graph=EDGES).fit(*rows).plot_coef_graph()
    broken = [style[1] is not None for style in ax.collections[0].get_linestyles()]
    assert broken == [False, True, True, False]


# ---------------------------------------------------------------- every form is the same graph


@pytest.mark.parametrize(
    "given",
    [
        np.array(EDGES),
        adjacency(),
        np.triu(adjacency()),
        sparse.csr_array(adjacency()),
        network(),
        from_edges(EDGES),
        from_edges(EDGES, n_features=6),
        from_edges([e[:2] for e in EDGES], [1, 2, 0.5, 1], signs=[1, -1, -1, 1]),
    ],
    ids=["array", "matrix", "upper", "sparse", "network", "operator", "sized", "signs"],
)
def test_every_form_of_a_graph_is_the_same_fit(rows, given):
    expected = sa.GraphFusedRegressor(0.1, graph=EDGES).fit(*rows)
    found = sa.GraphFusedRegressor(0.1, graph=given).fit(*rows)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


def test_frames_of_edges_and_of_entries_are_read_by_their_names(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    named = pd.DataFrame(X, columns=NAMES)
    matrix = pd.DataFrame(adjacency(), columns=NAMES, index=NAMES)
    order = [5, 3, 1, 0, 2, 4]
    expected = sa.GraphFusedRegressor(0.1, graph=EDGES).fit(X, y)
    for given in (
        matrix,
        matrix.iloc[order, order],  # in another order
        matrix.reset_index(drop=True),
        pd.DataFrame([(NAMES[i], NAMES[j], weight) for i, j, weight in EDGES]),
        pd.DataFrame(EDGES, columns=["from", "to", "weight"]),
        pd.DataFrame(adjacency()),
    ):
        found = sa.GraphFusedRegressor(0.1, graph=given).fit(named, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
    part = sa.GraphFusedRegressor(0.1, graph=matrix.loc[["c", "a"], ["c", "a"]]).fit(named, y)
    whole = sa.GraphFusedRegressor(0.1, graph=[(0, 2, -2.0)]).fit(X, y)
    np.testing.assert_allclose(part.coef_, whole.coef_, atol=1e-8)
    with pytest.raises(ValueError, match="rows and columns of the adjacency matrix"):
        sa.GraphFusedRegressor(graph=matrix[NAMES[::-1]]).fit(named, y)
    with pytest.raises(ValueError, match="unknown column 'a'"):
        sa.GraphFusedRegressor(graph=matrix).fit(X, y)


def test_a_square_array_is_a_matrix_only_where_its_size_is_that_of_the_features(rows):
    X, y = rows
    three = np.array([[0, 1, 1], [2, 3, 1], [4, 5, 1]])
    fitted = sa.GraphFusedRegressor(0.1, graph=three).fit(X, y)
    pairs = sa.GraphFusedRegressor(0.1, graph=[(0, 1), (2, 3), (4, 5)]).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, pairs.coef_)
    two = np.array([[0, 1], [2, 3]])
    assert graph(two, n_features=4) == from_edges([(0, 1), (2, 3)], n_features=4)
    # both fit: symmetric is a matrix, anything else is edges
    both = np.array([[0, 1, 2], [1, 0, 0], [2, 0, 0]])
    np.testing.assert_array_equal(graph(both, n_features=3).weights, [1, 2])
    assert graph(np.array([[0, 1, 2], [1, 2, 5], [2, 0, 1]]), n_features=3).shape == (3, 3)
    assert graph(np.array([["a", "b"], ["c", "d"]]), names=NAMES).shape == (2, 6)
    assert graph(np.array([[0, 1], [1, 0]]), n_features=2).shape == (1, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([2, 3], r"edge 0 is 2, expected a pair \(i, j\), or a triple .*a grid is a tuple"),
        (np.array([2, 3]), "edge 0 is 2, expected a pair"),
        (["ab", "cd"], "edge 0 is 'ab', expected a pair"),
        (np.array([[0, 1.5], [1, 2]]), "edge 0 joins 0.0 and 1.5, expected whole numbers"),
        ([(0, 1, "x")], "weights has dtype <U1, expected real numbers"),
        ([(0, 1, np.nan)], "weights must be 1 numbers, one per edge, and none of them NaN"),
        (from_edges([(0, 7)]), "the graph has 8 nodes but there are 6 features"),
        (np.zeros((5, 5)), "the graph has 5 nodes but there are 6 features"),
        (np.ma.masked_equal([[0, 1], [2, 9]], 9), "the array of edges has 1 masked entries"),
        (zip([0], [1], strict=True), r"graph is an iterator \(zip\), .* pass a list"),
        (((i, i + 1) for i in range(3)), r"graph is an iterator \(generator\)"),
    ],
)
def test_what_is_no_graph_is_named(rows, given, message):
    with pytest.raises(ValueError, match=message):
        sa.GraphFusedRegressor(graph=given).fit(*rows)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("LassoRegressor", {"unpenalized": iter([0])}, "unpenalized is an iterator"),
        ("OverlappingGroupRegressor", {"groups": iter([[0], [1]])}, "groups is an iterator"),
        ("OverlappingGroupRegressor", {"groups": [iter([0])]}, "a group is an iterator"),
        ("OverlappingGroupRegressor", {"groups": {"a": iter([0])}}, "group 'a' is an iterator"),
        (
            "OverlappingGroupRegressor",
            {"group_weights": "sqrt"},
            "weights of the groups are 'sqrt'",
        ),
        (
            "SparseGroupLassoRegressor",
            {"group_weights": iter([1])},
            "expected one number per group",
        ),
        ("GeneralizedLassoRegressor", {"operator": iter([[1]])}, "operator must be an operator"),
    ],
)
def test_what_can_be_read_only_once_or_is_no_number_is_refused(rows, kind, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(sa, kind)(**options).fit(*rows)


# ---------------------------------------------------------------- weights of zero


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_an_edge_of_weight_zero_is_no_edge(rows, ratio):
    X, y = rows
    options = {"alpha": 0.05, "l1_ratio": ratio, "refit": True}
    plain = sa.GraphFusedRegressor(graph=[(0, 1, 1.0)], **options).fit(X, y)
    edges = [(0, 5, 0.0), (0, 1, 1.0), (2, 3, -0.0)]
    operator = sa.Incidence([e[:2] for e in edges], 6, [e[2] for e in edges])
    for given in (edges, np.array(edges), operator, from_edges(edges, n_features=6)):
        found = sa.GraphFusedRegressor(graph=given, **options).fit(X, y)
        np.testing.assert_array_equal(found.levels_, plain.levels_)
        np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-9)
        assert (found.dof_, found.bic_) == (plain.dof_, pytest.approx(plain.bic_))


def test_an_edge_listed_twice_ties_once(rows):
    once = sa.GraphFusedRegressor(0.1, graph=[(0, 1, 2.0)], refit=True).fit(*rows)
    doubled = sa.Incidence([(0, 1), (1, 0)], 6)
    twice = sa.GraphFusedRegressor(0.1, graph=doubled, refit=True).fit(*rows)
    np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-9)
    assert twice.dof_ == once.dof_


def test_a_group_of_weight_zero_is_free(rows):
    X, y = rows
    options = {"groups": [[0, 1, 2], [3, 4, 5]], "group_weights": [0.0, 1.0]}
    model = sa.OverlappingGroupRegressor(9.0, refit=True, **options).fit(X, y)
    own = LinearRegression().fit(X[:, :3], y)
    np.testing.assert_allclose(model.coef_, [*own.coef_, 0, 0, 0], atol=1e-5)
    assert model.active_groups_ == [0] and model.dof_ == 4


def test_rows_of_zeros_in_an_operator_hold_nothing(rows):
    D = np.array([[1.0, -1.0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1.0, -1.0, 0, 0, 0, 0]])
    model = sa.GeneralizedLassoRegressor(0.2, operator=D, refit=True).fit(*rows)
    assert model.dof_ == 5 + 1 and model.coef_[0] == pytest.approx(model.coef_[1])
    assert groups([[0], [1]], weights=[0, 1]).shape == (2, 2)
