"""Losses: values by hand, proxes and conjugates against plain numerical search."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

from stochadmm.losses import (
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from stochadmm.risk import FiniteSum
from stochadmm.testing import check_loss

ELEMENTWISE = [
    Squared(),
    Squared(half=False),
    Huber(),
    Huber(delta=0.3),
    Logistic(),
    SquaredHinge(),
    Poisson(),
    Poisson(max_prediction=1.2),
    Quantile(),
    Quantile(level=0.9, smoothing=0.01),
]
ALL = [*ELEMENTWISE, Multinomial(), Multinomial(n_classes=5)]


def targets(loss, shape, seed=0):
    rng = np.random.default_rng(seed)
    if isinstance(loss, (Logistic, SquaredHinge)):
        return rng.choice([-1.0, 1.0], size=shape)
    if isinstance(loss, Poisson):
        return rng.integers(0, 4, size=shape).astype(float)
    return rng.normal(size=shape)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_every_loss_passes_the_public_checks(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", ELEMENTWISE, ids=repr)
def test_elementwise_losses_take_several_outputs(loss):
    check_loss(loss, y=targets(loss, (7, 3)))


@pytest.mark.parametrize(
    ("loss", "z", "y", "expected"),
    [
        (Squared(), 3.0, 1.0, 2.0),
        (Squared(half=False), 3.0, 1.0, 4.0),
        (Huber(delta=1.0), 3.0, 0.0, 2.5),
        (Logistic(), 0.5, -1.0, np.log1p(np.exp(0.5))),
        (SquaredHinge(), -1.0, 1.0, 2.0),
        (SquaredHinge(), 1.5, 1.0, 0.0),
        (Poisson(), 1.0, 2.0, np.e - 2.0),
        (Quantile(level=0.9, smoothing=1e-9), 0.0, 2.0, 1.8),
        (Quantile(level=0.9, smoothing=1e-9), 0.0, -2.0, 0.2),
    ],
)
def test_values_are_those_of_the_formula(loss, z, y, expected):
    assert loss.value(np.array([z]), np.array([y])) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("loss", ELEMENTWISE, ids=repr)
def test_conjugate_is_the_supremum(loss):
    y = targets(loss, 6)
    u = 0.7 * loss.derivative(np.random.default_rng(1).normal(size=6), y)
    for i in range(6):

        def negative(z, i=i):
            return loss.value(np.array([z]), y[i : i + 1]) - u[i] * z

        found = minimize_scalar(negative, bracket=(-1.0, 1.0), options={"maxiter": 1000})
        conjugate = loss.conjugate(u[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(conjugate, -found.fun, atol=1e-7)


def test_multinomial_conjugate_is_the_supremum():
    loss, y = Multinomial(4), np.array([2])
    u = loss.derivative(np.array([[0.3, -1.0, 0.5, 2.0]]), y)
    found = minimize(lambda z: loss.value(z[None], y) - u[0] @ z, np.zeros(4), tol=1e-12)
    np.testing.assert_allclose(loss.conjugate(u, y), -found.fun, atol=1e-8)


@pytest.mark.parametrize(
    ("loss", "inside", "outside", "y"),
    [
        (Huber(delta=1.0), 1.0, 1.0 + 1e-12, 0.3),
        (Logistic(), -1.0, -1.0 - 1e-12, 1.0),
        (Logistic(), 0.0, 1e-12, 1.0),
        (SquaredHinge(), 0.0, 1e-12, 1.0),
        (Poisson(), -2.0, -2.0 - 1e-12, 2.0),
        (Quantile(level=0.8), -0.8, -0.8 - 1e-12, 0.0),
    ],
)
def test_domain_of_the_conjugate_has_a_sharp_edge(loss, inside, outside, y):
    y = np.array([y])
    assert np.isfinite(loss.conjugate(np.array([inside]), y)).all()
    assert np.isinf(loss.conjugate(np.array([outside]), y)).all()


def test_multinomial_conjugate_wants_rows_that_sum_to_zero():
    u = np.array([[0.5, -0.5], [0.5, -0.4], [-0.1, 0.1]])
    conjugate = Multinomial().conjugate(u, np.array([1, 1, 1]))
    np.testing.assert_array_equal(np.isinf(conjugate), [False, True, True])


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("step", [1e-8, 1e-2, 1.0, 1e3, 1e8])
def test_prox_is_stationary_for_short_and_long_steps(loss, step):
    rng = np.random.default_rng(0)
    multinomial = isinstance(loss, Multinomial)
    v = 10.0 * rng.normal(size=(20, 5) if multinomial else 20)
    y = rng.integers(0, 5, size=20) if multinomial else targets(loss, 20)
    z = loss.prox(v, step, y)
    residual = (z - v) / (1.0 + step * loss.curvature_bound) + step * loss.derivative(z, y) / (
        1.0 + step * loss.curvature_bound
    )
    np.testing.assert_allclose(residual, 0.0, atol=1e-13)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_prox_of_the_conjugate_stays_in_its_domain_in_float32(loss):
    rng = np.random.default_rng(0)
    multinomial = isinstance(loss, Multinomial)
    v = (30.0 * rng.normal(size=(50, 5) if multinomial else 50)).astype(np.float32)
    y = rng.integers(0, 5, size=50) if multinomial else targets(loss, 50)
    if isinstance(loss, Poisson):
        y = y.astype(np.float32)
    u = loss.prox_conjugate(v, 0.3, y)
    assert u.dtype == np.float32
    assert np.isfinite(loss.conjugate(u, y)).all()


def test_proxes_take_one_step_per_row():
    loss, y = Logistic(), np.array([[1.0, -1.0], [1.0, 1.0]])
    v, steps = np.array([[0.3, 2.0], [-1.0, 0.1]]), np.array([0.5, 3.0])
    together = loss.prox(v, steps, y)
    apart = np.vstack([loss.prox(v[i : i + 1], steps[i], y[i : i + 1]) for i in range(2)])
    np.testing.assert_allclose(together, apart, rtol=1e-14)


def test_poisson_is_exact_inside_its_range_and_smooth_beyond():
    loss, y = Poisson(max_prediction=2.0), np.zeros(1)
    for z in (-3.0, 0.0, 2.0):
        assert loss.value(np.array([z]), y) == pytest.approx(np.exp(z), rel=1e-15)
    below, above = (loss.derivative(np.array([2.0 + h]), y)[0] for h in (-1e-9, 1e-9))
    assert above - below == pytest.approx(2e-9 * np.exp(2.0), rel=1e-5)
    assert loss.derivative(np.array([4.0]), y)[0] == pytest.approx(3.0 * np.exp(2.0))


def test_quantile_is_minimized_at_the_quantile():
    y = np.random.default_rng(0).normal(size=4001)
    loss = Quantile(level=0.8, smoothing=1e-3)
    found = minimize_scalar(lambda z: loss.value(np.full_like(y, z), y), bracket=(0.0, 1.0))
    assert found.x == pytest.approx(np.quantile(y, 0.8), abs=5e-3)


def test_doubling_a_weight_equals_repeating_the_row():
    loss, y, z = Logistic(), np.array([1.0, -1.0, 1.0]), np.array([0.2, 0.4, -1.0])
    weighted = loss.value(z, y, np.array([1.0, 2.0, 0.0]))
    repeated = loss.value(z[[0, 1, 1]], y[[0, 1, 1]])
    assert weighted == pytest.approx(repeated, rel=1e-15)


def test_equal_columns_of_weights_do_the_same_as_one_weight_per_row():
    rng = np.random.default_rng(0)
    z, y, w = rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.random(5)
    by_row = Squared().value(z, y, w)
    by_entry = Squared().value(z, y, np.column_stack([w, w, w]))
    assert by_row == pytest.approx(by_entry, rel=1e-14)


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"weight has shape \(2,\), expected \(3,\)"):
        Squared().value(np.zeros(3), np.zeros(3), np.ones(2))


def test_value_is_accumulated_in_float64():
    z = np.full(100_000, 0.1, dtype=np.float32)
    value = Squared().value(z, np.zeros_like(z))
    assert value == pytest.approx(0.5 * float(np.float32(0.1)) ** 2, rel=1e-12)


def test_means_are_on_the_scale_of_the_response():
    z = np.array([0.0, 1.0])
    np.testing.assert_array_equal(Squared().mean(z), z)
    np.testing.assert_allclose(Logistic().mean(z), 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(Poisson().mean(z), np.exp(z))
    np.testing.assert_allclose(Multinomial().mean(np.zeros((2, 4))), 0.25)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Squared(), [1.0, np.nan], "y contains NaN or infinity; drop or impute"),
        (Squared(), [], "y is empty"),
        (Squared(), ["a", "b"], "Squared needs numbers"),
        (Squared(), np.zeros((2, 2, 2)), r"expected \(n,\) or \(n, n_outputs\)"),
        (Logistic(), [0, 1, 1], r"use 2\*y-1, or the classifier estimators take any two labels"),
        (Logistic(), [1, 2, 3], "got 1, 2, 3; the classifier estimators take any two labels"),
        (Logistic(), np.arange(9), "got 0, 1, 2, 3, 4, ...;"),
        (SquaredHinge(), [0, 1], "labels -1 and .1 for SquaredHinge"),
        (Poisson(), [-1.0, 2.0], "y has negative values; Poisson needs counts"),
        (Poisson(), [1e5], r"use Poisson.for_targets\(y\), or a larger max_prediction"),
        (Multinomial(), ["a"], "Multinomial needs the labels 0, 1"),
        (Multinomial(), [0.5, 1.0], "y must hold the labels 0, 1"),
        (Multinomial(), [-1, 1], "y must hold the labels 0, 1"),
        (Multinomial(), [[0, 1]], "expects .n,. integer labels"),
        (Multinomial(n_classes=2), [0, 2], r"use Multinomial\(n_classes=3\)"),
    ],
)
def test_bad_targets_are_named_with_a_remedy(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check_targets(y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Huber(delta=0.0), "delta must be positive"),
        (lambda: Quantile(level=1.0), "level must lie strictly between 0 and 1"),
        (lambda: Quantile(smoothing=-1.0), "smoothing must be positive"),
        (lambda: Multinomial(n_classes=1), "n_classes must be at least 2"),
        (lambda: Poisson(max_prediction=1e3), "max_prediction must lie between"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_targets_keep_float32_and_integers_become_float64():
    assert Squared().check_targets(np.ones(2, dtype=np.float32)).dtype == np.float32
    assert Squared().check_targets([1, 2]).dtype == np.float64
    assert Multinomial().check_targets([0.0, 2.0]).dtype == np.intp


def test_numbers_of_outputs():
    assert Squared().n_outputs(np.zeros(3)) is None
    assert Squared().n_outputs(np.zeros((3, 2))) == 2
    assert Multinomial().n_outputs(np.array([0, 4])) == 5
    assert Multinomial(n_classes=7).n_outputs(np.array([0, 4])) == 7


def test_losses_are_values():
    assert Huber(1.0) == Huber(1.0) != Huber(2.0)
    assert len({Logistic(), Logistic(), Squared()}) == 2
    assert len({loss.kernel[0] for loss in ALL}) == 7


@pytest.mark.parametrize("loss", [Squared(), Huber(), Quantile()])
def test_missing_entries_count_alike_in_the_loss_and_in_the_sum_over_rows(loss):
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((9, 2)), rng.standard_normal((9, 3)), rng.uniform(0.5, 2, 9)
    weight = np.where(rng.random((9, 3)) < 0.3, 0.0, w[:, None])
    B = rng.standard_normal((2, 3))
    total = FiniteSum(loss, X, Y, weight).value(B)
    assert total == pytest.approx(loss.value(X @ B, Y, weight), rel=1e-12)
    by_hand = (weight * loss.values(X @ B, Y)).sum() / weight.max(axis=1).sum()
    assert total == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9])
def test_small_losses_of_classes_do_not_round_away_beside_large_predictions(size):
    z = size + np.array([[0.0, -22.0, -30.0], [-25.0, 0.0, 3.0]])
    wide = z.astype(np.longdouble)
    own = wide[[0, 1], [0, 1]]
    sums = np.log(np.exp(wide - wide.max(axis=1, keepdims=True)).sum(axis=1))
    loss = sums + (wide.max(axis=1) - own)
    np.testing.assert_allclose(Multinomial(3).values(z, np.array([0, 1])), loss, rtol=1e-6)
