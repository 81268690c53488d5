"""The choice of alpha: scores that are no numbers, weights, and what is refused at once."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import KFold, LeaveOneOut

import stochadmm as sa
from stochadmm.estimators._search import best_index, takes_weights


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.0] + 0.5 * rng.standard_normal(60)


# ---------------------------------------------------------------- scores that are no numbers


@pytest.mark.filterwarnings("ignore:Only one class is present")
def test_a_fold_of_one_class_is_left_out_and_the_others_choose(rows):
    X, y = rows
    labels = y > 0
    labels[:12] = True  # the first of five folds in the order of the rows
    model = sa.SparseLogisticClassifierCV(alphas=10, scoring="roc_auc", cv=KFold(5))
    with pytest.warns(UserWarning, match=r"leaves out fold 0 of 5 .* no alpha has a finite score"):
        model.fit(X, labels)
    assert np.isnan(model.score_path_[:, 0]).all() and model.score_path_.shape == (10, 5)
    rest = model.score_path_[:, 1:].mean(axis=1)
    assert model.best_index_ == np.argmax(rest) > 0 and model.coef_.any()
    assert "by 4 folds" in model.summary() and "nan" not in model.summary()


def test_an_alpha_without_a_score_in_one_fold_is_not_chosen(rows):
    X, y = rows

    def scorer(model, X, y):
        return np.nan if model._last_strength < 0.02 and X[0, 0] == first else -abs(model.dof_ - 9)

    first = rows[0][0, 0]
    model = sa.LassoRegressorCV(alphas=[1.0, 0.1, 0.05, 0.01], scoring=scorer, cv=KFold(3))
    with pytest.warns(UserWarning, match=r"cannot choose 1 of 4 alphas \(0.01\)"):
        model.fit(X, y)
    assert model.best_index_ in (1, 2)
    assert np.isnan(model.score_path_).sum() == 1


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
def test_scores_that_are_never_numbers_are_an_error_not_the_null_model(rows):
    X, y = rows
    model = sa.LassoRegressorCV(alphas=4, scoring="r2", cv=LeaveOneOut())
    with pytest.raises(ValueError, match="in all 12 folds that is no finite number; choose folds"):
        model.fit(X[:12], y[:12])
    holes = np.array([[1.0, np.nan], [-np.inf, 1.0]])
    with pytest.raises(ValueError, match="in some fold that is no finite number"):
        best_index(holes, one_standard_error=False)


def test_a_fold_of_weight_zero_is_left_out_as_if_its_rows_were_absent(rows):
    X, y = rows
    weight = np.ones(60)
    weight[20:40] = 0
    model = sa.LassoRegressorCV(alphas=[0.3, 0.1, 0.05, 0], cv=KFold(3))
    with pytest.warns(UserWarning, match="leaves out fold 1 of 3"):
        model.fit(X, y, sample_weight=weight)
    kept = np.r_[0:20, 40:60]
    folds = [(np.arange(20, 40), np.arange(20)), (np.arange(20), np.arange(20, 40))]
    absent = sa.LassoRegressorCV(alphas=[0.3, 0.1, 0.05, 0], cv=folds).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.score_path_[:, [0, 2]], absent.score_path_, rtol=1e-6)
    np.testing.assert_allclose(model.coef_, absent.coef_, atol=1e-6)


def test_pictures_of_scores_leave_the_same_folds_out(rows):
    pytest.importorskip("matplotlib").use("agg")
    X, y = rows
    weight = np.r_[np.zeros(20), np.ones(40)]
    model = sa.LassoRegressorCV(alphas=4, cv=KFold(3))
    with pytest.warns(UserWarning, match="leaves out fold 0"):
        model.fit(X, y, sample_weight=weight)
    drawn = model.plot_path().lines[0].get_ydata()
    np.testing.assert_allclose(drawn, model.score_path_[:, 1:].mean(axis=1))


# ---------------------------------------------------------------- weights and scorers


def plain_scorer(model, X, y):
    return -float(np.square(model.predict(X) - y).mean())


def weighted_scorer(model, X, y, sample_weight=None):
    return -float(np.average(np.square(model.predict(X) - y), weights=sample_weight))


def furthest(y, predicted):
    return float(np.abs(y - predicted).max())


def test_weights_reach_the_scorers_that_take_them(rows):
    X, y = rows
    weight = np.linspace(0.1, 2.0, 60)
    own = sa.LassoRegressorCV(alphas=5, cv=3).fit(X, y, sample_weight=weight)
    weighted = sa.LassoRegressorCV(alphas=5, cv=3, scoring=weighted_scorer)
    np.testing.assert_allclose(
        weighted.fit(X, y, sample_weight=weight).score_path_, own.score_path_
    )
    for scoring in (plain_scorer, make_scorer(furthest, greater_is_better=False)):
        model = sa.LassoRegressorCV(alphas=5, cv=3, scoring=scoring)
        with pytest.warns(UserWarning, match="does not weight its scores: scoring takes no samp"):
            model.fit(X, y, sample_weight=weight)
        assert np.isfinite(model.score_path_).all()
    assert takes_weights(get_scorer("roc_auc")) and takes_weights(lambda model, **more: 0.0)


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("cuts", [[0.0], [-0.5, 0.5]])
def test_labels_in_one_column_have_the_scores_of_a_vector(rows, cuts):
    X, y = rows
    labels = np.array(["low", "middle", "top"])[np.digitize(y, cuts)]
    for loss in ("logistic", "squared_hinge"):
        model = sa.SparseLogisticClassifierCV(alphas=8, cv=3, loss=loss)
        vector = model.fit(X, labels).score_path_
        np.testing.assert_allclose(model.fit(X, labels[:, None]).score_path_, vector)
    own = sa.SparseLogisticClassifierCV(alphas=8, cv=3).fit(X, labels[:, None])
    theirs = sa.SparseLogisticClassifierCV(alphas=8, cv=3, scoring="neg_log_loss").fit(X, labels)
    np.testing.assert_allclose(own.score_path_, theirs.score_path_, rtol=1e-6)


# ---------------------------------------------------------------- refused, or said, at once


def test_an_alpha_of_zero_has_none_below_it(rows):
    X, _ = rows
    model = sa.LassoRegressorCV(alphas=[0, 0.1], cv=3).fit(X, X @ np.arange(5.0))
    assert model.alpha_ == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": []}, r"cv is \[\] and gives no folds"),
        ({"scoring": ["r2", "max_error"]}, "scoring is .*expected the name of one score"),
        ({"scoring": {"a": "r2"}}, "scoring is .*expected the name of one score"),
        ({"scoring": "accurate"}, "accurate"),
        ({"scoring": lambda model, X, y: {"a": 1.0}}, r"scoring returned \{'a': 1.0\}, expected"),
        ({"eps": "a"}, "eps is 'a', expected a number between 0 and 1"),
        ({"eps": 1.0}, "eps is 1.0, expected a number between 0 and 1"),
        ({"alphas": 0}, "alphas is 0, expected at least one alpha"),
        ({"alphas": 1e2}, "non-negative numbers, .* in a list, .* how many to try; got 100.0"),
        ({"alphas": np.array(0.1)}, "non-negative numbers, .* in a list"),
        ({"one_standard_error": "False"}, "one_standard_error is 'False', expected True or False"),
        ({"n_jobs": 1.5}, "n_jobs is 1.5, expected None or a whole number"),
        ({"n_jobs": 0}, "n_jobs is 0, expected None or a whole number"),
    ],
)
def test_wrong_options_are_named(rows, options, message):
    with pytest.raises(ValueError, match=message):
        sa.LassoRegressorCV(**{"alphas": 3, "cv": 3} | options).fit(*rows)


@pytest.mark.filterwarnings("ignore:LassoRegressorCV chose alpha")
def test_folds_from_an_iterator_are_used_once_and_said_to_be_used_up(rows):
    X, y = rows
    listed = sa.LassoRegressorCV(alphas=3, cv=list(KFold(3).split(X))).fit(X, y)
    for routing in (False, True):
        model = sa.LassoRegressorCV(alphas=3, cv=KFold(3).split(X))
        with sklearn.config_context(enable_metadata_routing=routing):
            np.testing.assert_array_equal(model.fit(X, y).score_path_, listed.score_path_)
            with pytest.raises(ValueError, match="used up by the first fit, pass a list"):
                model.fit(X, y)


def test_a_picture_before_the_fit_says_that_there_is_none():
    with pytest.raises(NotFittedError):
        sa.LassoRegressorCV().plot_path()


# ---------------------------------------------------------------- one fit after the other


@pytest.mark.filterwarnings("ignore:LassoRegressorCV chose alpha")
def test_a_fit_keeps_nothing_of_the_one_before(rows):
    X, y = rows
    model = sa.LassoRegressorCV(alphas=3, cv=3, refit=True).fit(X, y)
    assert {"mse_path_", "penalized_coef_", "refit_result_"} <= vars(model).keys()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y)
    assert {"mse_path_", "penalized_coef_"} <= vars(model).keys()  # it failed: as it was
    model.set_params(loss="huber", refit=False).fit(X, y)
    fresh = sa.LassoRegressorCV(alphas=3, cv=3, loss="huber").fit(X, y)
    assert vars(model).keys() == vars(fresh).keys()
