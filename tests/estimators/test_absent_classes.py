"""Classes and labels that no row, or every row, has: refused, left out, never a run for ever."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold

import stochadmm as sa
from stochadmm.run.result import Status


def rows(seed=0, n=40):
    X = np.random.default_rng(seed).standard_normal((n, 4))
    return X, np.digitize(X[:, 0], [-0.5, 0.5])


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("absent", [0, 1, 2])
@pytest.mark.parametrize("how", ["sample_weight", "class_weight"])
def test_a_class_without_weight_is_no_class(loss, absent, how):
    X, y = rows()
    here = y != absent
    if how == "sample_weight":
        model = sa.FusedLassoClassifier(0.05, loss=loss).fit(X, y, sample_weight=here * 1.0)
    else:
        model = sa.FusedLassoClassifier(0.05, loss=loss, class_weight={absent: 0}).fit(X, y)
    without = sa.FusedLassoClassifier(0.05, loss=loss).fit(X[here], y[here])
    assert model.status_ is Status.CONVERGED
    np.testing.assert_array_equal(model.classes_, without.classes_)
    np.testing.assert_allclose(model.coef_, without.coef_, atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), without.predict(X))


def test_balanced_classes_are_those_with_weight():
    X, y = rows()
    y[:3] = 7
    weight = (y != 7) * 1.0
    whole = sa.FusedLassoClassifier(0.05, class_weight="balanced").fit(X, y, weight)
    without = sa.FusedLassoClassifier(0.05, class_weight="balanced").fit(X[3:], y[3:])
    np.testing.assert_allclose(whole.coef_, without.coef_, atol=1e-7)


def test_one_class_left_is_refused_and_so_is_a_loss_for_more_classes():
    X, y = rows()
    with pytest.raises(ValueError, match="all rows with a weight above zero have the class"):
        sa.FusedLassoClassifier().fit(X, y, sample_weight=(y == 1) * 1.0)
    with pytest.raises(ValueError, match="loss is for 5 classes, but 3 have rows"):
        sa.FusedLassoClassifier(loss=sa.Multinomial(5)).fit(X, y)


@pytest.mark.parametrize("value", [0, 1])
def test_a_label_that_is_the_same_in_all_rows_is_refused(value):
    X, _ = rows()
    Y = np.column_stack([X[:, 0] > 0, np.full(40, value)]).astype(int)
    with pytest.raises(ValueError, match="label 1 is the same in all rows that count"):
        sa.SparseLowRankClassifier(0.05).fit(X, Y)
    Y[0, 1] = 1 - value
    weight = np.ones(40)
    weight[0] = 0.0
    with pytest.raises(ValueError, match="label 1 is the same in all rows that count"):
        sa.SparseLowRankClassifierCV(alphas=2).fit(X, Y, sample_weight=weight)


def test_a_rare_label_that_a_fold_lacks_does_not_break_the_search():
    X, _ = rows()
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0, np.arange(40) == 3]).astype(int)
    model = sa.SparseLowRankClassifierCV(alphas=[0.05, 0.02], cv=KFold(4), max_seconds=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the end of the grid
        model.fit(X, Y)
    assert model.status_ is Status.CONVERGED
    test = np.arange(40) < 10  # the fold that the others lack the label of
    two = sa.SparseLowRankClassifier(0.05).fit(X[~test], Y[~test][:, :2])
    z = two.decision_function(X[test])
    expected = np.logaddexp(0, np.where(Y[test][:, :2] == 1, -z, z)).sum(axis=1).mean()
    assert model.score_path_[0, 0] == pytest.approx(-expected, rel=1e-4)


def test_a_rare_class_that_a_fold_lacks_is_not_scored_there():
    X, y = rows()
    y[5] = 9
    model = sa.SparseLogisticClassifierCV(
        alphas=[0.1, 0.05], cv=KFold(4), class_weight={9: 2.0, 0: 1.5}
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert any("the label 9, which the other rows lack" in str(one.message) for one in seen)
    assert np.isfinite(model.score_path_).all()
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 9])


def test_a_class_that_is_meant_to_have_no_weight_is_silently_left_out_of_folds():
    X, y = rows()
    model = sa.SparseLogisticClassifierCV(alphas=[0.1, 0.05, 0.01], cv=4, class_weight={2: 0})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*label.*")
        warnings.filterwarnings("ignore", message=".*chose alpha.*")
        model.fit(X, y)
    assert np.isfinite(model.score_path_).all()


def test_a_class_without_weight_in_a_source_is_named():
    X, y = rows()
    source = sa.data.ArraySource(X, y.astype(float), weight=(y != 2) * 1.0)
    with pytest.raises(ValueError, match="no row of the class 2 has a weight above zero"):
        sa.FusedLassoClassifier(0.05).fit(source)
