"""Losses by name are made for the targets: units, weights and offsets change what they should."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa

UNITS = [1e-6, 1e-3, 1.0, 1e3, 1e6]


def rows(seed=0, n=61):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + rng.exponential(2.0, n)


def fitted(loss, X, y, unit, alpha=0.05, **more):
    strength = alpha * (unit if loss == "huber" else 1.0)  # derivatives of quantiles have no unit
    return sa.LassoRegressor(strength, loss=loss).fit(X, unit * y, **more)


@pytest.mark.parametrize("loss", ["huber", "quantile"])
@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_of_the_targets_is_that_of_the_fit(loss, unit):
    X, y = rows()
    one, other = fitted(loss, X, y, 1.0), fitted(loss, X, y, unit)
    np.testing.assert_allclose(other.coef_ / unit, one.coef_, atol=1e-4)
    assert other.intercept_ / unit == pytest.approx(one.intercept_, abs=1e-4)
    assert other.score(X, unit * y) == pytest.approx(one.score(X, y), abs=1e-4)


@pytest.mark.parametrize("unit", UNITS)
def test_the_constant_of_quantiles_is_the_median(unit):
    X, y = rows()
    model = sa.LassoRegressor(100.0, loss="quantile").fit(X, unit * y)
    assert model.intercept_ / unit == pytest.approx(np.median(y), abs=0.05 * y.std())
    assert abs(np.mean(y) - np.median(y)) > 0.1 * y.std()


@pytest.mark.parametrize("unit", UNITS)
def test_huber_is_between_median_and_mean_and_outliers_do_not_move_it(unit):
    X, y = rows()
    model = sa.LassoRegressor(100.0 * unit, loss="huber").fit(X, unit * y)
    assert np.median(y) < model.intercept_ / unit < np.mean(y)
    y[0] = 1e4
    far = sa.LassoRegressor(100.0 * unit, loss="huber").fit(X, unit * y)
    assert far.intercept_ / unit == pytest.approx(model.intercept_ / unit, abs=0.2)


@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_weights_are_repeated_rows_and_offsets_shift_targets(loss):
    X, y = rows()
    times = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = fitted(loss, X, y, 1.0, sample_weight=0.5 * times)
    repeated = fitted(loss, np.repeat(X, times, axis=0), np.repeat(y, times), 1.0)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)
    assert weighted._loss == repeated._loss
    offset = 1e3 * np.cos(np.arange(len(y)))
    moved = fitted(loss, X, y + offset, 1.0, offset=offset)
    np.testing.assert_allclose(moved.coef_, fitted(loss, X, y, 1.0).coef_, atol=1e-5)


@pytest.mark.parametrize("loss", ["huber", "quantile"])
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_targets_without_spread_are_fitted(loss, value):
    X, y = rows()
    y[:] = value
    assert fitted(loss, X, y, 1.0).intercept_ == pytest.approx(value, abs=1e-3)
    y[:10] += 1.0  # half of the targets and more are equal
    assert np.isfinite(fitted(loss, X, y, 1.0).intercept_)


def test_losses_that_are_objects_are_taken_as_they_are():
    X, y = rows()
    for loss in (sa.Huber(0.3), sa.Quantile(0.9, 0.2)):
        assert sa.LassoRegressor(loss=loss).fit(X, 1e3 * y)._loss is loss


@pytest.mark.parametrize("loss", ["huber", "quantile", "poisson"])
def test_rows_that_are_read_have_the_loss_of_rows_in_memory(loss):
    X, y = rows()
    y, weight, offset = np.abs(y) + 1.0, np.arange(len(y)) % 3.0, 0.1 * X[:, 1]
    held = sa.LassoRegressor(loss=loss).fit(X, y, weight, offset)
    source = sa.data.ArraySource(X, y, weight=weight, offset=offset)
    assert sa.LassoRegressor(loss=loss, tol=1e-3).fit(source)._loss == held._loss


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (sa.Huber, "loss is the class Huber, expected a name or an object"),
        (["squared"], r"loss is \['squared'\], expected one of squared, huber"),
        (np.array(["squared", "huber"]), "expected one of squared, huber"),
        (None, "loss is None, expected one of squared, huber"),
    ],
)
def test_what_is_no_loss_is_said(loss, words):
    X, y = rows()
    with pytest.raises(ValueError, match=words):
        sa.LassoRegressor(loss=loss).fit(X, y)


def test_one_number_is_no_offset():
    X, y = rows()
    with pytest.raises(ValueError, match=r"offset is 1.0, expected an array of shape \(61,\)"):
        sa.LassoRegressor().fit(X, y, offset=1.0)
    with pytest.raises(ValueError, match=r"offset is 1.0, expected an array of shape \(61,\)"):
        sa.LassoRegressor().fit(X, y).predict(X, offset=1.0)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_target_that_is_missing_everywhere_has_no_score(loss):
    X, y = rows()
    Y = np.column_stack([y, np.full(len(y), np.nan), X[:, 1]])
    model = sa.SparseLowRankRegressor(0.01, loss=loss).fit(X, Y)
    two = model.score(X, Y)
    assert np.isfinite(two)
    alone = [model.score(X, np.where(np.arange(3) == k, Y, np.nan)) for k in (0, 2)]
    assert two == pytest.approx(np.mean(alone))
