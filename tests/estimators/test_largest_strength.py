"""The largest useful strength beside bounds, and of columns that say nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stochadmm as sa

N_COLUMNS = 5
LINES = np.c_[np.ones(N_COLUMNS), np.arange(N_COLUMNS)]
# what is left of the coefficients by a penalty without an end, as columns of a basis
FREE = {
    "fused": (sa.FusedLassoRegressor, {"l1_ratio": 0.0}, LINES[:, :1]),
    "graph": (
        sa.GraphFusedRegressor,
        {"l1_ratio": 0.0, "graph": [(0, 1), (3, 4)]},
        np.array([[1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]).T,
    ),
    "trend": (sa.TrendFilterRegressor, {}, LINES),
    "groups": (sa.OverlappingGroupRegressor, {"groups": [[0, 2]]}, np.eye(5)[:, [1, 3, 4]]),
    "all in groups": (
        sa.OverlappingGroupRegressor,
        {"groups": [[0, 1], [2, 3], [4]]},
        np.zeros((5, 0)),
    ),
    "latent": (
        sa.OverlappingGroupRegressor,
        {"groups": [[0, 2], [2, 4]], "latent": True},
        np.eye(5)[:, [1, 3]],
    ),
    "sparse groups": (
        sa.SparseGroupLassoRegressor,
        {"groups": [[0, 2]], "l1_ratio": 0.0},
        np.eye(5)[:, [1, 3, 4]],
    ),
}


def drawn(seed, outputs=()):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, N_COLUMNS))
    W = rng.standard_normal((N_COLUMNS, *outputs)) + 0.3
    return X, X @ W + 0.3 * rng.standard_normal((40, *outputs)) + 2.0


def null_predictions(X, y, basis):
    """Return the least squares fit of coefficients ``basis @ c >= 0`` with an intercept."""
    cp = pytest.importorskip("cvxpy")
    if not basis.shape[1]:
        return np.full(len(y), y.mean())
    c, b = cp.Variable(basis.shape[1]), cp.Variable()
    error = X @ basis @ c + b - y
    cp.Problem(cp.Minimize(cp.sum_squares(error)), [basis @ c >= 0]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return X @ (basis @ c.value) + b.value


@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize("kind", FREE)
def test_signs_of_what_is_unpenalized_are_part_of_the_null_model(kind, outputs):
    Estimator, options, basis = FREE[kind]
    for seed in range(3):
        X, y = drawn(seed, outputs)
        model = Estimator(**options, positive=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns in no group are said
            largest = model.alpha_max(X, y)
            above = model.set_params(alpha=1.001 * largest).fit(X, y).predict(X)
            below = model.set_params(alpha=0.98 * largest).fit(X, y).predict(X)
        columns = y.reshape(len(y), -1).T
        null = np.stack([null_predictions(X, t, basis) for t in columns], axis=1).reshape(y.shape)
        np.testing.assert_allclose(above, null, atol=1e-4)
        assert largest == 0 or np.abs(below - null).max() > 1e-3


def test_a_search_with_signs_finds_its_strengths():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = X @ np.abs(np.arange(8) - 3.0) + rng.standard_normal(60)
    model = sa.TrendFilterRegressorCV(alphas=8, cv=3, positive=True).fit(X, y)
    assert model.coef_.min() >= 0 and model.score(X, y) > 0.8
    assert model.score_path_.mean(axis=1).argmax() not in (0, 7)


@pytest.mark.parametrize("unit", [0.0, 1e-13])
def test_columns_of_next_to_nothing_beside_an_intercept_have_a_largest_strength(unit):
    X, y = drawn(0)
    labels = y > np.median(y) + 0.2
    for model, target in ((sa.LassoRegressor(), y), (sa.SparseLogisticClassifier(), labels)):
        largest = model.alpha_max(unit * X, target)
        assert largest == pytest.approx(unit * model.alpha_max(X, target), rel=1e-6)
