"""The sparse group lasso as estimators: same minima as the overlapping group lasso."""

import warnings

import numpy as np
import pytest

import stochadmm as sa

GROUPS = [[0, 3], [1, 5, 2]]


def sample(seed=0, n=120, d=7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.r_[1.5, 0, 0, -1.0, 0, 0, 0.5] + rng.standard_normal(n)


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0]])
def test_a_regressor_agrees_with_the_overlapping_one_on_disjoint_groups(ratio, weights):
    X, y = sample()
    settings = {
        "alpha": 0.2,
        "l1_ratio": ratio,
        "groups": GROUPS,
        "group_weights": weights,
        "tol": 1e-9,
        "unpenalized": [4, 6] if ratio == 0 else [6],
    }
    ours = sa.SparseGroupLassoRegressor(**settings).fit(X, y)
    theirs = sa.OverlappingGroupRegressor(**settings).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_array_equal(ours.coef_ == 0, theirs.coef_ == 0)
    assert ours.active_groups_ == theirs.active_groups_
    assert ours.dual_gap_ <= 1e-8


def test_a_classifier_agrees_with_the_overlapping_one_on_several_classes():
    X, y = sample(1)
    y = np.digitize(y, [-0.7, 0.7])
    settings = {"alpha": 0.03, "l1_ratio": 0.4, "groups": GROUPS, "tol": 1e-8}
    ours = sa.SparseGroupLassoClassifier(**settings).fit(X, y)
    theirs = sa.OverlappingGroupClassifier(**settings).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_positive_coefficients_agree_too():
    X, y = sample(2)
    settings = {"alpha": 0.1, "l1_ratio": 0.4, "groups": GROUPS, "positive": True, "tol": 1e-8}
    ours = sa.SparseGroupLassoRegressor(**settings).fit(X, y)
    theirs = sa.OverlappingGroupRegressor(**settings).fit(X, y)
    assert (ours.coef_ >= 0).all()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


def test_groups_that_overlap_are_refused():
    with pytest.raises(ValueError, match="column 1 is in two groups"):
        sa.SparseGroupLassoRegressor(groups=[[0, 1], [1, 2]]).fit(*sample())


def test_columns_that_nothing_penalizes_are_named():
    X, y = np.random.default_rng(0).standard_normal((60, 6)), np.arange(60.0)
    groups = [[0, 1], [2, 3]]
    with pytest.warns(UserWarning, match=r"2 columns are in no group.*not penalized \(4, 5\)"):
        sa.SparseGroupLassoRegressor(alpha=0.1, l1_ratio=0.0, groups=groups).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sa.SparseGroupLassoRegressor(alpha=0.1, groups=groups).fit(X, y)
