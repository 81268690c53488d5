"""Planted structures are found again, and a plain lasso does not find them at any strength."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, f1_score

import stochadmm as sa
from stochadmm.datasets import (
    make_chain,
    make_graph_fused,
    make_low_rank_tasks,
    make_overlapping_groups,
)

SHARES = np.geomspace(0.6, 0.01, 10)  # of the largest alpha: where the plain models are looked at
SEEDS = pytest.mark.parametrize("seed", [0, 1])


def f1(truth, found):
    """F1 score of the positions that are not zero."""
    return f1_score(np.ravel(truth) != 0, np.ravel(found) != 0)


def fit(model, share, X, y):
    """Fit at a share of the largest alpha."""
    return model.set_params(alpha=share * model.alpha_max(X, y)).fit(X, y)


def best_plain(truth, X, y, labels=False):
    """Best F1 score that a plain l1 model reaches at any alpha, chosen with the truth at hand."""
    model = sa.SparseLogisticClassifier() if labels else sa.LassoRegressor()
    largest = model.alpha_max(X, y)
    path = model.path(X, y, alphas=largest * SHARES)
    return max(f1(truth.T, coef) for coef in path.coefs)


def pieces(coef):
    """Label the runs of equal neighbors."""
    return np.cumsum(np.diff(coef, prepend=coef[0]) != 0)


@SEEDS
def test_fused_lasso_finds_the_pieces_of_a_chain(seed):
    data = make_chain(120, 100, n_levels=6, noise=0.3, random_state=seed)
    model = fit(sa.FusedLassoRegressor(), 0.2, data.X, data.y)
    assert f1(data.coef, model.coef_) > 0.95
    assert best_plain(data.coef, data.X, data.y) < 0.92
    # every step that was planted is one of the model
    planted, found = np.diff(data.coef) != 0, np.diff(model.levels_) != 0
    near = np.convolve(found, np.ones(3), mode="same") > 0
    assert near[planted].all()
    assert np.unique(model.levels_).size < 30


@SEEDS
def test_with_many_rows_fused_levels_are_the_planted_ones(seed):
    data = make_chain(20_000, 60, n_levels=6, random_state=seed)
    model = fit(sa.FusedLassoRegressor(), 0.1, data.X, data.y)
    assert adjusted_rand_score(pieces(data.coef), model.levels_) == 1.0
    assert np.unique(model.levels_).size == 6
    plain = fit(sa.LassoRegressor(), 0.1, data.X, data.y)
    assert np.unique(plain.coef_).size > 25


@SEEDS
@pytest.mark.parametrize("response", ["binary", "real"])
def test_graph_fused_finds_the_communities(seed, response):
    labels = response == "binary"
    data = make_graph_fused(
        600 if labels else 100,
        60,
        cross_fraction=0.02,
        noise=0.5,
        response=response,
        random_state=seed,
    )
    kind = sa.GraphFusedClassifier if labels else sa.GraphFusedRegressor
    model = fit(kind(graph=data.graph), 0.3, data.X, data.y)
    assert adjusted_rand_score(data.coef, np.ravel(model.levels_)) > 0.95
    assert f1(data.coef, model.coef_) == 1.0
    assert best_plain(data.coef, data.X, data.y, labels) < 0.98
    # of a wrong graph, the same columns in another order, nothing is found
    wrong = np.random.default_rng(seed).permutation(60)[data.graph]
    other = fit(kind(graph=wrong), 0.3, data.X, data.y)
    assert adjusted_rand_score(data.coef, np.ravel(other.levels_)) < 0.3


def test_trend_filter_finds_the_kinks():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 80))
    truth = np.interp(np.arange(80), [0, 30, 50, 79], [0.0, 6.0, -4.0, 2.0])
    y = X @ truth + rng.standard_normal(150)
    model = fit(sa.TrendFilterRegressor(), 0.01, X, y)
    kinks = np.flatnonzero(np.abs(np.diff(model.coef_, 2)) > 1e-6) + 1
    assert kinks.size <= 6
    assert all(np.abs(kinks - planted).min() <= 1 for planted in (30, 50))
    assert all(min(abs(kink - 30), abs(kink - 50)) <= 4 for kink in kinks)

    def error(coef):
        return np.linalg.norm(coef - truth) / np.linalg.norm(truth)

    lasso = sa.LassoRegressor()
    path = lasso.path(X, y, alphas=lasso.alpha_max(X, y) * SHARES)
    assert error(model.coef_) < 0.02 < 0.05 < min(map(error, path.coefs))


@SEEDS
@pytest.mark.parametrize("response", ["real", "binary"])
def test_latent_groups_are_the_planted_ones(seed, response):
    labels = response == "binary"
    data = make_overlapping_groups(
        600 if labels else 240, n_groups=30, noise=0.3, response=response, random_state=seed
    )
    kind = sa.OverlappingGroupClassifier if labels else sa.OverlappingGroupRegressor
    model = fit(kind(groups=data.groups, latent=True), 0.5, data.X, data.y)
    planted = {name for name, columns in data.groups.items() if data.coef[columns].all()}
    assert set(model.active_groups_) == planted
    assert f1(data.coef, model.coef_) == 1.0
    assert best_plain(data.coef, data.X, data.y, labels) < 0.93


@SEEDS
def test_overlapping_groups_vanish_together(seed):
    rng = np.random.default_rng(seed)
    data = make_overlapping_groups(120, n_groups=30, n_active=1, random_state=seed)
    names = list(data.groups)
    truth = np.ones(data.X.shape[1])
    for name in names[:12] + names[18:]:
        truth[data.groups[name]] = 0.0
    truth *= rng.uniform(2, 4, truth.size) * rng.choice([-1, 1], truth.size)
    y = data.X @ truth + 0.3 * rng.standard_normal(120)
    model = fit(sa.OverlappingGroupRegressor(groups=data.groups), 0.5, data.X, y)
    assert model.active_groups_ == names[12:18]
    assert f1(truth, model.coef_) == 1.0
    assert best_plain(truth, data.X, y) < 0.75


@SEEDS
def test_rank_and_rows_of_tasks(seed):
    data = make_low_rank_tasks(300, 30, 12, rank=2, n_active=8, noise=0.1, random_state=seed)
    model = fit(sa.SparseLowRankRegressor(sparsity="rows"), 0.1, data.X, data.y)
    assert model.rank_ == 2 == np.linalg.matrix_rank(model.low_rank_coef_)
    assert f1(data.coef.any(axis=1), model.sparse_coef_.any(axis=0)) == 1.0
    assert f1(data.coef.T, model.coef_) == 1.0
    plain = fit(sa.LassoRegressor(), 0.1, data.X, data.y)
    assert np.linalg.matrix_rank(plain.coef_) > 5
    assert best_plain(data.coef, data.X, data.y) < 0.98


@SEEDS
def test_rank_and_rows_of_classes(seed):
    data = make_low_rank_tasks(
        1500,
        15,
        6,
        rank=2,
        n_active=5,
        signal=8,
        noise=0.3,
        response="classes",
        random_state=seed,
    )
    model = fit(sa.SparseLowRankClassifier(sparsity="rows"), 0.3, data.X, data.y)
    assert model.rank_ == 2
    assert f1(data.coef.any(axis=1), model.coef_.any(axis=0)) == 1.0
    plain = fit(sa.SparseLogisticClassifier(), 0.1, data.X, data.y)
    assert np.linalg.matrix_rank(plain.coef_) > 3


@SEEDS
@pytest.mark.parametrize("labels", [False, True])
def test_generalized_lasso_finds_what_its_operator_says(seed, labels):
    # coefficients equal within known pairs, the operator takes their differences
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, 30))
    truth = np.repeat(rng.uniform(-2, 2, 15), 2)
    truth[[9, 21]] += 2.0  # two pairs that differ
    noise = rng.standard_normal(400)
    y = X @ truth + noise > 0 if labels else X @ truth + noise
    D = np.zeros((15, 30))
    D[np.arange(15), 2 * np.arange(15)], D[np.arange(15), 2 * np.arange(15) + 1] = 1.0, -1.0
    kind = sa.GeneralizedLassoClassifier if labels else sa.GeneralizedLassoRegressor
    model = fit(kind(operator=D), 0.25, X, y)
    np.testing.assert_array_equal(np.flatnonzero(D @ np.ravel(model.coef_)), [4, 10])
    plain = fit(sa.SparseLogisticClassifier() if labels else sa.LassoRegressor(), 0.05, X, y)
    assert np.count_nonzero(D @ np.ravel(plain.coef_)) > 10
