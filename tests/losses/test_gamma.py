"""The Gamma loss: formulas, fits against other packages, certificates, scores."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor
from sklearn.metrics import d2_tweedie_score

import stochadmm as sa
from stochadmm.testing import check_loss


def amounts(seed=0, n=200, d=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    mean = np.exp(X @ np.linspace(0.6, -0.3, d) + 0.5)
    return X, rng.gamma(2.0, mean / 2.0)


@pytest.mark.parametrize("max_ratio", [400.0, 3.0])
def test_the_loss_passes_the_public_checks(max_ratio):
    check_loss(sa.Gamma(max_ratio), y=np.array([0.02, 0.3, 1.0, 1.5, 7.0, 40.0]))


def test_beyond_the_range_the_loss_goes_on_as_a_parabola():
    loss, y = sa.Gamma(3.0), np.array([1.0])
    edge = -np.log(3.0)
    far = np.array([edge - 2.0])
    assert loss.value(far, y) == pytest.approx(far[0] + 3.0 * (1 + 2 + 2), rel=1e-14)
    assert loss.derivative(far, y) == pytest.approx(1 - 3.0 * (1 + 2), rel=1e-14)
    assert loss.curvature(far, y) == pytest.approx(3.0)
    assert loss.value(np.array([0.5]), y) == pytest.approx(0.5 + np.exp(-0.5), rel=1e-14)


@pytest.mark.parametrize("y", [[1.0, 0.0], [1.0, -2.0], [1.0, np.nan]])
def test_targets_must_be_positive(y):
    with pytest.raises(ValueError, match=r"positive amounts|NaN"):
        sa.LassoRegressor(loss="gamma").fit(np.eye(2), y)


def test_an_unpenalized_fit_is_that_of_scikit_learn():
    X, y = amounts()
    ours = sa.LassoRegressor(alpha=0.0, loss="gamma", tol=1e-8).fit(X, y)
    theirs = GammaRegressor(alpha=0.0, tol=1e-10, max_iter=1000, solver="newton-cholesky").fit(
        X, y
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-5)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-7)


def test_the_score_is_the_deviance_explained():
    X, y = amounts(1)
    model = sa.LassoRegressor(alpha=0.05, loss="gamma").fit(X, y)
    expected = d2_tweedie_score(y, model.predict(X), power=2)
    assert model.score(X, y) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_a_fused_fit_is_that_of_clarabel_and_its_bound_holds(alpha):
    X, y = amounts(2, n=60)
    w, c = cp.Variable(5), cp.Variable()
    z = X @ w + c
    mean_loss = cp.sum(z + cp.multiply(y, cp.exp(-z))) / len(y)
    problem = cp.Problem(cp.Minimize(mean_loss + alpha * (cp.norm1(cp.diff(w)) + cp.norm1(w))))
    best = problem.solve(solver="CLARABEL")
    result = sa.minimize(
        sa.Problem.linear(
            sa.Gamma.for_targets(y),
            X,
            y,
            structure=sa.Differences(5),
            on_structure=sa.L1(alpha),
            on_coefficients=sa.L1(alpha),
            intercept=True,
        ),
        stop=sa.Gap(1e-8),
    )
    assert result.objective == pytest.approx(best, abs=1e-6)
    assert result.objective - result.gap <= best + 1e-7
    np.testing.assert_allclose(result.coef, w.value, atol=1e-3)


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm"])
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_bounds_of_every_method_stay_below_the_optimum(solver, engine):
    X, y = amounts(3, n=80)
    w, c = cp.Variable(5), cp.Variable()
    z = X @ w + c
    mean_loss = cp.sum(z + cp.multiply(y, cp.exp(-z))) / len(y)
    best = cp.Problem(cp.Minimize(mean_loss + 0.05 * cp.norm1(w))).solve(solver="CLARABEL")
    # the parabola begins beyond every target of the optimum and leaves it where it is
    assert (y * np.exp(-z.value)).max() < 8.0
    problem = sa.Problem.linear(sa.Gamma(8.0), X, y, on_coefficients=sa.L1(0.05), intercept=True)
    tol = 1e-3
    result = sa.minimize(problem, solver, stop=sa.Gap(tol), engine=engine, max_passes=200)
    assert result.converged
    # a converged run bounds the optimum from below, within its tolerance; 1e-7 is Clarabel's
    bound = result.objective - result.gap
    assert best - tol * abs(result.objective) - 1e-7 <= bound <= best + 1e-7


def test_doubling_weights_is_repeating_rows():
    X, y = amounts(4, n=40)
    weight = np.where(np.arange(40) % 2, 2.0, 1.0)
    twice = np.repeat(np.arange(40), weight.astype(int))
    settings = {"alpha": 0.05, "loss": "gamma", "tol": 1e-9}
    weighted = sa.LassoRegressor(**settings).fit(X, y, sample_weight=weight)
    repeated = sa.LassoRegressor(**settings).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_the_information_criterion_finds_the_shape_of_the_distribution():
    from scipy import stats

    X, y = amounts(5, n=400)
    model = sa.LassoRegressor(alpha=0.0, loss="gamma", tol=1e-8).fit(X, y)
    mean = model.predict(X)
    shape, _, _ = stats.gamma.fit(y / mean, floc=0.0)
    logs = stats.gamma.logpdf(y, shape, scale=mean / shape)
    assert model.aic_ == pytest.approx(-2 * logs.sum() + 2 * model.dof_, rel=1e-3)


def test_the_scale_of_the_targets_moves_the_intercept_alone():
    X, y = amounts(6, n=100)
    settings = {"alpha": 0.05, "loss": "gamma", "tol": 1e-9}
    one, ten = (sa.LassoRegressor(**settings).fit(X, factor * y) for factor in (1.0, 10.0))
    np.testing.assert_allclose(one.coef_, ten.coef_, atol=1e-6)
    assert ten.intercept_ - one.intercept_ == pytest.approx(np.log(10.0), abs=1e-6)
