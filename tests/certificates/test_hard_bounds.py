"""Bounds where parts of the problem say little: dead columns, ties of quantiles, smooth f1."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.certificates.charge import charge
from stochadmm.forms.one_block import one_block

OUTPUTS = {
    "squared": (sa.Squared(), lambda y: np.c_[y, -y]),
    "logistic": (sa.Logistic(), lambda y: np.sign(np.c_[y, -y])),
    "huber": (sa.Huber(1.0), lambda y: np.c_[y, -y]),
    "multinomial": (sa.Multinomial(3), lambda y: np.digitize(y, [-1.0, 1.0])),
}
PENALTIES = {
    "chain": (sa.L1(0.05), 1),
    "rows": (sa.RowsL21(0.05), 1),
    "second order": (sa.RowsL21(0.05), 2),
}


def drawn(n=30, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.array([1.0, -2.0, 0.0, 1.0])[:d] + 0.3 * rng.standard_normal(n)


# ---------------------------------------------------------------- columns of zeros


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", OUTPUTS)
def test_a_column_of_zeros_at_the_end_of_a_chain_is_certified(loss, penalty, intercept):
    X, y = drawn()
    X[:, 0] = 0.0
    (function, targets), (h, order) = OUTPUTS[loss], PENALTIES[penalty]
    problem = sa.Problem.linear(
        function,
        X,
        targets(y),
        structure=sa.Differences(4, order=order),
        on_structure=h,
        intercept=intercept,
    )
    assert sa.minimize(problem).converged


@pytest.mark.parametrize("method", ["admm", "sampled-newton", "acc-sadmm", "gram", "tied-newton"])
def test_every_method_certifies_a_column_of_zeros(method):
    X, y = drawn()
    X[:, 0] = 0.0
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    )
    assert sa.minimize(problem, method).converged


def least(problem, X, y, A, alpha, loss):
    """Return the optimum of a fused fit by a conic solver, in the terms of the definition."""
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(X.shape[1])
    b = cp.Variable() if problem.intercept else 0.0
    r = X @ w + b - y
    value = cp.sum(loss(cp, r)) / len(y) + alpha * cp.norm1(A @ w)
    made = cp.Problem(cp.Minimize(value))
    options = {f"tol_gap_{kind}": 1e-11 for kind in ("abs", "rel")} | {"tol_feas": 1e-11}
    return float(made.solve(solver=cp.CLARABEL, **options))


@pytest.mark.parametrize("seed", range(12))
def test_no_bound_exceeds_the_optimum_where_columns_are_dead(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 20)), 6
    X, y = rng.standard_normal((n, d)), 3 * rng.standard_normal(n)
    X[:, rng.random(d) < 0.4] = 0.0
    A, alpha = sa.Differences(d), 10.0 ** rng.uniform(-3, 0.5)
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=A, on_structure=sa.L1(alpha), intercept=bool(seed % 2)
    )
    best = least(problem, X, y, A.tosparse(), alpha, lambda cp, r: cp.square(r) / 2)
    for passes in (3, 100):
        for method in ("auto", "acc-sadmm"):
            found = sa.minimize(problem, method, max_passes=passes)
            assert found.objective - found.gap <= best + 1e-8 * (1 + abs(best))


# ---------------------------------------------------------------- ties of quantiles

TIED = {
    "median": (sa.Quantile(0.5, 0.1), 30, None),
    "quantile": (sa.Quantile(0.9, 0.1), 20, None),
    "huber": (sa.Huber(0.1), 30, None),
    "two outputs": (sa.Huber(0.1), 30, 2),
}


@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("case", TIED)
def test_a_plateau_of_the_intercept_is_certified(case, method):
    loss, n, outputs = TIED[case]
    X, y = drawn(n)
    targets = 5 * y if outputs is None else np.c_[5 * y, y + 3]
    problem = sa.Problem.linear(loss, X, targets, on_structure=sa.L1(10.0), intercept=True)
    found = sa.minimize(problem, method)
    assert found.converged and not found.coef.any()


@pytest.mark.parametrize("seed", range(16))
def test_no_bound_exceeds_the_optimum_on_plateaus(seed):
    rng = np.random.default_rng(seed)
    n, d, delta = 2 * int(rng.integers(2, 8)), 4, 10.0 ** rng.uniform(-3, 0)
    X, y = rng.standard_normal((n, d)), np.round(4 * rng.standard_normal(n))
    alpha = delta * 10.0 ** rng.uniform(-1.5, 1)
    A = sa.Identity(d) if seed % 3 else sa.Differences(d)
    problem = sa.Problem.linear(
        sa.Huber(delta), X, y, structure=A, on_structure=sa.L1(alpha), intercept=True
    )
    best = least(problem, X, y, A.tosparse(), alpha, lambda cp, r: cp.huber(r, delta) / 2)
    for passes in (3, 60):
        for method in ("auto", "acc-sadmm"):
            found = sa.minimize(problem, method, max_passes=passes)
            assert found.objective - found.gap <= best + 1e-8 * (1 + abs(best))


@pytest.mark.parametrize("seed", [1, 5, 8])
def test_free_columns_that_as_many_rows_bend_for_are_certified(seed):
    """Of the rows that interpolate a median some lie next to an edge, and none can be spared."""
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 4))
    Y = X @ rng.standard_normal((4, 3)) + rng.standard_normal((30, 3))
    loss = sa.Quantile(0.5, 0.1) if seed % 2 else sa.Huber(0.05)
    found = sa.minimize(sa.Problem.linear(loss, X, Y, intercept=True), max_passes=60)
    assert found.converged
    delta = 0.05  # the median's loss is Huber's, smoothing / 2 wide, over its smoothing
    r = X @ cp.Variable((4, 3)) + np.ones((30, 1)) @ cp.Variable((1, 3)) - Y
    value = cp.sum(cp.huber(r, delta)) / (2 * 30 * (0.1 if seed % 2 else 1.0))
    best = float(cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))
    assert found.objective - found.gap <= best + 1e-8 * (1 + best)
    assert found.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize("seed", range(6))
def test_far_points_bound_every_point_of_the_level_set(seed, outputs):
    """The charge of a residual that is far larger than rounding, against points of the set."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((12, 3)), np.round(5 * rng.standard_normal((12, *outputs)))
    problem = sa.Problem.linear(sa.Huber(0.1), X, y, on_structure=sa.L1(0.5), intercept=True)
    form, workspace = one_block(problem), Workspace()
    f2, x = problem.f2, np.zeros((4, *outputs))
    x[-1] = np.median(y, axis=0)
    at = f2.evaluate_exactly(x)
    mu = form.project(form.absorb(-at.gradient))
    objective = at.value + 1.0
    error = np.full(x.shape, 1e-4)
    left = at.gradient + form.St @ mu
    most = charge(
        f2, form, at.predictions, at.derivative, mu, left, error, objective, workspace=workspace
    )
    assert np.isfinite(most)
    rho, reached = np.abs(left) + error, 0.0
    for _ in range(300):
        step = rng.standard_normal(x.shape)
        step[:-1] *= rng.random() < 0.5
        low, high = 0.0, 1e6
        for _ in range(60):
            middle = 0.5 * (low + high)
            w = x + middle * step
            inside = problem.objective(problem.feasible(sa.Pair(w[:-1], w))) <= objective
            low, high = (middle, high) if inside else (low, middle)
        reached = max(reached, float(np.vdot(rho, np.abs(x + low * step))))
    assert reached <= most


BENT = {
    "squared": (sa.Squared(), lambda y: y),
    "logistic": (sa.Logistic(), np.sign),
    "huber": (sa.Huber(3.0), lambda y: y),
}


@pytest.mark.parametrize("unit", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("apart", [1e-1, 1.0], ids=["near", "apart"])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("loss", BENT)
def test_curvature_bounds_every_point_of_the_level_set_in_any_units(loss, fused, apart, unit):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    X[:, 1] = X[:, 0] + apart * X[:, 1]
    function, targets = BENT[loss]
    h = {"structure": sa.Differences(3), "on_structure": sa.L1(0.5)} if fused else {}
    problem = sa.Problem.linear(function, unit * X, targets(y), **h)
    found = sa.minimize(problem, stop=1e-12)
    form, at = one_block(problem), problem.f2.evaluate_exactly(found.x2)
    mu = form.project(form.absorb(-at.gradient))
    left, error = at.gradient + form.St @ mu, np.full(3, 1e-3 * unit)
    level = 1.3 * found.objective
    most = charge(
        problem.f2,
        form,
        at.predictions,
        at.derivative,
        mu,
        left,
        error,
        level,
        workspace=Workspace(),
    )
    assert np.isfinite(most) or apart < 1
    steps = [rng.standard_normal(3) for _ in range(100)] + [np.ones(3), np.array([1, -1, 0.0])]
    assert _farthest(problem, found.x2, np.abs(left) + error, level, steps) <= most


def _farthest(problem, x, rho, level, steps):
    """Return the largest <rho, |w|> found over w of a level set, by bisection along steps."""
    reached = 0.0
    for step in steps:
        low, high = 0.0, 1e9
        for _ in range(90):
            middle = 0.5 * (low + high)
            point = problem.feasible(sa.Pair(np.zeros(problem.shape1), x + middle * step))
            inside = problem.objective(point) <= level
            low, high = (middle, high) if inside else (low, middle)
        reached = max(reached, float(np.vdot(rho, np.abs(x + low * step))))
    return reached


@pytest.mark.parametrize("size", [1.0, 1e5, 1e8])
def test_a_free_column_of_any_size_is_certified_for_several_outputs(size):
    rng = np.random.default_rng(1)
    X, Y = size + rng.standard_normal((10, 1)), rng.standard_normal((10, 3))
    best = np.square(X @ np.linalg.lstsq(X, Y, rcond=None)[0] - Y).sum() / 20
    found = sa.minimize(sa.Problem.linear(sa.Squared(), X, Y), max_passes=20)
    assert found.converged
    assert found.objective - found.gap <= best * (1 + 1e-14)


STRAIGHT = (sa.Huber(0.05), sa.Huber(1e-3), sa.Quantile(0.4, smoothing=1e-3))


@pytest.mark.parametrize("rows", [3, 10, 40])
@pytest.mark.parametrize("loss", STRAIGHT, ids=str)
def test_coefficients_of_zero_where_no_row_bends_are_certified(loss, rows):
    """Squares on the structure ask for their own multiplier, which no derivative tells."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((rows, 4)), 3.0 + rng.random(rows)
        A2 = rng.integers(-2, 3, (2, 4)).astype(float)
        problem = sa.Problem(
            sa.FiniteSum(loss, X, y),
            h1=sa.ElasticNet(1e-3, 0.3),
            h2=sa.L1(5.0),
            A1=sa.Identity(2, scale=2.0),
            A2=A2,
            b=np.array([1.0, 9.0]),
        )
        found = sa.minimize(problem)
        assert found.converged and not found.x2.any()


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_that_are_sure_of_their_class_leave_no_negative_curvature():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((2, 12)), rng.integers(0, 3, 2)
        problem = sa.Problem.linear(
            sa.Multinomial(3),
            X,
            y,
            structure=sa.Differences(12, order=2),
            on_structure=sa.RowsL21(1e-3 * (seed % 2)),
            intercept=True,
            sample_weight=10.0 ** rng.uniform(-6, 6, 2),
        )
        assert sa.minimize(problem, max_passes=20).gap >= 0


# ---------------------------------------------------------------- smooth functions of x1


class Linear:
    lipschitz = 0.0

    def __init__(self, c):
        self.c = c

    def value(self, x):
        return float(self.c @ x)

    def gradient(self, x):
        return self.c + 0 * x


class Flat:
    lipschitz = 1.0

    def value(self, x):
        return float(0.5 * (np.maximum(np.abs(x) - 1, 0) ** 2).sum())

    def gradient(self, x):
        return np.sign(x) * np.maximum(np.abs(x) - 1, 0)


SMOOTH = {"linear": Linear(np.array([0.3, 0.2, 0.5, 0.1])), "flat": Flat()}


@pytest.mark.parametrize("h1", [None, sa.NonNegative(), sa.L1(0.1)], ids=str)
@pytest.mark.parametrize("f1", SMOOTH)
def test_a_function_without_a_least_value_or_flat_at_zero_is_certified(f1, h1):
    X, y = drawn()
    for b in (None, np.arange(4.0)):
        data, eye = sa.FiniteSum(sa.Squared(), X, y), np.eye(4)
        problem = sa.Problem(data, f1=SMOOTH[f1], h1=h1, A1=eye, A2=-eye, b=b)
        assert sa.minimize(problem).converged


@pytest.mark.parametrize("seed", range(10))
def test_no_bound_exceeds_the_optimum_beside_a_smooth_function(seed):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    n, unit = int(rng.integers(5, 20)), 10.0 ** rng.integers(0, 4)
    X, y = rng.standard_normal((n, 4)), unit * rng.standard_normal(n)
    f1 = Flat() if seed % 2 else Linear(unit * rng.standard_normal(4))
    problem = sa.Problem(
        sa.FiniteSum(sa.Squared(), X, y), f1=f1, h1=sa.L1(0.1), A1=np.eye(4), A2=-np.eye(4)
    )
    w = cp.Variable(4)
    smooth = cp.sum_squares(cp.pos(cp.abs(w) - 1)) / 2 if seed % 2 else f1.c @ w
    value = cp.sum_squares(X @ w - y) / (2 * n) + 0.1 * cp.norm1(w) + smooth
    best = float(cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))
    for method in ("auto", "admm"):
        found = sa.minimize(problem, method, max_passes=30)
        assert found.objective - found.gap <= best + 1e-6 * (1 + abs(best))


# ---------------------------------------------------------------- losses of the user's own


class Own:
    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return float(np.average(0.5 * (z - y) ** 2, weights=weight))

    def derivative(self, z, y):
        return z - y


class WithConjugate(Own):
    def conjugate(self, u, y):
        return 0.5 * u * u + u * y


@pytest.mark.parametrize("structure", [sa.Differences(4), sa.Identity(4)], ids=["chain", "plain"])
@pytest.mark.parametrize("loss", [Own(), WithConjugate()], ids=["value", "conjugate"])
def test_a_conjugate_more_does_not_keep_a_loss_from_converging(loss, structure):
    X, y = drawn()
    options = {"structure": structure, "on_structure": sa.L1(0.05)}
    found = sa.minimize(sa.Problem.linear(loss, X, y, **options), max_passes=2000)
    best = sa.minimize(sa.Problem.linear(sa.Squared(), X, y, **options), stop=1e-9)
    assert found.converged and found.objective == pytest.approx(best.objective, rel=1e-5)
