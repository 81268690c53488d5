"""Estimators inside scikit-learn: search, pipelines, routing, callbacks, folds in parallel."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import stochadmm as sa

pd = pytest.importorskip("pandas")


def sample(n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, X @ [1.0, 1.0, 0.0, 0.0, -1.0, -1.0] + 0.5 * rng.standard_normal(n)


def test_grid_search_over_strength_and_structure():
    X, y = sample()
    grid = {"alpha": [0.01, 0.1], "graph": ["chain", ((0, 1), (4, 5))]}
    search = GridSearchCV(sa.GraphFusedRegressor(), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.7
    assert cross_val_score(sa.GraphFusedClassifier(), X, y > 0, cv=3, n_jobs=1).mean() > 0.7


@pytest.mark.parametrize(
    "model",
    [
        sa.SparseLogisticClassifier(0.02),
        sa.OverlappingGroupRegressor(0.02, groups=[[0, 1], [2, 3], [4, 5]]),
        sa.TrendFilterRegressor(0.02),
    ],
    ids=lambda model: type(model).__name__,
)
def test_selection_keeps_every_coefficient_that_is_not_zero(model):
    X, y = sample()
    y = y > 0 if isinstance(model, sa.SparseLogisticClassifier) else y
    kept = SelectFromModel(model).fit(X, y).get_support()
    np.testing.assert_array_equal(kept, np.ravel(model.fit(X, y).coef_) != 0)


def test_names_pass_through_pipelines_to_groups_and_edges():
    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    scale = ColumnTransformer(
        [("scaled", StandardScaler(), ["a", "b", "c"])],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    model = sa.GraphFusedRegressor(graph=[("a", "b"), ("e", "f")], unpenalized=["c"], alpha=0.3)
    pipe = Pipeline([("scale", scale), ("model", model)]).fit(frame, y)
    fitted = pipe["model"]
    assert fitted.feature_names_in_.tolist() == list("abcdef")
    assert fitted.coef_[0] == fitted.coef_[1] and fitted.coef_[4] == fitted.coef_[5]
    groups = {"left": ["a", "b"], "right": ["c", "d", "e", "f"]}
    grouped = make_pipeline(scale, sa.OverlappingGroupClassifier(groups=groups))
    assert grouped.fit(frame, y > 0).score(frame, y > 0) > 0.8


def test_sample_weights_are_routed():
    X, y = sample()
    weight = np.linspace(0.1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        model = sa.LassoRegressor().set_fit_request(sample_weight=True)
        scaler = StandardScaler(with_mean=False, with_std=False)
        pipe = make_pipeline(scaler.set_fit_request(sample_weight=False), model)
        pipe.fit(X, y, sample_weight=weight)
    direct = sa.LassoRegressor().fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(pipe[-1].coef_, direct.coef_)


@pytest.mark.parametrize("classify", [False, True])
def test_parallel_folds_change_nothing(classify):
    X, y = sample()
    cls = sa.FusedLassoClassifierCV if classify else sa.FusedLassoRegressorCV
    y = y > 0 if classify else y
    serial = cls(alphas=4, cv=3).fit(X, y)
    parallel = cls(alphas=4, cv=3, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(serial.score_path_, parallel.score_path_)
    np.testing.assert_array_equal(serial.coef_, parallel.coef_)


def test_callbacks_of_scikit_learn_see_every_epoch_and_may_stop():
    pytest.importorskip("sklearn.callback")

    class Watch:
        def __init__(self, stop):
            self.stop, self.scores = stop, []

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            if context.task_name == "epoch":
                self.scores.append(context.task_id)
            return self.stop

    X, y = sample()
    patient, hasty = Watch(False), Watch(True)
    model = sa.FusedLassoClassifier(solver="sampled-newton").set_callbacks(patient).fit(X, y > 0)
    assert len(patient.scores) == model.n_iter_ > 1
    model = (
        sa.FusedLassoClassifier(alpha=1e-4, solver="sampled-newton")
        .set_callbacks(hasty)
        .fit(X, y > 0)
    )
    assert model.n_iter_ == 1 and model.status_ is sa.Status.STOPPED
