"""The search for alpha: interrupts, time, groups of rows, metadata, ends of the grid, offsets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV
from sklearn.metrics import make_scorer, mean_squared_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.samples import sample

import stochadmm as sa
from stochadmm.estimators import _solve
from stochadmm.estimators._search import best_index

# ---------------------------------------------------------------- interrupts


class Interrupting:
    """A method that is interrupted in its n-th epoch, counted over all runs."""

    epochs = 0
    method = sa.SVRGADMM(batch_size=5)
    has_kernel = False

    def __init__(self, when):
        self.when = when
        type(self).epochs = 0

    def __deepcopy__(self, memo):  # as scikit-learn clones it
        return self

    def start(self, problem, x=None, dual=None, workspace=None):
        return self.method.start(problem, x, dual)

    def epoch(self, problem, state, rng):
        type(self).epochs += 1
        if type(self).epochs == self.when:
            raise KeyboardInterrupt
        self.method.epoch(problem, state, rng)


def test_an_interrupted_fit_keeps_its_point_and_passes_the_interrupt_on():
    X, y = sample()
    model = sa.FusedLassoRegressor(solver=Interrupting(5))
    with pytest.raises(KeyboardInterrupt, match=r"interrupted: relative duality gap .* warm_"):
        model.fit(X, y)
    assert model.status_ is sa.Status.INTERRUPTED and model.n_iter_ == 4
    assert model.predict(X).shape == y.shape and "INTERRUPTED" in model.summary()
    assert Interrupting.epochs == 5


SEARCHES = {
    "cv": lambda model, X, y: sa.FusedLassoRegressorCV(
        alphas=4, cv=3, solver=model.solver, tol=1e-2
    ).fit(X, y),
    "path": lambda model, X, y: model.path(X, y, alphas=4),
    "grid": lambda model, X, y: GridSearchCV(model, {"alpha": [0.1, 0.01]}, cv=3).fit(X, y),
    "scores": lambda model, X, y: cross_val_score(model, X, y, cv=3),
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_an_interrupt_ends_the_whole_search(kind):
    X, y = sample()
    model = sa.FusedLassoRegressor(solver=Interrupting(7), tol=1e-2)
    with pytest.raises(KeyboardInterrupt):
        SEARCHES[kind](model, X, y)
    assert Interrupting.epochs == 7


# ---------------------------------------------------------------- time


class Clock:
    """A wall clock that moves by one second whenever somebody looks."""

    def __init__(self):
        self.now = 0.0

    def time(self):
        self.now += 1.0
        return self.now


def test_the_seconds_of_a_search_are_for_all_of_its_fits(monkeypatch):
    X, y = sample()
    monkeypatch.setattr(_solve, "time", Clock())
    with pytest.warns(ConvergenceWarning, match=r"out of time: \d+ of 16 alphas were compared"):
        model = sa.LassoRegressorCV(alphas=16, cv=3, max_seconds=40).fit(X, y)
    shown = len(model.alphas_)
    assert 0 < shown < 16 and model.score_path_.shape == (shown, 3)
    whole = sa.LassoRegressorCV(alphas=16, cv=3).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, whole.alphas_[:shown])
    np.testing.assert_allclose(model.score_path_, whole.score_path_[:shown], rtol=1e-3)
    assert model.status_ is sa.Status.CONVERGED  # there is time left for the last fit


def test_the_seconds_of_a_path_are_for_all_alphas(monkeypatch):
    X, y = sample()
    monkeypatch.setattr(_solve, "time", Clock())
    with pytest.warns(ConvergenceWarning, match=r"out of time: \d+ of 16 alphas were solved"):
        path = sa.LassoRegressor(max_seconds=15).path(X, y, alphas=16)
    assert 0 < len(path.alphas) == len(path.coefs) == len(path.results) < 16


def test_scores_of_fits_that_were_cut_short_are_not_used(monkeypatch):
    X, y = sample(n=3000, d=6)
    monkeypatch.setattr(_solve, "SHORTEST", 1e-9)
    with pytest.raises(TimeoutError, match="before one alpha was fitted in all 3 folds"):
        sa.FusedLassoRegressorCV(cv=3, solver="svrg-admm", max_seconds=1e-9).fit(X, y)


@pytest.mark.parametrize("name", ["max_seconds", "max_passes"])
@pytest.mark.parametrize("value", [0, -1.0, "soon", np.nan])
def test_budgets_are_positive_numbers(name, value):
    for cls in (sa.LassoRegressor, sa.LassoRegressorCV):
        with pytest.raises(ValueError, match=f"{name} is .*expected None or a number > 0"):
            cls(**{name: value}).fit(*sample())


# ---------------------------------------------------------------- groups of rows and metadata


def grouped():
    X, y = sample()
    rng = np.random.default_rng(1)
    return X, y + 2 * rng.standard_normal(len(y)), np.repeat(np.arange(12), 5)


def test_groups_of_rows_reach_the_splitter():
    X, y, groups = grouped()
    model = sa.LassoRegressorCV(alphas=8, cv=GroupKFold(3)).fit(X, y, groups=groups)
    folds = list(GroupKFold(3).split(X, y, groups))
    same = sa.LassoRegressorCV(alphas=8, cv=folds).fit(X, y)
    np.testing.assert_array_equal(model.score_path_, same.score_path_)
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        sa.LassoRegressorCV(cv=GroupKFold(3)).fit(X, y)
    classes = sa.SparseLogisticClassifierCV(alphas=8, cv=GroupKFold(3))
    assert classes.fit(X, y > 0, groups=groups).score_path_.shape == (8, 3)


def test_groups_of_rows_are_routed_as_scikit_learn_does():
    X, y, groups = grouped()
    ours = sa.LassoRegressorCV(alphas=8, cv=GroupKFold(3))
    alone = ours.fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        model = sa.LassoRegressorCV(alphas=8, cv=GroupKFold(3)).fit(X, y, groups=groups)
        theirs = LassoCV(alphas=model.alphas_, cv=GroupKFold(3), tol=1e-12).fit(
            X, y, groups=groups
        )
        scaler = StandardScaler(with_mean=False, with_std=False)
        pipe = make_pipeline(scaler, sa.LassoRegressorCV(alphas=8, cv=GroupKFold(3)))
        pipe.fit(X, y, groups=groups)
        with pytest.raises(TypeError, match="groups"):  # nobody asks for them
            sa.LassoRegressorCV(alphas=8, cv=KFold(3)).fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.score_path_, alone.score_path_)
    np.testing.assert_allclose(model.mse_path_, theirs.mse_path_, rtol=1e-5)
    np.testing.assert_array_equal(pipe[-1].score_path_, alone.score_path_)


def test_weights_are_routed_to_a_scorer_that_asks_for_them():
    X, y, _ = grouped()
    weight = np.linspace(0.1, 2, len(y))
    plain = make_scorer(mean_squared_error, greater_is_better=False)
    default = sa.LassoRegressorCV(alphas=6, cv=3).fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = {}
        for asks in (True, False):
            scorer = plain.set_score_request(sample_weight=asks)
            model = sa.LassoRegressorCV(alphas=6, cv=3, scoring=scorer)
            model.set_fit_request(sample_weight=True)
            scores[asks] = model.fit(X, y, sample_weight=weight).score_path_
    np.testing.assert_allclose(scores[True], default.score_path_)
    assert not np.allclose(scores[False], default.score_path_)


def test_a_label_that_the_other_folds_lack_is_named():
    X, y, _ = grouped()
    labels = np.where(np.arange(len(y)) < 20, "rare", np.where(y > 0, "yes", "no"))
    with pytest.raises(ValueError, match=r"the label 'rare', .*stratified folds"):
        sa.SparseLogisticClassifierCV(alphas=2, cv=KFold(3)).fit(X, labels)
    sa.SparseLogisticClassifierCV(alphas=[0.1], cv=3).fit(X, labels)  # stratified by itself


# ---------------------------------------------------------------- the choice


def test_a_choice_at_the_end_of_the_grid_is_said():
    X, _ = sample()
    exact = X @ np.arange(6.0)  # no noise: the smaller the better
    with pytest.warns(UserWarning, match="the smallest of 5; a smaller one .* lower eps"):
        sa.LassoRegressorCV(alphas=5, cv=3).fit(X, exact)
    with pytest.warns(UserWarning, match="the smallest of 2; .* pass smaller alphas"):
        sa.LassoRegressorCV(alphas=[1.0, 0.1], cv=3).fit(X, exact)
    with pytest.warns(UserWarning, match="the largest of 2; .* pass larger alphas"):
        sa.LassoRegressorCV(alphas=[0.01, 0.1], cv=3).fit(X[:, :1], X[:, 1])
    # above the largest alpha of an automatic grid there is nothing else to find
    pure = sa.LassoRegressorCV(alphas=5, cv=3).fit(X[:, :1], X[:, 1])
    assert pure.best_index_ == 0
    sa.LassoRegressorCV(alphas=[0.1], cv=3).fit(X, exact)


def test_a_grid_spans_three_powers_of_ten_and_its_length_is_alphas():
    X, y = sample()
    model = sa.LassoRegressorCV(alphas=7, cv=3).fit(X, y)
    assert len(model.alphas_) == 7
    np.testing.assert_allclose(model.alphas_[-1], 1e-3 * model.alphas_[0])
    assert sa.LassoRegressorCV().alphas == 50
    with pytest.raises(TypeError, match="n_alphas"):
        sa.LassoRegressorCV(n_alphas=7)
    for wrong in ([], [-1.0], "many", True, None):
        with pytest.raises(ValueError, match="alphas must be non-negative numbers"):
            sa.LassoRegressorCV(alphas=wrong, cv=3).fit(X, y)
    with pytest.raises(ValueError, match="expected at least one"):
        sa.LassoRegressorCV(alphas=0, cv=3).fit(X, y)


def test_a_cross_validated_estimator_has_paths_too():
    X, y = sample()
    chosen = sa.LassoRegressorCV(alphas=5, cv=3)
    path, plain = chosen.path(X, y, alphas=5), sa.LassoRegressor().path(X, y, alphas=5)
    np.testing.assert_array_equal(path.coefs, plain.coefs)
    assert chosen.alpha_max(X, y) == sa.LassoRegressor().alpha_max(X, y)


def test_the_one_standard_error_rule_by_hand():
    scores = np.array([[-3.0, -3.2, -2.8], [-1.3, -1.0, -1.2], [-1.2, -1.0, -1.0], [-1.1, -1, -2]])
    mean = scores.mean(axis=1)
    error = scores[2].std(ddof=1) / np.sqrt(3)
    within = np.flatnonzero(mean >= mean[2] - error)
    assert best_index(scores, False) == 2
    assert best_index(scores, True) == within[0] == 2
    scores[1] += 0.05
    assert best_index(scores, True) == 1 and best_index(scores, False) == 2


# ---------------------------------------------------------------- frames, offsets


@pytest.mark.parametrize("name", ["FusedLassoRegressorCV", "FusedLassoClassifierCV"])
def test_data_frames_cause_no_warnings(name):
    pd = pytest.importorskip("pandas")
    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    y = y > 0 if "Classifier" in name else y
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = getattr(sa, name)(alphas=5, cv=3).fit(frame, y)
        model.score(frame, y)
    assert not [str(w.message) for w in seen if "feature names" in str(w.message)]


def test_offsets_reach_fits_and_scores_of_every_kind():
    X, y = sample()
    offset = 3.0 * X[:, 2] + 1.0
    plain = sa.LassoRegressorCV(alphas=6, cv=3).fit(X, y)
    shifted = sa.LassoRegressorCV(alphas=6, cv=3).fit(X, y + offset, offset=offset)
    named = sa.LassoRegressorCV(alphas=6, cv=3, scoring="neg_mean_squared_error")
    named.fit(X, y + offset, offset=offset)
    for other in (shifted, named):
        np.testing.assert_allclose(other.score_path_, plain.score_path_, rtol=1e-6)
        np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-7)
    labels = y > 0
    default = sa.SparseLogisticClassifierCV(alphas=6, cv=3).fit(X, labels, offset=X[:, 2])
    loss = sa.SparseLogisticClassifierCV(alphas=6, cv=3, scoring="neg_log_loss")
    loss.fit(X, labels, offset=X[:, 2])
    np.testing.assert_allclose(loss.score_path_, default.score_path_, rtol=1e-6)


def test_a_scorer_of_ones_own_may_read_everything_that_a_fit_says():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    y = X[:, :3].sum(axis=1) + rng.standard_normal(60)
    model = sa.FusedLassoRegressorCV(
        alphas=4, cv=3, scoring=lambda fitted, X, y: -fitted.bic_ - 0 * fitted.levels_.size
    ).fit(X, y)
    assert np.isfinite(model.score_path_).all()
    assert np.isfinite(model.bic_)
