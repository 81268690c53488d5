"""Tweedie and negative binomial losses: formulas, fits against other packages, certificates."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.linear_model import TweedieRegressor
from sklearn.metrics import d2_tweedie_score, mean_tweedie_deviance

import stochadmm as sa
from stochadmm.testing import check_loss

AMOUNTS = np.array([0.0, 0.02, 0.3, 1.0, 7.0, 40.0])


def claims(seed=0, n=300, d=4):
    """Return rows and sums of a random number of amounts: many zeros and a long tail."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    mean = np.exp(X @ np.linspace(0.5, -0.4, d))
    return X, np.array([rng.gamma(1.5, 1.0, rng.poisson(m)).sum() for m in mean])


def counts(seed=0, n=300, d=4, theta=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    mean = np.exp(X @ np.linspace(0.5, -0.4, d) + 0.5)
    return X, rng.poisson(mean * rng.gamma(1 / theta, theta, n)).astype(float)


@pytest.mark.parametrize("power", [1.05, 1.5, 1.9])
@pytest.mark.parametrize("max_part", [1e3, 60.0])
def test_the_tweedie_loss_passes_the_public_checks(power, max_part):
    targets = AMOUNTS if power < 1.8 or max_part > 60 else AMOUNTS[:5]
    check_loss(sa.Tweedie(power, max_part), y=targets)


@pytest.mark.parametrize("theta", [0.01, 0.7, 5.0])
def test_the_negative_binomial_loss_passes_the_public_checks(theta):
    check_loss(sa.NegativeBinomial(theta, 40.0), y=np.array([0.0, 1.0, 3.0, 40.0]))


@pytest.mark.parametrize("power", [1.1, 1.5, 1.8])
def test_the_tweedie_loss_is_half_the_deviance(power):
    loss, y = sa.Tweedie(power), AMOUNTS
    mean = np.exp(np.linspace(-1, 1, len(y)))
    null = float(np.mean(-loss.conjugate(np.zeros_like(y), y)))
    half = loss.value(np.log(mean), y) - null
    assert half == pytest.approx(0.5 * mean_tweedie_deviance(y, mean, power=power), rel=1e-12)


def test_the_negative_binomial_loss_is_its_log_likelihood():
    loss, y, z = sa.NegativeBinomial(0.5, 7.0), np.array([0.0, 2.0, 7.0]), np.array([-1.0, 0.3, 1])
    p = 1 / (1 + 0.5 * np.exp(z))
    expected = stats.nbinom.logpmf(y, 2.0, p).sum()
    assert loss.log_likelihood(3 * loss.value(z, y), y, 3) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    "loss",
    [sa.Tweedie(1.3, 5.0), sa.Tweedie(1.5), sa.Tweedie(1.97), sa.NegativeBinomial(2.0)],
    ids=str,
)
@pytest.mark.parametrize("y", [0.0, 0.4, 6.0])
def test_conjugates_are_largest_differences_of_a_line_and_the_loss(loss, y):
    top = 1 / loss.dispersion if isinstance(loss, sa.NegativeBinomial) else 40.0
    for u in np.linspace(-0.9 * y, 0.9 * top, 7):
        at = np.array([y])
        best = optimize.minimize_scalar(
            lambda z: loss.value(np.array([z]), at) - u * z,  # noqa: B023
            bracket=(-1.0, 1.0),
            tol=1e-14,
        )
        assert loss.conjugate(np.array([u]), at)[0] == pytest.approx(
            -best.fun, abs=1e-10, rel=1e-9
        )


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
def test_an_unpenalized_tweedie_fit_is_that_of_scikit_learn(power):
    X, y = claims()
    e = np.random.default_rng(1).uniform(0.2, 1.0, len(y))
    settings = {"alpha": 0.0, "tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}
    theirs = TweedieRegressor(power=power, link="log", **settings).fit(X, y, sample_weight=e)
    ours = sa.LassoRegressor(alpha=0.0, loss=sa.Tweedie(power)).fit(X, y, sample_weight=e)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    expected = d2_tweedie_score(y, theirs.predict(X), power=power, sample_weight=e)
    assert ours.score(X, y, sample_weight=e) == pytest.approx(expected, abs=1e-9)


def test_the_unit_of_amounts_moves_the_intercept_alone():
    X, y = claims(3)
    loss = sa.Tweedie(1.6)
    one = sa.LassoRegressor(alpha=0.0, loss=loss).fit(X, y)
    other = sa.LassoRegressor(alpha=0.0, loss=loss).fit(X, 1e4 * y)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
    assert other.intercept_ - one.intercept_ == pytest.approx(np.log(1e4), abs=1e-6)


@pytest.mark.parametrize("theta", [0.2, 1.0])
def test_an_unpenalized_negative_binomial_fit_is_where_the_likelihood_is_largest(theta):
    X, y = counts(theta=theta)
    model = sa.LassoRegressor(alpha=0.0, loss=sa.NegativeBinomial(theta)).fit(X, y)

    def minus_likelihood(w):
        p = 1 / (1 + theta * np.exp(X @ w[1:] + w[0]))
        return -stats.nbinom.logpmf(y, 1 / theta, p).sum()

    found = optimize.minimize(minus_likelihood, np.zeros(5), tol=1e-10)
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), found.x, atol=1e-4)
    assert model.aic_ == pytest.approx(2 * found.fun + 10, rel=1e-8)


@pytest.mark.parametrize("theta", [0.2, 1.0])
def test_a_lasso_of_negative_binomial_counts_is_that_of_clarabel(theta):
    X, y = counts(1, n=80, theta=theta)
    w, c = cp.Variable(4), cp.Variable()
    z = X @ w + c
    mean_loss = cp.sum(
        cp.multiply(y + 1 / theta, cp.logistic(z + np.log(theta))) - cp.multiply(y, z)
    ) / len(y)
    best = cp.Problem(cp.Minimize(mean_loss + 0.1 * cp.norm1(w))).solve(solver="CLARABEL")
    loss = sa.NegativeBinomial(theta).suited(y)
    problem = sa.Problem.linear(loss, X, y, on_coefficients=sa.L1(0.1), intercept=True)
    result = sa.minimize(problem, stop=sa.Gap(1e-9))
    assert result.objective == pytest.approx(best, abs=1e-6)
    assert result.objective - result.gap <= best + 1e-7


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "sdca-admm"])
@pytest.mark.parametrize("power", [1.2, 1.7])
def test_a_lasso_of_amounts_is_that_of_clarabel_and_its_bound_holds(power, solver):
    X, y = claims(2, n=80)
    w, c = cp.Variable(4), cp.Variable()
    z = X @ w + c
    q, r = 2 - power, power - 1
    mean_loss = cp.sum(cp.multiply(y, cp.exp(-r * z)) / r + cp.exp(q * z) / q) / len(y)
    best = cp.Problem(cp.Minimize(mean_loss + 0.1 * cp.norm1(w))).solve(solver="CLARABEL")
    loss = sa.Tweedie(power, 16.0)  # a narrow range, which holds what is near the optimum
    assert loss.beyond(z.value, y).max() < 0
    problem = sa.Problem.linear(loss, X, y, on_coefficients=sa.L1(0.1), intercept=True)
    tol = 1e-8 if solver == "auto" else 1e-3
    result = sa.minimize(problem, solver, stop=sa.Gap(tol), max_passes=300)
    assert result.converged
    bound = result.objective - result.gap
    assert best - tol * abs(result.objective) - 1e-6 <= bound <= best + 1e-6


@pytest.mark.parametrize("loss", ["tweedie", "negative_binomial", sa.NegativeBinomial(0.3)])
def test_doubling_weights_is_repeating_rows(loss):
    X, y = counts(4, n=40)
    weight = np.where(np.arange(40) % 2, 2.0, 1.0)
    twice = np.repeat(np.arange(40), weight.astype(int))
    settings = {"alpha": 0.05, "loss": loss, "tol": 1e-9}
    weighted = sa.LassoRegressor(**settings).fit(X, y, sample_weight=weight)
    repeated = sa.LassoRegressor(**settings).fit(X[twice], y[twice])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "y", "words"),
    [
        ("tweedie", [1.0, -2.0], "amounts, 0 or more"),
        ("negative_binomial", [1.0, -2.0], "counts, 0 or more"),
        (sa.NegativeBinomial(0.3), [1.0, np.nan], "NaN"),
    ],
)
def test_targets_are_checked(loss, y, words):
    with pytest.raises(ValueError, match=words):
        sa.LassoRegressor(loss=loss).fit(np.eye(2), y)


@pytest.mark.parametrize("power", [1, 2, 0.5, "1.5"])
def test_the_power_lies_between_poisson_and_gamma(power):
    with pytest.raises(ValueError, match="between 1 and 2"):
        sa.Tweedie(power)


@pytest.mark.parametrize("loss", [sa.Tweedie(1.5), sa.NegativeBinomial(0.5)], ids=str)
def test_rows_from_a_source_give_the_same_fit(loss):
    X, y = counts(5)
    model = sa.LassoRegressor(alpha=0.05, loss=loss, tol=1e-8)
    memory = model.fit(X, y).coef_
    streamed = model.fit(sa.data.ArraySource(X, y)).coef_
    np.testing.assert_allclose(streamed, memory, atol=1e-4)


@pytest.mark.parametrize("power", [1.01, 1.99])
def test_powers_near_their_ends_are_fitted_refitted_and_scored(power):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.exp(0.3 * X[:, 0]) * rng.gamma(1.0, 1.0, 200) * (rng.random(200) < 0.7)
    model = sa.LassoRegressor(0.001, loss=sa.Tweedie(power), refit=True).fit(X, y)
    assert model.result_.converged
    expected = d2_tweedie_score(y, model.predict(X), power=power)
    assert model.score(X, y) == pytest.approx(expected, rel=1e-9)


def test_negative_binomial_targets_may_all_be_zero():
    loss = sa.NegativeBinomial(0.5).suited(np.zeros(4))
    assert loss.curvature_bound == pytest.approx(0.5)
