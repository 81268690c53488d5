"""What users may pass, and what they are told when it is not that."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.samples import sample

import stochadmm as sa
from stochadmm.data import ArraySource
from stochadmm.operators import Differences, GridDifferences
from stochadmm.structures import Grid, from_labels, graph, groups


def assert_same(first, second):
    np.testing.assert_allclose(first.coef_, second.coef_, atol=1e-7)
    np.testing.assert_allclose(first.intercept_, second.intercept_, atol=1e-7)


# ---------------------------------------------------------------- groups


def test_one_label_per_column_makes_groups():
    X, y = sample()
    listed = sa.OverlappingGroupRegressor(alpha=0.2, groups=[[0, 3], [1, 2, 4], [5]]).fit(X, y)
    for labels in ([0, 1, 1, 0, 1, 2], np.array([7, 3, 3, 7, 3, -1]), list("abbabc")):
        model = sa.OverlappingGroupRegressor(alpha=0.2, groups=labels).fit(X, y)
        assert_same(model, listed)
        assert model.n_groups_ == 3
    assert set(model.active_groups_) <= set("abc")
    weights = {"a": 1.0, "b": 2.0, "c": 3.0}
    weighted = sa.OverlappingGroupRegressor(
        alpha=0.2, groups=list("abbabc"), group_weights=weights
    )
    same = sa.OverlappingGroupRegressor(
        alpha=0.2, groups=[[0, 3], [1, 2, 4], [5]], group_weights=[1.0, 2.0, 3.0]
    )
    assert_same(weighted.fit(X, y), same.fit(X, y))
    assert from_labels([1.0, None, np.nan, 1.0]) == {1.0: [0, 3]}
    assert groups(["x", "y", "x"]).groups == ((0, 2), (1,))


def test_columns_in_no_group_are_said_once():
    X, y = sample()
    model = sa.OverlappingGroupRegressor(alpha=0.2, groups=[[0, 1], [2, 3]])
    with pytest.warns(UserWarning, match=r"2 columns are in no group .*not penalized \(4, 5\)"):
        model.fit(X, y)
    free = sa.OverlappingGroupRegressor(alpha=0.2, groups=[[0, 1], [2, 3]], unpenalized=[4, 5])
    assert_same(model, free.fit(X, y))  # without a warning
    sa.OverlappingGroupRegressor(alpha=0.2, l1_ratio=0.5, groups=[[0, 1], [2, 3]]).fit(X, y)
    search = sa.OverlappingGroupRegressorCV(groups=[0, 0, 1, 1, None, None], alphas=3, cv=3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert sum("in no group" in str(w.message) for w in seen) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "groups is empty; leave it out"),
        ([0, 1, 1], "groups has 3 labels, expected 6: one per column"),
        ("all", "groups is 'all', expected a mapping"),
        (3, "groups is 3, expected a mapping"),
        ([[0, 1], 2], "group 1 is 2; give a list of columns"),
        ({"a": "b"}, "group 'a' is 'b'; give a list of columns"),
    ],
)
def test_wrong_groups_are_named(given, words):
    for latent in (False, True):
        with pytest.raises(ValueError, match=words):
            sa.OverlappingGroupRegressor(groups=given, latent=latent).fit(*sample())


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, r"graph is None, expected 'chain', a grid shape or Grid, edges.*empty list"),
        (28, "graph is 28, expected 'chain'"),
        ("ring", "unknown graph 'ring'"),
        ((2, 2), "the graph has 4 nodes but there are 6 features"),
        (Grid((2, 2)), "the graph has 4 nodes but there are 6 features"),
        (
            Grid((2, 3), [[True, True, False], [True, True, True]]),
            r"5 nodes but there are 6 features, one per cell; keep those inside the mask",
        ),
        ([(0, 9)], "column 9 is out of range"),
        ([(0, 0)], "joins node 0 to itself"),
    ],
)
def test_wrong_graphs_are_named(given, words):
    with pytest.raises(ValueError, match=words):
        sa.GraphFusedRegressor(graph=given).fit(*sample())


def test_a_graph_without_edges_leaves_the_l1_norm():
    X, y = sample()
    model = sa.GraphFusedRegressor(graph=[], alpha=0.2).fit(X, y)
    assert_same(model, sa.LassoRegressor(alpha=0.1).fit(X, y))


def test_an_edge_listed_twice_has_the_sum_of_the_weights():
    X, y = sample()
    twice = sa.GraphFusedRegressor(graph=[(0, 1), (1, 0), (2, 3)], alpha=0.1).fit(X, y)
    once = sa.GraphFusedRegressor(graph=[(0, 1, 2.0), (2, 3, 1.0)], alpha=0.1).fit(X, y)
    assert_same(twice, once)


# ---------------------------------------------------------------- grids


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("masked", [False, True])
def test_a_grid_is_the_graph_of_neighbors(shape, masked):
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < 0.7 if masked else np.ones(shape, dtype=bool)
    grid = Grid(shape, mask if masked else None)
    cells = [tuple(cell) for cell in np.argwhere(mask).tolist()]
    place = {cell: k for k, cell in enumerate(cells)}
    pairs = nx.grid_graph(shape[::-1]).edges  # networkx counts the axes from the last one
    if len(shape) == 1:
        pairs = [((i,), (j,)) for i, j in pairs]
    wanted = {frozenset((place[a], place[b])) for a, b in pairs if a in place and b in place}
    A = grid.operator.tosparse()
    rows = np.split(A.indices, A.indptr[1:-1]) if A.shape[0] else []
    assert {frozenset(row.tolist()) for row in rows} == wanted
    assert A.shape == (len(wanted), grid.n_nodes) == (len(wanted), int(mask.sum()))
    assert graph(grid, n_features=grid.n_nodes) == grid.operator
    values = rng.standard_normal(grid.n_nodes)
    np.testing.assert_array_equal(grid.image(values)[mask], values)


def test_grids_are_accepted_where_shapes_are():
    X, y = sample()
    for shape in ((6,), (2, 3), (1, 2, 3)):
        by_shape = sa.GraphFusedRegressor(graph=shape).fit(X, y)
        assert_same(by_shape, sa.GraphFusedRegressor(graph=sa.Grid(shape)).fit(X, y))
    assert_same(
        sa.GraphFusedRegressor(graph=sa.Grid(6)).fit(X, y), sa.FusedLassoRegressor().fit(X, y)
    )
    with_age = np.column_stack([np.linspace(0, 1, len(X)), X])
    free = sa.GraphFusedRegressor(graph=sa.Grid((2, 3)), unpenalized=[0]).fit(with_age, y)
    shape = sa.GraphFusedRegressor(graph=(2, 3), unpenalized=[0]).fit(with_age, y)
    assert_same(free, shape)


def test_parts_of_a_mask_that_do_not_touch_are_fused_apart():
    mask = np.array(
        [[True, True, False, False], [False, False, False, True], [True, False, True, True]]
    )
    X, y = sample(d=6)
    model = sa.GraphFusedRegressor(graph=sa.Grid(mask.shape, mask), l1_ratio=0.0, alpha=50.0)
    model.fit(X, y)
    # cells in C order: (0,0) (0,1) (1,3) (2,0) (2,2) (2,3); parts: top left, bottom left, right
    assert model.levels_[0] == model.levels_[1]
    assert model.levels_[2] == model.levels_[4] == model.levels_[5]
    assert np.unique(model.levels_).size == 3
    edges = [(0, 1), (2, 5), (4, 5)]
    same = sa.GraphFusedRegressor(graph=edges, l1_ratio=0.0, alpha=50.0).fit(X, y)
    assert_same(model, same)
    image = sa.Grid(mask.shape, mask).image(model.coef_)
    assert image.shape == mask.shape and np.isnan(image[~mask]).all()


def test_grids_are_values():
    mask = np.array([[True, False], [True, True]])
    grid = sa.Grid((2, 2), mask)
    mask[:] = True
    assert grid.n_nodes == 3 and grid == sa.Grid((2, 2), [[True, False], [True, True]])
    assert grid != sa.Grid((2, 2)) and hash(grid) == hash(sa.Grid((2, 2), grid.mask))
    assert repr(sa.Grid((2, 2))) == "Grid((2, 2))"
    assert sa.Grid(5).operator == GridDifferences((5,)) and sa.Grid(5).operator.shape == (4, 5)
    assert Differences(5).shape == (4, 5)
    model = sa.GraphFusedRegressor(graph=grid)
    assert clone(model).get_params()["graph"] == grid
    X, y = sample()
    graphs = {"graph": [sa.Grid((2, 3)), sa.Grid((3, 2))]}
    GridSearchCV(sa.GraphFusedRegressor(), graphs, cv=2).fit(X, y)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Grid(()), r"shape is \(\), expected integers >= 1"),
        (lambda: Grid((2, 0)), r"shape is \(2, 0\), expected integers >= 1"),
        (lambda: Grid((2.5, 2)), "expected integers >= 1"),
        (lambda: Grid("28x28"), "expected integers >= 1"),
        (lambda: Grid((2, 2), np.ones((2, 3), bool)), r"mask has shape \(2, 3\).*of shape \(2, 2"),
        (lambda: Grid((2, 2), np.ones((2, 2))), "type float64, expected booleans"),
        (lambda: Grid((2, 2), np.zeros((2, 2), bool)), "true at the cells that are features"),
        (lambda: Grid((2, 2)).image([1.0]), r"values have shape \(1,\), expected \(4,\)"),
    ],
)
def test_wrong_grids_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ---------------------------------------------------------------- unpenalized columns


def test_unpenalized_columns_may_be_a_mask():
    X, y = sample()
    listed = sa.LassoRegressor(alpha=0.3, unpenalized=[1, 4]).fit(X, y)
    mask = np.array([False, True, False, False, True, False])
    for given in (mask, mask.tolist()):
        assert_same(listed, sa.LassoRegressor(alpha=0.3, unpenalized=given).fit(X, y))
    none = sa.LassoRegressor(alpha=0.3).fit(X, y)
    for given in (None, [], np.zeros(6, dtype=bool), np.array([], dtype=int)):
        assert_same(none, sa.LassoRegressor(alpha=0.3, unpenalized=given).fit(X, y))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    series = pd.Series(mask, index=frame.columns)
    assert_same(listed, sa.LassoRegressor(alpha=0.3, unpenalized=series).fit(frame, y))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([True, False], "unpenalized is a mask of 2 columns, expected 6"),
        (3, "unpenalized is 3; pass a list of columns"),
        ("age", "unpenalized is 'age'; pass a list of columns"),
        ([6], "column 6 is out of range; columns go from 0 to 5"),
        ([1.5], "unknown column 1.5"),
    ],
)
def test_wrong_unpenalized_columns_are_named(given, words):
    with pytest.raises(ValueError, match=words):
        sa.LassoRegressor(unpenalized=given).fit(*sample())


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", ["fit_intercept", "standardize", "positive", "warm_start"])
@pytest.mark.parametrize("wrong", ["False", None, 1, np.array([True, False])])
def test_switches_are_true_or_false_as_in_scikit_learn(name, wrong):
    with pytest.raises(ValueError, match=f"{name} is .*, expected True or False"):
        sa.LassoRegressor(**{name: wrong}).fit(*sample())


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (sa.LassoRegressor(verbose="no"), "verbose is 'no', expected True, False or a whole"),
        (sa.LassoRegressor(random_state="a"), "random_state is 'a', expected a whole number >= 0"),
        (sa.LassoRegressor(random_state=-1), "random_state is -1, expected a whole number >= 0"),
        (sa.OverlappingGroupRegressor(latent="no"), "latent is 'no', expected True or False"),
    ],
)
def test_wrong_parameters_are_named(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(*sample())


def test_switches_of_numpy_and_levels_of_verbosity_are_taken():
    X, y = sample()
    given = sa.LassoRegressor(fit_intercept=np.False_, positive=np.True_, verbose=0).fit(X, y)
    assert_same(given, sa.LassoRegressor(fit_intercept=False, positive=True).fit(X, y))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, None, "heavy"])
@pytest.mark.parametrize("cuts", [[0.0], [-0.5, 0.5]])
def test_wrong_weights_of_classes_are_named(value, cuts):
    X, y = sample()
    model = sa.SparseLogisticClassifier(class_weight={0: value})
    with pytest.raises(ValueError, match=r"class_weight of 0 is .*, expected a finite number"):
        model.fit(X, np.digitize(y, cuts))


@pytest.mark.parametrize("other", [None, 7, float("nan")])
@pytest.mark.parametrize("kind", ["SparseLogisticClassifier", "SparseLogisticClassifierCV"])
def test_labels_without_an_order_are_named_with_their_row(kind, other):
    X, y = sample()
    labels = np.where(y > 0, "up", "down").astype(object)
    labels[3] = other
    said = "NaN" if other != other else f"{other!r} in row 3, expected labels of one kind"
    with pytest.raises(ValueError, match=said):
        getattr(sa, kind)().fit(X, labels)


# ---------------------------------------------------------------- weights


def weighing(role):
    """Return everything that takes weights, as functions of them, and rows to pass."""
    X, y = sample()
    names = {"Regressor": "LassoRegressor", "Classifier": "SparseLogisticClassifier"}
    cls, search = (getattr(sa, names[role] + suffix) for suffix in ("", "CV"))
    y = y if role == "Regressor" else y > 0
    model = cls().fit(X, y)
    scored = "neg_mean_squared_error" if role == "Regressor" else "accuracy"
    return [
        lambda weight: cls().fit(X, y, sample_weight=weight).coef_,
        lambda weight: cls().path(X, y, alphas=2, sample_weight=weight).coefs,
        lambda weight: cls().alpha_max(X, y, sample_weight=weight),
        lambda weight: search(alphas=3, cv=2).fit(X, y, sample_weight=weight).score_path_,
        lambda weight: (
            search(alphas=3, cv=2, scoring=scored).fit(X, y, sample_weight=weight).score_path_
        ),
        lambda weight: model.score(X, y, sample_weight=weight),
    ]


@pytest.mark.filterwarnings("ignore:.*chose alpha")
@pytest.mark.parametrize("role", ["Regressor", "Classifier"])
def test_one_weight_for_all_rows_is_none_wherever_it_is_passed(role):
    for call in weighing(role):
        without = call(None)
        for weight in (2, 0.5, np.float32(3)):
            np.testing.assert_array_equal(call(weight), without)


@pytest.mark.parametrize("role", ["Regressor", "Classifier"])
def test_wrong_weights_are_told_alike_wherever_they_are_passed(role):
    missing, text = np.ones(60), ["heavy"] * 60
    missing[3] = np.nan
    for wrong, words in (
        (0.0, "sample_weight is 0.0, expected a finite number > 0"),
        (-1, "sample_weight is -1, expected a finite number > 0"),
        (np.nan, "sample_weight is nan, expected a finite number > 0"),
        (-np.ones(60), "Negative values in data passed to `sample_weight`"),
        (np.zeros(60), "at least one non-zero number"),
        (missing, "sample_weight contains NaN"),
        (np.ones(59), r"sample_weight.shape == \(59,\), expected \(60,\)"),
        (np.ones((60, 1)), "1D array or scalar, got 2D array"),
        (text, "could not convert string to float: 'heavy'"),
        (np.ma.masked_equal(missing, 1.0), "sample_weight has 59 masked entries"),
    ):
        for call in weighing(role):
            with pytest.raises(ValueError, match=words):
                call(wrong)


@pytest.mark.parametrize("name", ["y", "weight", "offset"])
def test_one_number_for_the_rows_of_a_source_is_refused_by_its_name(name):
    X, y = sample()
    with pytest.raises(ValueError, match=f"{name} is 0.5, X has 60; pass one per row"):
        ArraySource(X, **{"y": y} | {name: 0.5})


# ---------------------------------------------------------------- offsets


@pytest.mark.parametrize("role", ["Regressor", "Classifier"])
def test_wrong_offsets_are_named_wherever_they_are_passed(role):
    X, y = sample()
    cls = sa.LassoRegressor if role == "Regressor" else sa.SparseLogisticClassifier
    y = y if role == "Regressor" else y > 0
    missing, infinite = np.zeros(60), np.zeros(60)
    missing[3], infinite[4] = np.nan, -np.inf
    model = cls().fit(X, y, offset=np.zeros(60))
    assert_same(model, cls().fit(X, y))
    search = {"Regressor": sa.LassoRegressorCV, "Classifier": sa.SparseLogisticClassifierCV}[role]
    for wrong, words in (
        (missing, "offset contains NaN or infinity; drop or impute"),
        (infinite, "offset contains NaN or infinity; drop or impute"),
        (np.zeros((60, 2)), r"offset has shape \(60, 2\), expected \(60,\): one number per row"),
        (np.zeros(59), r"offset has shape \(59,\), expected \(60,\): one number per row"),
        (0.5, r"offset is 0.5, expected an array of shape \(60,\): one number per row"),
        (np.ma.masked_equal(np.arange(60.0), 3.0), "offset has 1 masked entries"),
    ):
        for call in (
            lambda offset: cls().fit(X, y, offset=offset),
            lambda offset: cls().path(X, y, offset=offset),
            lambda offset: cls().alpha_max(X, y, offset=offset),
            lambda offset: search(alphas=3, cv=2).fit(X, y, offset=offset),
            lambda offset: model.predict(X, offset=offset),
            lambda offset: model.score(X, y, offset=offset),
        ):
            with pytest.raises(ValueError, match=words):
                call(wrong)
