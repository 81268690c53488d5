"""``refit``, ``to_sklearn`` and the page for notebooks: what is promised holds for every model."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression

import stochadmm as sa
from stochadmm.estimators.refit import of_levels


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = X @ [2.0, 2.0, 2.0, 0.0, 0.0, -1.0, -1.0, 0.0] + 1 + 0.5 * rng.standard_normal(300)
    return X, y


@pytest.mark.parametrize("kind", ["dense", "sparse", "standardized", "weighted"])
def test_a_refitted_lasso_is_least_squares_on_its_support(rows, kind):
    X, y = rows
    weight = np.random.default_rng(1).integers(1, 4, len(y)) if kind == "weighted" else None
    options = {"alpha": 0.3, "refit": True, "standardize": kind == "standardized"}
    given = sparse.csr_array(X) if kind == "sparse" else X
    model = sa.LassoRegressor(**options).fit(given, y, sample_weight=weight)
    kept = np.flatnonzero(model.penalized_coef_)
    assert 0 < kept.size < 8
    own = LinearRegression().fit(X[:, kept], y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_[kept], own.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, own.intercept_, atol=1e-6)
    assert not np.delete(model.coef_, kept).any()


def test_a_share_mixes_the_two_fits(rows):
    X, y = rows
    whole = sa.LassoRegressor(alpha=0.3, refit=True).fit(X, y)
    part = sa.LassoRegressor(alpha=0.3, refit=0.25).fit(X, y)
    mean = 0.75 * whole.penalized_coef_ + 0.25 * whole.coef_
    np.testing.assert_allclose(part.coef_, mean, atol=1e-9)
    none = sa.LassoRegressor(alpha=0.3).fit(X, y)
    np.testing.assert_array_equal(none.coef_, whole.penalized_coef_)
    assert not hasattr(none, "penalized_coef_")


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_levels_stay_tied_and_are_fitted_without_shrinkage(rows, ratio):
    X, y = rows
    model = sa.FusedLassoRegressor(alpha=0.3, l1_ratio=ratio, refit=True).fit(X, y)
    levels = model.levels_
    names = [k for k in np.unique(levels) if ratio == 0 or model.penalized_coef_[levels == k][0]]
    pooled = np.column_stack([X[:, levels == k].sum(axis=1) for k in names])
    own = LinearRegression().fit(pooled, y)
    for k, value in zip(names, own.coef_, strict=True):
        found = model.coef_[levels == k]
        assert np.unique(found).size == 1  # exact ties
        assert found[0] == pytest.approx(value, abs=1e-6)


def test_levels_of_opposite_sign_stay_opposite():
    coef = np.array([-2.0, 2.0, 0.0, 3.0, -2.0])
    levels = np.array([0, 0, 1, 2, 0]), np.array([1.0, -1.0, 1.0, 1.0, 1.0])
    space = of_levels(coef, levels, np.zeros(5, dtype=bool), zeros_stay=True)
    np.testing.assert_array_equal(space.basis.toarray().T, [[1, -1, 0, 0, 1], [0, 0, 0, 1, 0]])


def test_trends_keep_their_kinks():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 12))
    w = np.abs(np.arange(12.0) - 5)
    y = X @ w + rng.standard_normal(200)
    model = sa.TrendFilterRegressor(alpha=3.0, refit=True).fit(X, y)
    before, after = (np.diff(c, 2) for c in (model.penalized_coef_, model.coef_))
    held = np.abs(before) < 1e-9
    assert held.any() and np.abs(after[held]).max() < 1e-8
    assert (
        np.square(y - model.predict(X)).mean()
        < np.square(y - X @ model.penalized_coef_ - model.penalized_intercept_).mean()
    )


@pytest.mark.parametrize("latent", [False, True])
def test_groups_keep_their_support(rows, latent):
    X, y = rows
    groups = [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7]]
    model = sa.OverlappingGroupRegressor(alpha=1.2, groups=groups, latent=latent, refit=True)
    model.fit(X, y)
    kept = np.flatnonzero(model.penalized_coef_)
    assert 0 < kept.size < 8
    own = LinearRegression().fit(X[:, kept], y)
    np.testing.assert_allclose(model.coef_[kept], own.coef_, atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(model.coef_), kept)


def test_low_rank_keeps_rank_and_column_space():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 6))
    W = np.outer([1.0, 1, -1, 0, 0, 0], [1.0, 2, -1, 0.5])
    Y = X @ W + 0.5 * rng.standard_normal((200, 4))
    model = sa.SparseLowRankRegressor(alpha=3.0, l1_ratio=0.3, sparsity="rows", refit=True)
    model.fit(X, Y)
    assert model.rank_ == 1
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) == 1
    zero = ~model.sparse_coef_.any(axis=0)
    assert not model.coef_[:, zero].any()
    error = [np.square(c.T - W).sum() for c in (model.coef_, model.penalized_coef_)]
    assert error[0] < error[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_refit_of_many_tasks_with_missing_targets_is_least_squares_of_each(intercept, weighted):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((300, 12))
    W = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 15))
    Y = X @ W + rng.standard_normal((300, 15)) + 2.0
    Y[rng.random(Y.shape) < 0.7] = np.nan
    weight = rng.integers(0, 3, 300).astype(float) if weighted else np.ones(300)
    model = sa.SparseLowRankRegressor(
        alpha=0.4, l1_ratio=0.0, fit_intercept=intercept, refit=True, tol=1e-8
    ).fit(X, Y, sample_weight=weight)
    assert 0 < model.rank_ < 12
    span = np.linalg.svd(model.penalized_coef_.T)[0][:, : model.rank_]
    for k, target in enumerate(Y.T):
        seen = ~np.isnan(target)
        columns = X[seen] @ span
        own = LinearRegression(fit_intercept=intercept).fit(
            columns, target[seen], sample_weight=weight[seen]
        )
        np.testing.assert_allclose(model.coef_[k], span @ own.coef_, atol=1e-5)
        if intercept:
            assert model.intercept_[k] == pytest.approx(own.intercept_, abs=1e-5)


def test_rows_at_zero_take_no_direction_from_the_others():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30))
    W[rng.random(40) < 0.5] = 0.0
    X = rng.standard_normal((120, 40))
    Y = X @ W + 4.0 * rng.standard_normal((120, 30))
    model = sa.SparseLowRankRegressor(l1_ratio=0.4, sparsity="rows", refit=True)
    model.set_params(alpha=0.3 * model.alpha_max(X, Y)).fit(X, Y)
    before, after = (
        np.linalg.svd(c, compute_uv=False) for c in (model.penalized_coef_, model.coef_)
    )
    assert model.rank_ >= 2
    assert (after[: model.rank_] > before[: model.rank_]).all()  # no direction is lost or shrunk
    assert after[model.rank_] < 1e-8 * after[0]
    used = model.penalized_coef_.any(axis=0)
    assert 0 < used.sum() < 40 and not model.coef_[:, ~used].any()
    error = [np.square(c.T - W).sum() for c in (model.coef_, model.penalized_coef_)]
    assert error[0] < 0.5 * error[1]


def test_classes_that_can_be_told_apart_have_a_finite_refit():
    X = np.random.default_rng(0).standard_normal((40, 5))
    model = sa.SparseLogisticClassifier(alpha=0.05, refit=True).fit(X, X[:, 0] > 0)
    assert np.isfinite(model.coef_).all() and model.score(X, X[:, 0] > 0) == 1.0


def test_a_refitted_classifier_is_logistic_regression_on_its_support(rows):
    X, y = rows
    labels = np.digitize(y + np.random.default_rng(5).logistic(size=len(y)), [-1, 2])
    model = sa.SparseLogisticClassifier(alpha=0.08, refit=True, tol=1e-6).fit(X, labels)
    assert (model.penalized_coef_ == 0).any()
    np.testing.assert_array_equal(model.coef_ == 0, model.penalized_coef_ == 0)
    two = labels > 0
    model = sa.SparseLogisticClassifier(alpha=0.08, refit=True, tol=1e-6).fit(X, two)
    kept = np.flatnonzero(model.coef_)
    own = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X[:, kept], two)
    np.testing.assert_allclose(model.coef_[0, kept], own.coef_[0], rtol=1e-3)


def test_signs_are_kept_by_a_refit(rows):
    X, y = rows
    model = sa.LassoRegressor(alpha=0.05, positive=True, refit=True).fit(X, y)
    assert (model.coef_ >= 0).all()
    model = sa.TrendFilterRegressor(positive=True, refit=True).fit(X, y)
    assert (model.coef_ >= -1e-9).all()
    assert model.score(X, y) >= sa.TrendFilterRegressor(positive=True).fit(X, y).score(X, y)


@pytest.mark.parametrize("value", [-0.1, 1.5, "yes", None])
def test_a_wrong_share_is_refused(rows, value):
    with pytest.raises(ValueError, match="refit is"):
        sa.LassoRegressor(refit=value).fit(*rows)


def test_cross_validation_scores_what_it_delivers(rows):
    X, y = rows
    plain = sa.LassoRegressorCV(alphas=8, cv=4).fit(X, y)
    again = sa.LassoRegressorCV(alphas=8, cv=4, refit=True).fit(X, y)
    assert np.count_nonzero(again.coef_) <= np.count_nonzero(plain.coef_)
    train, test = np.arange(75, 300), np.arange(75)  # the first of four folds without shuffling
    one = sa.LassoRegressor(alpha=again.alphas_[3], refit=True).fit(X[train], y[train])
    error = np.square(one.predict(X[test]) - y[test]).mean()
    assert -again.score_path_[3, 0] == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("squared", "LinearRegression"),
        ("huber", "LinearRegression"),
        ("quantile", "LinearRegression"),
        ("poisson", "PoissonRegressor"),
    ],
)
def test_regressors_as_plain_models_predict_the_same(rows, loss, kind):
    X, y = rows
    if loss == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(0.2 * X[:, 0]))
    model = sa.LassoRegressor(alpha=0.01, loss=loss).fit(X, y)
    plain = model.to_sklearn()
    assert type(plain).__name__ == kind
    np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_classifiers_as_plain_models_predict_the_same(rows, classes, loss):
    X, y = rows
    labels = np.array(["a", "b", "c"])[np.digitize(y, [0, 3][: classes - 1])]
    model = sa.FusedLassoClassifier(alpha=0.01, loss=loss).fit(X, labels)
    plain = model.to_sklearn()
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(plain.decision_function(X), model.decision_function(X), rtol=1e-12)
    if loss == "logistic":
        np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
def test_two_classes_with_a_score_each_are_one_score_in_a_plain_model(rows, intercept):
    X, y = rows
    model = sa.FusedLassoClassifier(alpha=0.01, loss=sa.Multinomial(2), fit_intercept=intercept)
    plain = model.fit(X, np.where(y > 0, "a", "b")).to_sklearn()
    assert plain.coef_.shape == (1, 8)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_names_of_columns_and_several_targets_travel(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = sa.SparseLowRankRegressor(alpha=0.01).fit(frame, np.column_stack([y, -y]))
    plain = model.to_sklearn()
    np.testing.assert_allclose(plain.predict(frame), model.predict(frame), rtol=1e-12)
    assert plain.feature_names_in_.tolist() == list("abcdefgh")


def test_a_loss_without_a_plain_model_says_so(rows):
    X = rows[0]
    counts = np.column_stack([np.arange(300) % 3, np.arange(300) % 2])
    model = sa.SparseLowRankRegressor(loss="poisson", alpha=0.1).fit(X, counts)
    with pytest.raises(ValueError, match="Poisson with several outputs"):
        model.to_sklearn()


def test_notebooks_show_the_diagram_and_the_summary(rows):
    model = sa.LassoRegressor(alpha=0.3)
    assert "degrees of freedom" not in model._repr_html_()
    page = model.fit(*rows)._repr_html_()
    assert "sk-top-container" in page and "degrees of freedom" in page
    assert "degrees of freedom" in json.dumps(model._repr_mimebundle_())
