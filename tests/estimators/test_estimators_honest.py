"""What estimators say of a fit: measurements, tolerance, rank, criteria, scores."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import (
    accuracy_score,
    d2_pinball_score,
    d2_tweedie_score,
    r2_score,
)
from tests.samples import sample

import stochadmm as sa
from stochadmm.estimators._data import Data

# ---------------------------------------------------------------- measuring


def test_many_coefficients_are_measured_seldom_unless_somebody_watches():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 4100), density=0.02, random_state=rng, format="csr")
    y = rng.standard_normal(60)
    options = {"solver": "linearized-admm", "max_passes": 100, "tol": 1e-9, "alpha": 1e-3}
    with pytest.warns(ConvergenceWarning):
        model = sa.FusedLassoRegressor(**options).fit(X, y)
    assert len(model.history_) < model.n_iter_


def test_the_words_of_a_warning_need_no_copy_of_the_rows():
    X = np.ones((20_000, 500), dtype=np.float32)
    rows = Data(X, np.zeros(20_000), sa.Squared(), weight=None, intercept=True)
    tracemalloc.start()
    try:
        assert rows.spread_of_columns() < 1e-12
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * X.nbytes  # blocks of 8 MB, and their squares


# ---------------------------------------------------------------- tolerance


@pytest.mark.parametrize(
    "name, solver",
    [
        ("FusedLassoRegressor", "svrg-admm"),
        ("FusedLassoClassifier", "sampled-newton"),
        ("SparseLogisticClassifier", "auto"),
    ],
)
def test_a_looser_tolerance_is_less_work_on_small_problems_too(name, solver):
    X, y = sample()
    y = y > 0 if "Classifier" in name else y
    fits = {
        tol: getattr(sa, name)(tol=tol, alpha=0.003, solver=solver).fit(X, y)
        for tol in (0.3, 1e-2, 1e-4)
    }
    passes = [fits[tol].n_passes_ for tol in fits]
    assert passes[0] <= passes[1] <= passes[2]
    # one compiled call of the small route may do for all of them
    assert passes[0] < passes[2] or fits[0.3].result_.info.get("route") == "small"
    best = fits[1e-4].result_
    assert best.relative_gap < 1e-9
    for tol, model in fits.items():
        assert model.status_ is sa.Status.CONVERGED and model.dual_gap_ <= tol
        loss = model.result_.objective - best.objective
        assert loss <= model.result_.gap + 1e-9


@pytest.mark.parametrize("tol", [0, 0.0, -1.0, np.nan, np.inf, None])
def test_a_tolerance_is_a_positive_number(tol):
    with pytest.raises(ValueError, match=r"tol is .*, expected a number > 0, as small as 1e-14"):
        sa.LassoRegressor(tol=tol).fit(*sample())


def test_a_tolerance_below_rounding_is_named_as_such():
    X, y = sample()
    single = sa.LassoRegressor(tol=1e-12, max_passes=30, solver="svrg-admm")
    with pytest.warns(
        ConvergenceWarning, match="raise tol: rounding in float32 leaves about 1e-07"
    ):
        single.fit(X.astype(np.float32), y)


# ---------------------------------------------------------------- digits of targets


def far(kind):
    """Return float32 rows, and float64 targets whose mean float32 has few digits for."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((150, 6)).astype(np.float32)
    y = 1e7 + X @ rng.standard_normal(6) + rng.standard_normal(150)
    if kind == "whole numbers":
        return X, np.round(1e9 + 100 * y).astype(np.int64), {}
    if kind == "a row that does not count":
        y[0] = 1e14
        return X, y, {"sample_weight": np.r_[0.0, np.ones(149)]}
    if kind == "offset":
        offset = 1e7 + 1e3 * rng.standard_normal(150)
        return X, y - 1e7 + offset, {"offset": offset}
    if kind == "float32":
        return X, y.astype(np.float32), {}
    if kind == "several, with missing":
        Y = np.stack([y, X[:, 0] + rng.standard_normal(150)], axis=1)
        Y[::7, 0] = np.nan
        return X, Y, {}
    return (sparse.csr_array(X) if kind == "csr" else X), y, {}


@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "csr",
        "float32",
        "whole numbers",
        "a row that does not count",
        "offset",
        "several, with missing",
    ],
)
def test_digits_of_targets_are_kept_where_rows_have_fewer(kind):
    X, y, more = far(kind)
    model = sa.FusedLassoRegressor(alpha=1e-2).fit(X, y, **more)
    exact = sa.FusedLassoRegressor(alpha=1e-2).fit(X.astype(np.float64), y, **more)
    assert model.status_ is sa.Status.CONVERGED
    np.testing.assert_array_equal(model.coef_, exact.coef_)
    np.testing.assert_array_equal(model.intercept_, exact.intercept_)
    scores = [m.score(X, y, **more) for m in (model, exact)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def test_scores_of_float32_rows_have_the_digits_of_the_targets():
    X, y, _ = far("dense")
    model = sa.LassoRegressor(alpha=1e-2).fit(X, y)
    residuals = y - (X.astype(np.float64) @ model.coef_ + model.intercept_)
    expected = 1 - np.mean(residuals**2) / np.var(y)
    assert model.score(X, y) == pytest.approx(expected, abs=1e-7)
    search = sa.LassoRegressorCV(alphas=5, cv=3).fit(X, y)
    exact = sa.LassoRegressorCV(alphas=5, cv=3).fit(X.astype(np.float64), y)
    assert search.alpha_ == pytest.approx(exact.alpha_, rel=1e-9)


def test_targets_near_zero_leave_float32_rows_as_they_are():
    X, y, _ = far("dense")
    for targets in (y - 1e7, (y - 1e7) * 1e-30, np.full(150, 0.1)):
        model = sa.LassoRegressor(alpha=1e-2 * targets.std() + 1e-9).fit(X, targets)
        assert model.coef_.dtype == np.float32


def test_problems_tell_that_targets_are_too_coarse():
    X, y, _ = far("dense")
    with pytest.warns(UserWarning, match="too coarse in float32"):
        sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.1))


# ---------------------------------------------------------------- rank and criteria


def low_rank(n=80, d=12, outputs=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = np.outer(np.r_[np.ones(4), np.zeros(d - 4)], np.arange(1.0, outputs + 1))
    return X, X @ W + 0.1 * rng.standard_normal((n, outputs))


@pytest.mark.parametrize(
    "solver, passes",
    [("acc-sadmm", 1), ("acc-sadmm", 8), ("linearized-admm", 1), ("linearized-admm", 8)],
)
def test_an_unconverged_rank_is_that_of_the_coefficients(solver, passes):
    X, Y = low_rank()
    model = sa.SparseLowRankRegressor(alpha=0.05, solver=solver, max_passes=passes, tol=1e-10)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, Y)
    assert model.status_ is sa.Status.MAX_PASSES
    assert model.rank_ == np.linalg.matrix_rank(model.low_rank_coef_)
    assert (model.rank_ == 0) == (not model.coef_.any())
    value = model.result_.objective
    for copy in (model.low_rank_coef_, model.sparse_coef_):
        residual = Y - X @ copy.T - model.intercept_
        penalty = 0.5 * np.linalg.norm(copy, "nuc") + 0.5 * np.abs(copy).sum()
        loss = 0.5 * (residual**2).sum() / len(X) + 0.05 * penalty
        assert loss <= value * (1 + 1e-8)
    text = model.summary()
    assert "NOT converged" in text and "AIC" not in text
    assert np.isnan(model.aic_) and np.isnan(model.bic_)


@pytest.mark.parametrize("solver", ["acc-sadmm", "auto", sa.solvers.ADMM(beta=0.3)])
def test_the_rank_does_not_depend_on_the_method(solver):
    X, Y = low_rank()
    for alpha, rank in ((0.05, 2), (0.3, 1)):
        model = sa.SparseLowRankRegressor(alpha=alpha, solver=solver).fit(X, Y)
        assert model.rank_ == np.linalg.matrix_rank(model.low_rank_coef_) == rank
        assert np.isfinite(model.aic_)


# ---------------------------------------------------------------- scores


def test_the_score_of_a_squared_loss_is_r2():
    X, y = sample()
    weight = np.linspace(0.1, 2, len(y))
    Y = np.column_stack([y, X[:, 0] - y])
    one, two = sa.LassoRegressor(alpha=0.1).fit(X, y), sa.LassoRegressor(alpha=0.1).fit(X, Y)
    for w in (None, weight):
        assert one.score(X, y, w) == pytest.approx(r2_score(y, one.predict(X), sample_weight=w))
        assert two.score(X, Y, w) == pytest.approx(r2_score(Y, two.predict(X), sample_weight=w))
    assert one.score(X, y[:, None]) == one.score(X, y)  # a column is as good
    with pytest.raises(ValueError, match=r"y has shape \(60, 2\), expected \(60,\)"):
        one.score(X, Y)
    offset = X[:, 2]
    shifted = sa.LassoRegressor(alpha=0.1).fit(X, y + offset, offset=offset)
    assert shifted.score(X, y + offset, offset=offset) == pytest.approx(one.score(X, y))
    Y[:20, 1] = np.nan
    first = r2_score(Y[:, 0], two.predict(X)[:, 0])
    second = r2_score(Y[20:, 1], two.predict(X[20:])[:, 1])
    assert two.score(X, Y) == pytest.approx((first + second) / 2)


def test_the_score_of_counts_is_the_deviance_explained():
    X, _ = sample()
    rng = np.random.default_rng(1)
    counts = rng.poisson(np.exp(X[:, 0]))
    weight = np.linspace(0.1, 2, len(X))
    model = sa.LassoRegressor(loss="poisson").fit(X, counts)
    for w in (None, weight):
        expected = d2_tweedie_score(counts, model.predict(X), sample_weight=w, power=1)
        assert model.score(X, counts, w) == pytest.approx(expected)
    # with exposure, the null model has the same rate for all
    exposure = rng.uniform(1, 5, len(X))
    more = rng.poisson(exposure * np.exp(X[:, 0]))
    model = sa.LassoRegressor(loss="poisson").fit(X, more, offset=np.log(exposure))
    expected = d2_tweedie_score(more / exposure, model.predict(X), sample_weight=exposure, power=1)
    assert model.score(X, more, offset=np.log(exposure)) == pytest.approx(expected)
    assert model.score(X, 0 * more) in (0.0, 1.0)
    # far outside the range of the fit the deviance is still that of the Poisson model
    far = 20 * X
    expected = d2_tweedie_score(counts, model.predict(far), power=1)
    assert model.score(far, counts) == pytest.approx(expected)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_the_score_of_quantiles_is_that_of_the_pinball_loss(quantile):
    X, y = sample()
    model = sa.LassoRegressor(loss=sa.Quantile(quantile), alpha=0.05).fit(X, 1e6 + y)
    for w in (None, np.linspace(0.1, 2, len(X))):
        predicted = model.predict(X)
        expected = d2_pinball_score(1e6 + y, predicted, sample_weight=w, alpha=quantile)
        assert model.score(X, 1e6 + y, w) == pytest.approx(expected, rel=1e-6)


def test_the_score_of_other_losses_is_one_at_best_and_zero_for_the_null_model():
    X, y = sample()
    model = sa.LassoRegressor(loss="huber", alpha=0.01).fit(X, y)
    assert 0.5 < model.score(X, y) < 1
    assert model.score(X, model.predict(X)) == pytest.approx(1)
    null = sa.LassoRegressor(loss="huber", alpha=100.0).fit(X, y)
    assert null.score(X, y) == pytest.approx(0, abs=1e-6)


def test_the_score_of_a_classifier_is_its_accuracy_with_offset():
    X, y = sample()
    labels, offset = np.where(y > 0, "yes", "no"), 2 * X[:, 2]
    model = sa.SparseLogisticClassifier().fit(X, labels, offset=offset)
    weight = np.linspace(0.1, 2, len(y))
    shifted = model.decision_function(X) + offset
    np.testing.assert_allclose(model.decision_function(X, offset), shifted)
    np.testing.assert_array_equal(model.predict(X, offset) == "yes", shifted > 0)
    np.testing.assert_allclose(model.predict_proba(X, offset)[:, 1], 1 / (1 + np.exp(-shifted)))
    expected = accuracy_score(labels, np.where(shifted > 0, "yes", "no"), sample_weight=weight)
    assert model.score(X, labels, weight, offset) == pytest.approx(expected)
    # an offset is a column with coefficient one
    column = sa.SparseLogisticClassifier(unpenalized=[6], alpha=0.05)
    free = column.fit(np.column_stack([X, X[:, 2] ** 2]), labels)
    held = sa.SparseLogisticClassifier(alpha=0.05)
    held.fit(X, labels, offset=free.coef_[0, 6] * X[:, 2] ** 2)
    np.testing.assert_allclose(held.coef_[0], free.coef_[0, :6], atol=1e-6)
    three = np.digitize(y, [-0.7, 0.7])
    wide = 0.5 * np.column_stack([X[:, 2], X[:, 3], X[:, 4]])
    several = sa.SparseLogisticClassifier().fit(X, three, offset=wide)
    assert several.predict_proba(X, wide).shape == (60, 3)
    assert several.score(X, three, offset=wide) > 0.5


def test_a_score_of_one_row_is_not_defined():
    from sklearn.exceptions import UndefinedMetricWarning

    X, y = sample()
    for loss in ("squared", "huber"):
        model = sa.LassoRegressor(loss=loss).fit(X, y)
        with pytest.warns(UndefinedMetricWarning, match="less than two samples"):
            assert np.isnan(model.score(X[:1], y[:1]))
