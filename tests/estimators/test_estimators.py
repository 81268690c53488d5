"""Estimators: scikit-learn's contract, and what must not change the answer."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

import stochadmm as sa
from stochadmm import estimators

NAMES = [
    name
    for name in estimators.__all__
    # those of data frames have tests of their own
    if not name.endswith("CV") and not name.startswith("Structured")
]
TWIN = {name: name + "CV" for name in NAMES}


def make(name, **params):
    return getattr(sa, name)(**params)


def sample(n=40, d=6, seed=0, classes=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X @ np.array([1.0, 1.0, 0.0, 0.0, -1.0, -1.0])[:d] + 0.5 * rng.standard_normal(n)
    if classes == 2:
        y = np.where(y > 0, "yes", "no")
    elif classes == 3:
        y = np.digitize(y, [-0.7, 0.7])
    return X, y


def fitted_sample(name, several=False, **kwargs):
    """Data for an estimator: several outputs, or one."""
    if name.endswith("Classifier"):
        return sample(classes=3 if several else 2, **kwargs)
    X, y = sample(**kwargs)
    return X, np.column_stack([y, 2 * y + X[:, 0], -y]) if several else y


@parametrize_with_checks([make(name) for name in NAMES])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


QUICK = ("LassoRegressorCV", "SparseLogisticClassifierCV")


def searches(names):
    return [make(name, alphas=2, cv=2, eps=0.01) for name in names]


@parametrize_with_checks(searches(QUICK))
def test_scikit_learn_contract_of_cross_validation(estimator, check):
    check_quietly(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(searches(name for name in TWIN.values() if name not in QUICK))
def test_scikit_learn_contract_of_all_cross_validation(estimator, check):
    check_quietly(estimator, check)


def test_the_last_digits_of_a_search_do_not_depend_on_how_rows_are_counted():
    """The last step gains less than F rounds by, and is taken all the same."""
    (search,) = searches(["SparseGroupLassoClassifierCV"])

    def check(estimator):
        check_sample_weight_equivalence_on_dense_data("the search", estimator)

    check_quietly(search, check)


def check_quietly(estimator, check):
    with warnings.catch_warnings():
        # halves of ten rows may be separable, or have a class with one row
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_has_its_cross_validated_twin(name):
    assert issubclass(getattr(sa, TWIN[name]), getattr(sa, name))
    assert "alpha" not in make(TWIN[name]).get_params()


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_parameter_is_documented_once(name):
    cls = getattr(sa, name)
    section = cls.__doc__.split("Attributes\n-----")[0]
    listed = [line.split(" : ")[0] for line in section.splitlines() if " : " in line]
    listed = [word for word in listed if not word.startswith(" ")]
    assert sorted(listed) == sorted(cls().get_params())
    places = ("{shared}", "{attributes}", "{cv}", "{own}", "{cv_attributes}")
    assert not any(place in cls.__doc__ for place in places)


# ---------------------------------------------------------------- what must not matter

several = pytest.mark.parametrize("several", [False, True])
every = pytest.mark.parametrize("name", NAMES)


def assert_same(first, second, rtol=1e-6, atol=1e-7):
    np.testing.assert_allclose(first.coef_, second.coef_, rtol=rtol, atol=atol)
    np.testing.assert_allclose(first.intercept_, second.intercept_, rtol=rtol, atol=atol)


@every
@several
def test_doubling_a_weight_equals_repeating_the_row(name, several):
    X, y = fitted_sample(name, several)
    weight = np.ones(len(X))
    weight[:7] = 2
    weighted = make(name).fit(X, y, sample_weight=weight)
    repeated = make(name).fit(np.concatenate([X, X[:7]]), np.concatenate([y, y[:7]]))
    assert_same(weighted, repeated)


@every
def test_weight_zero_equals_a_row_that_is_absent(name):
    X, y = fitted_sample(name)
    weight = np.ones(len(X))
    weight[30:] = 0
    assert_same(make(name).fit(X, y, sample_weight=weight), make(name).fit(X[:30], y[:30]))


@every
def test_the_order_of_the_rows_is_irrelevant(name):
    X, y = fitted_sample(name, True)
    order = np.random.default_rng(1).permutation(len(X))
    assert_same(make(name).fit(X, y), make(name).fit(X[order], y[order]))


@pytest.mark.parametrize("name", [n for n in NAMES if "Fused" not in n and "Trend" not in n])
def test_permuted_columns_permute_the_answer(name):
    X, y = fitted_sample(name)
    order = np.random.default_rng(1).permutation(X.shape[1])
    first, second = make(name).fit(X, y), make(name).fit(X[:, order], y)
    np.testing.assert_allclose(first.coef_.T[order].T, second.coef_, atol=1e-7)


@every
def test_sparse_dense_frames_and_memory_maps_agree(name, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = fitted_sample(name)
    X[np.abs(X) < 0.3] = 0
    dense = make(name).fit(X, y)
    narrow, wide = sparse.csr_array(X), sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    names = [f"x{j}" for j in range(X.shape[1])]
    for other in (narrow, wide, mapped, pd.DataFrame(X, columns=names), pl.DataFrame(X, names)):
        model = make(name).fit(other, y)
        assert_same(dense, model)
        if is_classifier(model):
            np.testing.assert_array_equal(model.predict(other), dense.predict(X))
        else:
            np.testing.assert_allclose(model.predict(other), dense.predict(X), atol=1e-6)
    assert model.feature_names_in_.tolist() == names


@every
def test_float32_stays_float32(name):
    X, y = fitted_sample(name, several=True)
    exact, single = make(name).fit(X, y), make(name).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, exact.coef_, atol=5e-3)


@every
def test_nothing_passed_in_changes(name):
    X, y = fitted_sample(name)
    before = X.copy(), y.copy()
    make(name, standardize=True).fit(X, y)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


# ---------------------------------------------------------------- strength


@every
@several
def test_above_alpha_max_is_the_null_model_and_below_is_not(name, several):
    X, y = fitted_sample(name, several)
    model = make(name)
    largest = model.alpha_max(X, y)
    above = clone(model).set_params(alpha=1.01 * largest).fit(X, y)
    below = clone(model).set_params(alpha=0.99 * largest).fit(X, y)
    if "Trend" in name:  # straight lines are free
        assert np.abs(np.diff(above.coef_, 2)).max() < 1e-7
        assert np.abs(np.diff(below.coef_, 2)).max() > 1e-6
    else:
        assert not above.coef_.any()
        assert below.coef_.any()


def test_alpha_max_of_pure_fusion_leaves_the_mean_free():
    X, y = sample()
    for graph in ("chain", (2, 3), [(0, 1), (1, 2), (0, 2)]):
        model = sa.GraphFusedRegressor(l1_ratio=0, graph=graph)
        largest = model.alpha_max(X, y)
        above = clone(model).set_params(alpha=1.01 * largest).fit(X, y)
        below = clone(model).set_params(alpha=0.99 * largest).fit(X, y)
        assert np.unique(below.levels_).size > np.unique(above.levels_).size


@every
def test_the_intercept_is_unpenalized(name):
    X, y = fitted_sample(name)
    model = make(name).set_params(alpha=10.0).fit(X, y)
    if name.endswith("Regressor"):
        shifted = make(name).set_params(alpha=10.0).fit(X, y + 100)
        np.testing.assert_allclose(shifted.intercept_, model.intercept_ + 100)
    else:
        share = np.mean(y == "yes")
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], share, atol=1e-6)


@every
def test_unpenalized_columns_are_unpenalized(name):
    X, y = sample()
    if name.endswith("Classifier"):
        y = np.where(y > 0, "yes", "no")
    model = make(name, unpenalized=[2], alpha=100.0).fit(X, y)
    alone = make(name, unpenalized=[0], alpha=0.0).fit(X[:, [2]], y)
    coef = np.atleast_2d(model.coef_)[0]
    if "Trend" not in name:
        np.testing.assert_allclose(coef[2], np.ravel(alone.coef_)[0], atol=1e-5)
        assert not np.delete(coef, 2).any()
    np.testing.assert_allclose(np.diff(np.delete(coef, 2), 2), 0, atol=1e-9)


@every
def test_positive_coefficients(name):
    X, y = fitted_sample(name)
    model = make(name, positive=True, alpha=1e-3).fit(X, y)
    assert model.coef_.min() >= -1e-12
    assert model.coef_.max() > 0


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("intercept", [True, False])
def test_standardize_is_scaling_the_columns(storage, intercept):
    X, y = sample()
    X = np.where(np.abs(X) < 0.3, 0, X) * [1, 10, 100, 1, 0.1, 1]
    spread = X.std(axis=0) if intercept else np.sqrt((X**2).mean(axis=0))
    scaled = sa.FusedLassoRegressor(fit_intercept=intercept).fit(X / spread, y)
    model = sa.FusedLassoRegressor(fit_intercept=intercept, standardize=True)
    model.fit(storage(X), y)
    np.testing.assert_allclose(model.coef_ * spread, scaled.coef_, atol=1e-7)
    np.testing.assert_allclose(model.predict(X), scaled.predict(X / spread), atol=1e-6)
    np.testing.assert_array_equal(model.levels_, scaled.levels_)


# ---------------------------------------------------------------- structures


def test_special_cases_agree():
    X, y = sample()
    labels = y > 0
    lasso = sa.LassoRegressor(alpha=0.1).fit(X, y)
    for same in (
        sa.OverlappingGroupRegressor(alpha=0.1),
        sa.OverlappingGroupRegressor(alpha=0.1, latent=True),
        sa.GeneralizedLassoRegressor(alpha=0.1),
        sa.FusedLassoRegressor(alpha=0.1, l1_ratio=1.0),
        sa.SparseLowRankRegressor(alpha=0.1, l1_ratio=1.0),
    ):
        assert_same(lasso, same.fit(X, y))
    fused = sa.FusedLassoClassifier(alpha=0.05, l1_ratio=0.3).fit(X, labels)
    for graph in ("chain", [(j + 1, j) for j in range(5)], (6,)):
        same = sa.GraphFusedClassifier(alpha=0.05, l1_ratio=0.3, graph=graph)
        assert_same(fused, same.fit(X, labels))
    steps = sa.TrendFilterRegressor(alpha=0.1, order=0).fit(X, y)
    assert_same(sa.FusedLassoRegressor(alpha=0.1, l1_ratio=0.0).fit(X, y), steps)


def test_disjoint_groups_are_the_group_lasso_with_and_without_latent_copies():
    X, y = sample()
    groups = [[0, 3], [1, 2, 5], [4]]
    plain = sa.OverlappingGroupRegressor(alpha=0.3, groups=groups).fit(X, y)
    latent = sa.OverlappingGroupRegressor(alpha=0.3, groups=groups, latent=True).fit(X, y)
    assert_same(plain, latent)
    order = [2, 0, 1]
    permuted = sa.OverlappingGroupRegressor(alpha=0.3, groups=[groups[g][::-1] for g in order])
    assert_same(plain, permuted.fit(X, y))
    assert sorted(order[g] for g in permuted.active_groups_) == plain.active_groups_


def test_graphs_of_every_kind_agree():
    nx = pytest.importorskip("networkx")
    X, y = sample()
    edges = [(0, 1), (2, 1), (4, 5), (0, 3)]
    adjacency = np.zeros((6, 6))
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1
    first = sa.GraphFusedRegressor(alpha=0.1, graph=edges).fit(X, y)
    for graph in (
        [(j, i) for i, j in edges[::-1]],
        np.array(edges),
        [(i, j, 1.0) for i, j in edges],
        adjacency,
        sparse.csr_array(adjacency),
        nx.Graph(edges),
    ):
        assert_same(first, sa.GraphFusedRegressor(alpha=0.1, graph=graph).fit(X, y))


def test_a_graph_of_signs_and_one_estimated_from_the_data():
    X, y = sample()
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    model = sa.GraphFusedRegressor(alpha=0.3, l1_ratio=0.0, graph="glasso").fit(X, y)
    assert model.coef_[0] == model.coef_[1]
    with pytest.raises(ValueError, match="unknown graph 'glass'"):
        sa.GraphFusedRegressor(graph="glass").fit(X, y)


def test_names_reach_groups_edges_and_unpenalized_columns():
    pd = pytest.importorskip("pandas")
    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = sa.GraphFusedRegressor(graph=[("a", "b"), ("d", "f")], unpenalized=["c"])
    plain = sa.GraphFusedRegressor(graph=[(0, 1), (3, 5)], unpenalized=[2])
    assert_same(named.fit(frame, y), plain.fit(X, y))
    groups = {"ends": ["a", "f"], "rest": ["b", "c", "d", "e"]}
    model = sa.OverlappingGroupRegressor(groups=groups, alpha=0.4).fit(frame, y)
    assert set(model.active_groups_) <= set(groups) and model.n_groups_ == 2
    with pytest.raises(ValueError, match="nearest: a"):
        sa.OverlappingGroupRegressor(groups=[["aa"]]).fit(frame, y)
    with pytest.raises(ValueError, match="unknown column 'zz'"):
        sa.LassoRegressor(unpenalized=["zz"]).fit(frame, y)


def test_grids_and_operators_run_over_the_penalized_columns():
    X, y = sample()
    with_age = np.column_stack([np.linspace(0, 1, len(X)), X])
    grid = sa.GraphFusedRegressor(graph=(2, 3), unpenalized=[0]).fit(with_age, y)
    assert grid.coef_[0] != 0
    D = np.diff(np.eye(6), axis=0)
    chain = sa.GeneralizedLassoRegressor(operator=D, unpenalized=[0]).fit(with_age, y)
    same = sa.FusedLassoRegressor(l1_ratio=0.0, unpenalized=[0]).fit(with_age, y)
    assert_same(chain, same)
    with pytest.raises(ValueError, match="without the 1 unpenalized"):
        sa.GeneralizedLassoRegressor(operator=np.eye(7), unpenalized=[0]).fit(with_age, y)


def test_latent_groups_switch_on_unions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 7))
    y = X[:, :3] @ [1.0, 1.0, 1.0]
    groups = [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    latent = sa.OverlappingGroupRegressor(alpha=0.3, groups=groups, latent=True).fit(X, y)
    assert latent.active_groups_ == [0]
    np.testing.assert_array_equal(np.flatnonzero(latent.coef_), [0, 1, 2])
    overlap = sa.OverlappingGroupRegressor(alpha=0.3, groups=groups).fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(overlap.coef_), [0, 1, 2, 3])
    assert overlap.active_groups_ == [0, 1]


@pytest.mark.parametrize("sparsity", ["entries", "rows"])
def test_with_one_output_the_nuclear_norm_is_the_length(sparsity):
    X, y = sample()
    column = sa.SparseLowRankRegressor(alpha=0.3, sparsity=sparsity).fit(X, y[:, None])
    vector = sa.SparseLowRankRegressor(alpha=0.3, sparsity=sparsity).fit(X, y)
    np.testing.assert_allclose(vector.coef_, column.coef_[0], atol=1e-7)
    group = sa.OverlappingGroupRegressor(alpha=0.3, l1_ratio=0.5, groups=[range(6)]).fit(X, y)
    np.testing.assert_allclose(vector.coef_, group.coef_, atol=1e-7)
    assert vector.rank_ == column.rank_ == 1 and vector.dof_ == column.dof_
    assert vector.low_rank_coef_.shape == vector.sparse_coef_.shape == vector.coef_.shape


def test_a_penalty_of_the_coefficients_themselves_needs_no_constraint():
    X, y = sample()
    groups = [[0, 1, 2], [2, 3], [4, 5]]
    latent = sa.OverlappingGroupRegressor(alpha=0.3, groups=groups, latent=True).fit(X, y)
    assert latent.result_.dual.size == 0
    # a positive model keeps the constraint, and large coefficients stay as they are
    both = [
        sa.GeneralizedLassoRegressor(alpha=0.1, operator=D, positive=True).fit(X, np.abs(y))
        for D in (None, np.eye(6))
    ]
    assert_same(*both)


def test_planted_levels_and_rank_are_recovered():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    truth = np.repeat([0.0, 2.0, 0.0, -1.0], 5)
    model = sa.FusedLassoRegressor(alpha=0.2).fit(X, X @ truth + 0.1 * rng.standard_normal(300))
    assert np.unique(model.levels_).size == 4
    assert model.dof_ == 3  # two levels and the intercept
    W = np.zeros((20, 4))
    W[:6] = np.outer(np.ones(6), [1.0, 2.0, -1.0, 1.0])
    Y = X @ W + 0.1 * rng.standard_normal((300, 4))
    model = sa.SparseLowRankRegressor(alpha=0.3, sparsity="rows").fit(X, Y)
    assert model.rank_ == 1 == np.linalg.matrix_rank(model.low_rank_coef_)
    np.testing.assert_array_equal(np.flatnonzero(model.sparse_coef_.any(axis=0)), np.arange(6))
    np.testing.assert_array_equal(np.flatnonzero(model.coef_.any(axis=0)), np.arange(6))
    np.testing.assert_allclose(model.sparse_coef_, model.low_rank_coef_, atol=1e-6)


# ---------------------------------------------------------------- targets and losses


def test_missing_targets_have_weight_zero():
    X, y = sample()
    Y = np.column_stack([y, -y + X[:, 0]])
    Y[:10, 0] = np.nan
    joint = sa.LassoRegressor().fit(X, Y)
    # the loss is a mean over all rows: three quarters of the rows have the first target
    first = sa.LassoRegressor(alpha=0.01 / 0.75).fit(X[10:], y[10:])
    second = sa.LassoRegressor().fit(X, Y[:, 1])
    np.testing.assert_allclose(joint.coef_[0], first.coef_, atol=1e-7)
    np.testing.assert_allclose(joint.coef_[1], second.coef_, atol=1e-7)
    with pytest.raises(ValueError, match="NaN"):
        sa.LassoRegressor().fit(X, Y[:, 0])


def test_poisson_with_exposure():
    from sklearn.linear_model import PoissonRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) / 3
    exposure = rng.uniform(1, 5, 200)
    counts = rng.poisson(exposure * np.exp(X @ [1.0, 0.5, 0.0, -1.0]))
    model = sa.LassoRegressor(loss="poisson", alpha=0.0).fit(X, counts, offset=np.log(exposure))
    rate = PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000)
    rate.fit(X, counts / exposure, sample_weight=exposure)
    np.testing.assert_allclose(model.coef_, rate.coef_, atol=1e-5)
    np.testing.assert_allclose(
        model.predict(X, offset=np.log(exposure)), exposure * rate.predict(X), rtol=1e-5
    )


@pytest.mark.parametrize("loss", ["huber", "quantile", sa.Huber(0.5), sa.Squared(half=False)])
def test_losses_of_regressors(loss):
    X, y = sample()
    model = sa.FusedLassoRegressor(loss=loss).fit(X, y)
    assert model.status_ is sa.Status.CONVERGED
    assert np.isnan(model.aic_) == (not isinstance(loss, sa.Squared))


@pytest.mark.parametrize("classes", [2, 3])
def test_squared_hinge_has_no_probabilities(classes):
    X, y = sample(classes=classes)
    model = sa.SparseLogisticClassifier(loss="squared_hinge").fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert model.score(X, y) > 0.7
    assert hasattr(sa.SparseLogisticClassifier(), "predict_proba")


def test_class_weights():
    X, y = sample(classes=2)
    y[5:15] = "no"
    rows = np.where(y == "yes", 3.0, 1.0)
    assert_same(
        sa.FusedLassoClassifier(class_weight={"yes": 3.0}).fit(X, y),
        sa.FusedLassoClassifier().fit(X, y, sample_weight=rows),
    )
    mass = {label: np.mean(y == label) for label in ("yes", "no")}
    balanced = np.array([0.5 / mass[label] for label in y])
    assert_same(
        sa.FusedLassoClassifier(class_weight="balanced").fit(X, y),
        sa.FusedLassoClassifier().fit(X, y, sample_weight=balanced),
    )
    with pytest.raises(ValueError, match="no class of y"):
        sa.FusedLassoClassifier(class_weight={"maybe": 2.0}).fit(X, y)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"l1_ratio": 2.0}, "l1_ratio is 2.0"),
        ({"loss": "hinge"}, "loss is 'hinge', expected one of squared"),
        ({"unpenalized": "age"}, "pass a list"),
        ({"solver": "newton"}, "unknown solver 'newton'"),
    ],
)
def test_errors_say_what_to_do(params, words):
    with pytest.raises(ValueError, match=words):
        sa.LassoRegressor(**params).fit(*sample())


# ---------------------------------------------------------------- what a fit says


def test_a_warning_names_both_numbers_and_one_knob():
    X, y = sample(classes=2)
    slow = "sampled-newton"  # by itself so small a fit is one call
    with pytest.warns(ConvergenceWarning, match=r"gap .*tolerance 1.00e-04.*raise max_passes"):
        model = sa.FusedLassoClassifier(alpha=1e-4, max_passes=1, solver=slow).fit(X, y)
    assert model.status_ is sa.Status.MAX_PASSES
    assert "NOT converged" in model.summary()
    with pytest.warns(ConvergenceWarning, match=r"standardize=True.*6 powers of ten"):
        sa.FusedLassoClassifier(alpha=1e-4, max_passes=1, solver=slow).fit(
            X * np.logspace(0, 6, 6), y
        )


def test_a_warm_start_is_warm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30_000, 10))
    y = X @ np.repeat([1.0, 0.0], 5) + rng.standard_normal(30_000) > 0
    model = sa.FusedLassoClassifier(alpha=0.01, tol=1e-6, warm_start=True).fit(X, y)
    cold, coef = model.n_passes_, model.coef_.copy()
    model.fit(X, y)
    assert model.n_passes_ < 0.6 * cold
    np.testing.assert_allclose(model.coef_, coef, atol=1e-3)
    model.set_params(alpha=0.0105).fit(X, y)
    assert model.n_passes_ < cold
    model.fit(X[:, :5], y)  # another shape starts anew
    assert model.status_ is sa.Status.CONVERGED


def test_of_equal_scores_the_largest_alpha_is_chosen():
    from stochadmm.estimators._search import best_index

    scores = np.array([[-1.0, -2.0], [-0.5, -1.0], [-0.5 + 1e-12, -1.0], [-0.9, -1.1]])
    assert best_index(scores, one_standard_error=False) == 1


def test_folds_are_solved_well_enough_to_choose_and_the_last_fit_to_rounding():
    X, y = sample(classes=2)
    model = sa.FusedLassoClassifierCV(alphas=5, cv=2).fit(X, y)
    assert model.dual_gap_ < 1e-12
    plain = sa.FusedLassoClassifier()
    halves = list(StratifiedKFold(2).split(X, y))
    for k, (train, test) in enumerate(halves):
        for place, alpha in enumerate(model.alphas_):
            fit = clone(plain).set_params(alpha=alpha).fit(X[train], y[train])
            loss = log_loss(y[test], fit.predict_proba(X[test]))
            assert model.score_path_[place, k] == pytest.approx(-loss, rel=1e-3)


def test_the_summary_is_in_words():
    X, y = sample(classes=2)
    text = sa.GraphFusedClassifier(alpha=0.05).fit(X, y).summary()
    assert (
        "GraphFusedClassifier of 2 classes with logistic loss, alpha = 0.05, l1_ratio = 0.5"
        in text
    )
    assert "Converged: relative duality gap" in text and "AIC" in text


def test_information_criteria_are_those_of_the_normal_likelihood():
    X, y = sample(n=100)
    model = sa.LassoRegressor(alpha=0.05).fit(X, y)
    residual = y - model.predict(X)
    variance = np.mean(residual**2)
    likelihood = -0.5 * len(y) * (np.log(2 * np.pi * variance) + 1)
    assert model.dof_ == np.count_nonzero(model.coef_) + 1
    np.testing.assert_allclose(model.bic_, -2 * likelihood + np.log(len(y)) * model.dof_)
    np.testing.assert_allclose(model.aic_, -2 * likelihood + 2 * model.dof_)


def test_plots(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    X, y = sample()
    model = sa.GraphFusedRegressor(graph=(2, 3)).fit(X, y)
    assert "gap" in model.plot_convergence().get_ylabel()
    model.plot_coef_graph()
    model.plot_coef_graph(positions=np.column_stack(np.unravel_index(np.arange(6), (2, 3))))
    assert model.path(X, y, alphas=3).plot().get_xlabel() == "alpha"
    with pytest.warns(UserWarning, match="the smallest of 3"):
        chosen = sa.LassoRegressorCV(alphas=3, cv=2).fit(X[:, :1], X[:, 2])
    assert chosen.plot_path().get_xlabel() == "alpha"
    plt.close("all")


@every
def test_pickled_and_cloned_estimators_do_the_same(name):
    X, y = fitted_sample(name)
    model = make(name).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 200_000
    assert clone(model).get_params() == model.get_params()
    assert is_classifier(model) == name.endswith("Classifier")


def test_importing_the_package_does_not_import_scikit_learn():
    import subprocess
    import sys

    code = (
        "import sys, stochadmm; sys.exit(bool({'sklearn', 'stochadmm._core'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'Lasso'"):
        _ = sa.Lasso
    assert "GraphFusedClassifier" in dir(sa)
