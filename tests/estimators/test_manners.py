"""What fitted estimators give to people and programs: names, pictures of groups, labels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import GammaRegressor

import stochadmm as sa


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 6)), columns=list("abcdef"))
    return X, X["a"] + X["b"] + 0.1 * rng.standard_normal(200)


def test_names_out_are_those_of_the_columns_in_use(frame):
    X, y = frame
    model = sa.LassoRegressor(alpha=0.05)
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    assert model.fit(X, y).get_feature_names_out().tolist() == ["a", "b"]
    assert model.fit(X.to_numpy(), y).get_feature_names_out().tolist() == ["x0", "x1"]
    assert model.get_feature_names_out(list("uvwxyz")).tolist() == ["u", "v"]


@pytest.mark.parametrize("latent", [False, True])
def test_groups_are_drawn_with_their_names_the_longest_first(frame, latent):
    pytest.importorskip("matplotlib").use("agg")
    X, y = frame
    groups = {"first": ["a", "b"], "second": ["b", "c"], "none": ["e", "f"]}
    model = sa.OverlappingGroupRegressor(
        groups=groups, alpha=0.1, latent=latent, unpenalized=["d"]
    )
    ax = model.fit(X, y).plot_groups()
    drawn = {
        label.get_text(): bar.get_width()
        for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    w = dict(zip(X.columns, model.coef_, strict=True))
    lengths = {name: np.hypot(*(w[column] for column in group)) for name, group in groups.items()}
    assert drawn == pytest.approx({name: value for name, value in lengths.items() if value})
    assert list(drawn.values()) == sorted(drawn.values())


def test_probabilities_are_those_of_the_loss_that_was_fitted(frame):
    X, y = frame
    labels = y > 0
    model = sa.SparseLogisticClassifier().fit(X, labels)
    before = model.predict_proba(X)
    np.testing.assert_array_equal(model.set_params(loss="squared_hinge").predict_proba(X), before)
    assert not hasattr(model.fit(X, labels), "predict_proba")
    assert not hasattr(model.set_params(loss="logistic"), "predict_proba")
    assert hasattr(model.fit(X, labels), "predict_proba")


def test_a_gamma_model_becomes_a_plain_one(frame):
    X, y = frame
    model = sa.FusedLassoRegressor(loss="gamma", alpha=0.01).fit(X, np.exp(y))
    plain = model.to_sklearn()
    assert isinstance(plain, GammaRegressor)
    np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=1e-12)


def labels(X, y):
    return np.column_stack([y > 0, X["c"] > 0.5, X["a"] > 0]).astype(int)


def test_a_matrix_of_labels_is_one_logistic_regression_per_column(frame):
    X, y = frame
    Y = labels(X, y)
    model = sa.SparseLowRankClassifier(alpha=0.02, l1_ratio=1.0, tol=1e-9).fit(X, Y)
    assert model.multilabel_ and model.classes_.tolist() == [0, 1, 2]
    for k in range(3):
        own = sa.SparseLogisticClassifier(alpha=0.02, tol=1e-9).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], own.coef_[0], atol=1e-4)
        np.testing.assert_allclose(
            model.predict_proba(X)[:, k], own.predict_proba(X)[:, 1], atol=1e-4
        )
    predicted = model.predict(X)
    assert predicted.shape == Y.shape and predicted.dtype.kind == "i"
    assert model.score(X, Y) == (predicted == Y).all(axis=1).mean()
    again = sa.SparseLowRankClassifier(alpha=0.02, l1_ratio=1.0, tol=1e-9)
    again.fit(X, sparse.csr_array(Y))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_labels_share_directions_and_are_chosen_by_cross_validation(frame):
    X, y = frame
    y = y + 2 * np.random.default_rng(1).standard_normal(200)
    Y = np.column_stack([y > c for c in (-1.0, -0.3, 0.3, 1.0)]).astype(int)
    model = sa.SparseLowRankClassifierCV(alphas=4, eps=0.05, cv=3, sparsity="rows").fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score_path_.shape == (4, 3)
    held = model._loss_on(X, Y, None, None)()
    p = model.predict_proba(X)
    own = -np.log(np.where(Y == 1, p, 1 - p)).sum(axis=1).mean()
    assert held == pytest.approx(own, rel=1e-9)


def test_one_label_after_several_is_one_label_again(frame):
    X, y = frame
    model = sa.SparseLowRankClassifier(alpha=0.02).fit(X, labels(X, y))
    model.fit(X, np.digitize(y, [-1, 1]))
    assert not model.multilabel_
    assert model.predict(X).ndim == 1
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_what_labels_do_not_take_is_told(frame):
    X, y = frame
    Y = labels(X, y)
    with pytest.raises(ValueError, match="sample_weight"):
        sa.SparseLowRankClassifier(class_weight="balanced").fit(X, Y)
    with pytest.raises(ValueError, match="one label per row"):
        sa.SparseLowRankClassifier(loss=sa.Multinomial(3)).fit(X, Y)
    with pytest.raises(ValueError, match="rows"):
        sa.SparseLowRankClassifier().fit(X, Y[:-1])


@pytest.mark.parametrize(
    ("act", "error", "said", "unsaid"),
    [
        (lambda: sa.solvers.get("acc-sdmm"), ValueError, "did you mean acc-sadmm?", "rda"),
        (lambda: sa.solvers.get("zzz"), ValueError, "solvers.names", "did you mean"),
        (lambda: sa.GraphFusedRegresor, AttributeError, "mean GraphFusedRegressor", "Trend"),
        (
            lambda: sa.LassoRegressor(loss="squraed").fit([[1.0], [2]], [1, 2]),
            ValueError,
            "did you mean squared?",
            "mean huber",
        ),
    ],
)
def test_nearest_names_are_near(act, error, said, unsaid):
    with pytest.raises(error) as caught:
        act()
    assert said in str(caught.value) and unsaid not in str(caught.value)
