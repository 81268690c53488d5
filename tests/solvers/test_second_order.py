"""Second-order steps: the Hessian is the derivative of the gradient, line searches descend."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm._newton import backtrack
from stochadmm.risk.curvature import RowSample, SampledHessian, shares_curvature
from stochadmm.solvers._second_block import full_hessian


def mean_loss(loss, y, intercept=False, weight=None):
    X = np.random.default_rng(0).standard_normal((len(y), 3))
    return sa.FiniteSum(loss, X, y, weight, intercept=intercept)


def cases():
    rng = np.random.default_rng(1)
    signs, classes = np.sign(rng.standard_normal(40)), rng.integers(0, 3, 40)
    yield mean_loss(sa.Logistic(), signs, intercept=True)
    yield mean_loss(sa.Logistic(), signs, weight=rng.random(40))
    yield mean_loss(sa.Multinomial(3), classes, intercept=True)
    yield mean_loss(sa.Squared(), rng.standard_normal((40, 2)))


@pytest.mark.parametrize(
    "f2", list(cases()), ids=["logistic", "weights", "multinomial", "squared"]
)
def test_the_hessian_of_all_rows_is_the_derivative_of_the_gradient(f2):
    x = np.random.default_rng(2).standard_normal(f2.shape)
    H, _ = full_hessian(f2, f2.predict(x))
    for k in range(x.size):
        e = np.zeros(x.size)
        e[k] = 1e-5
        e = e.reshape(x.shape)
        derivative = (f2.gradient(x + e) - f2.gradient(x - e)) / 2e-5
        flat = e / 1e-5 if len(H) == len(x) else (e / 1e-5).ravel()
        np.testing.assert_allclose((H @ flat).ravel(), derivative.ravel(), atol=1e-8)


def test_products_with_the_hessian_and_changes_of_the_derivatives_agree():
    f2 = mean_loss(sa.Logistic(), np.sign(np.random.default_rng(3).standard_normal(40)))
    z = f2.predict(np.ones(3))
    sample = RowSample(f2, z, f2.loss.derivative(z, f2.y))
    hessian = SampledHessian(sample, shares_curvature(f2, z))
    step = np.array([1.0, -2.0, 0.5])
    pulled = sample.pull_back(hessian.derivative_change(step))
    np.testing.assert_allclose(pulled, hessian.matrix @ step, rtol=1e-12)
    free = np.arange(40) % 3 > 0
    rest = hessian.over(free) + hessian.over(~free)
    np.testing.assert_allclose(rest, hessian.matrix, rtol=1e-12, atol=1e-14)


def test_backtracking_takes_the_longest_share_that_descends_enough():
    values = {1.0: 5.0, 0.5: 2.0, 0.25: 0.9, 0.125: 0.5}
    assert backtrack(values.__getitem__, now=1.0) == 0.25
    assert backtrack(lambda t: 1.0 + t, now=1.0) == 0.0
    assert backtrack(lambda t: 1.0 - 0.1 * t, now=1.0, derivative=-0.5) == 0.0


def test_a_start_near_the_answer_leads_to_it_along_a_bound():
    """A rough model ends outside of the bound, and is worth what the point inside is."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((150, 11))
        y = np.sign(X @ rng.standard_normal(11) + rng.standard_normal(150))
        problem = sa.Problem.linear(
            sa.Logistic(),
            X,
            y,
            structure=sa.VStack([sa.Differences(11), sa.Identity(11)]),
            on_structure=sa.L1(1e-3),
            on_coefficients=sa.NonNegative(),
            intercept=True,
        )
        near = sa.minimize(problem, "sampled-newton", stop=1e-4)
        found = sa.minimize(problem, "sampled-newton", start=near, stop=1e-8)
        assert found.converged and found.n_epochs <= 4 and "then" not in found.info
