"""Losses whose formulas hold in a range of predictions: fits are those of the model itself."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor, PoissonRegressor

import stochadmm as sa
from stochadmm.run.result import Status

RIVALS = {"poisson": PoissonRegressor, "gamma": GammaRegressor}


def far(loss, seed=0, n=120, d=3):
    """Return rows of which one lies so far out that its prediction leaves the usual range."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[0] *= 6.0
    y = rng.poisson(0.7, n).astype(float) if loss == "poisson" else rng.gamma(20.0, 0.1, n)
    return X, y + 0.5 * (X[:, 0] > 1)


def ends(loss, X, y, w, intercept, weight=None, offset=0.0):
    """Return the gradient of the mean loss of the model itself in coefficients and intercept."""
    z = X @ w + intercept + offset
    derivative = np.exp(z) - y if loss == "poisson" else 1 - y * np.exp(-z)
    derivative = derivative * (np.ones(len(y)) if weight is None else weight)
    total = len(y) if weight is None else weight.sum()
    return np.append(X.T @ derivative, derivative.sum()) / total


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_large_offsets_leave_the_closed_form_of_the_constant(loss):
    X, y = far(loss)
    e = np.ones(len(y))
    e[0] = 4000.0 if loss == "poisson" else 1e-5
    model = sa.LassoRegressor(1e6, loss=loss).fit(X, y, offset=np.log(e))
    constant = y.sum() / e.sum() if loss == "poisson" else np.mean(y / e)
    assert model.status_ is Status.CONVERGED and not model.coef_.any()
    assert model.intercept_ == pytest.approx(np.log(constant), abs=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_exposure_moves_the_intercept_alone(loss, unit):
    X, y = far(loss)
    e = np.exp(np.random.default_rng(1).normal(0.0, 2.0, len(y)))  # warned of beyond 1e6
    one = sa.LassoRegressor(0.05, loss=loss).fit(X, y, offset=np.log(e))
    other = sa.LassoRegressor(0.05, loss=loss).fit(X, y, offset=np.log(unit * e))
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)
    assert other.intercept_ + np.log(unit) == pytest.approx(one.intercept_, abs=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fits_agree_with_scikit_learn(loss, seed):
    X, y = far(loss, seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(y)).astype(float)
    ours = sa.LassoRegressor(0.01, l1_ratio=0.0, loss=loss).fit(X, y, weight)
    theirs = RIVALS[loss](alpha=0.01, tol=1e-9, max_iter=5000).fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)
    assert ours.score(X, y, weight) == pytest.approx(theirs.score(X, y, weight), abs=1e-6)


def pulled(n=60):
    """Return counts whose first row is predicted far beyond all of them."""
    X = np.column_stack([np.ones(n), np.arange(n) % 3 - 1.0])
    X[0] = [8.0, 0.0]
    return X, np.full(n, 2.0)


def test_one_row_far_out_does_not_change_the_function_that_is_minimized():
    x, y = np.ones((60, 1)), np.full(60, 2.0)
    x[0] = 5.0
    model = sa.LassoRegressor(0.0, loss="poisson", fit_intercept=False).fit(x, y)
    assert model.status_ is Status.CONVERGED
    assert abs(ends("poisson", x, y, model.coef_, 0.0)[0]) < 1e-8
    value = np.mean(np.exp(x @ model.coef_) - y * (x @ model.coef_))
    assert model.result_.objective == pytest.approx(value, rel=1e-12)


def test_a_range_that_is_far_too_narrow_is_widened():
    X, y = pulled()
    narrow = sa.LassoRegressor(1e-3, loss=sa.Poisson(1.0), fit_intercept=False).fit(X, y)
    wide = sa.LassoRegressor(1e-3, loss=sa.Poisson(9.0), fit_intercept=False).fit(X, y)
    assert (X @ wide.coef_).max() > 1.5
    np.testing.assert_allclose(narrow.coef_, wide.coef_, atol=1e-7)
    assert narrow.status_ is Status.CONVERGED
    assert narrow.n_passes_ >= narrow.history_[-1].passes > wide.n_passes_ / 2


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_rows_without_weight_do_not_count(loss):
    X, y = far(loss)
    weight = np.ones(len(y))
    weight[0] = 0.0
    without = sa.FusedLassoRegressor(0.02, loss=loss).fit(X[1:], y[1:])
    zero = sa.FusedLassoRegressor(0.02, loss=loss).fit(X, y, weight)
    np.testing.assert_allclose(zero.coef_, without.coef_, atol=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_paths_and_their_first_strength_are_those_of_the_model(loss):
    X, y = far(loss)
    offset = np.zeros(len(y))
    offset[0] = 8.0 if loss == "poisson" else -8.0
    model = sa.LassoRegressor(loss=loss, fit_intercept=False)
    largest = model.alpha_max(X, y, offset=offset)
    at_zero = ends(loss, X, y, np.zeros(3), 0.0, offset=offset)[:-1]
    assert largest == pytest.approx(np.abs(at_zero).max(), rel=1e-5)
    path = model.path(X, y, alphas=4, eps=1e-3, offset=offset)
    for alpha, coef in zip(path.alphas, path.coefs, strict=True):
        gradient = ends(loss, X, y, coef, 0.0, offset=offset)[:-1]
        assert np.abs(gradient).max() <= alpha * (1 + 1e-4)
        np.testing.assert_allclose(gradient @ coef, -alpha * np.abs(coef).sum(), rtol=1e-4)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_folds_and_refits_are_those_of_the_model(loss):
    X, y = far(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = sa.LassoRegressorCV(loss=loss, alphas=[0.3, 0.03], cv=3, refit=True).fit(X, y)
    kept = np.append(model.coef_ != 0, True)
    assert np.abs(ends(loss, X, y, model.coef_, model.intercept_)[kept]).max() < 1e-4
    assert np.isfinite(model.score_path_).all() and np.isfinite(model.aic_)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_rows_that_are_read_give_the_fit_of_rows_in_memory(loss):
    X, y = far(loss)
    offset = np.zeros(len(y))
    offset[:3] = 6.0 if loss == "poisson" else -6.0
    source = sa.data.ArraySource(X, y, offset=offset)
    read = sa.LassoRegressor(0.05, loss=loss, tol=1e-8).fit(source)
    held = sa.LassoRegressor(0.05, loss=loss).fit(X, y, offset=offset)
    assert read.status_ is Status.CONVERGED
    np.testing.assert_allclose(read.coef_, held.coef_, atol=1e-3)
    gradient = ends(loss, X, y, read.coef_, read.intercept_, offset=offset)
    assert np.abs(gradient[:-1]).max() <= 0.05 * (1 + 1e-2)


def test_a_checkpoint_of_a_widened_fit_is_gone_on_from(tmp_path):
    X, y = pulled()
    file = tmp_path / "fit.ckpt"
    model = sa.LassoRegressor(1e-3, loss=sa.Poisson(1.0), fit_intercept=False)
    first = model.fit(X, y, checkpoint=file).coef_
    np.testing.assert_array_equal(model.fit(X, y, checkpoint=file).coef_, first)
    assert model.status_ is Status.CONVERGED
    assert len([path for path in tmp_path.iterdir() if path.suffix != ".old"]) >= 2


def test_a_fit_that_leaves_all_numbers_is_not_called_converged():
    X, y = far("poisson")
    X[0], offset = 0.0, np.zeros(len(y))
    offset[0] = 150.0  # nothing can bring the prediction of this row down
    model = sa.LassoRegressor(0.1, loss="poisson", fit_intercept=False)
    with (
        pytest.warns(ConvergenceWarning, match="not converged|diverged"),
        pytest.warns(UserWarning, match="offsets go from 0 to 150"),
    ):
        model.fit(X, y, offset=offset)
    assert model.status_ is not Status.CONVERGED
