"""Every inequality of docs/explain/proofs.md, by numbers; its sections are those of this file."""

from itertools import islice, product

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.solvers import Schedule

# ---------------------------------------------------------------- 1 the step


def small_sum(rng, b, n=6, d=3):
    """Return a mean of n logistic losses and all batches of b rows."""
    X = 2 * rng.standard_normal((n, d))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    return sa.FiniteSum(sa.Logistic(), X, y), [list(i) for i in product(range(n), repeat=b)]


def estimates(f, batches, y, snapshot):
    """Return v for every batch."""
    full = f.gradient(snapshot)
    changes = [f.gradient_rows(i, y) - f.gradient_rows(i, snapshot) for i in batches]
    return [change + full for change in changes]


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_variance_of_the_estimate_is_bounded_by_the_distance_to_the_snapshot(b, seed):
    rng = np.random.default_rng(seed)
    f, batches = small_sum(rng, b)
    y, snapshot = rng.standard_normal((2, 3))
    gradient = f.gradient(y)
    v = estimates(f, batches, y, snapshot)
    np.testing.assert_allclose(np.mean(v, axis=0), gradient, atol=1e-12)  # unbiased
    variance = np.mean([np.sum((each - gradient) ** 2) for each in v])
    bregman = f.value(snapshot) - f.value(y) - gradient @ (snapshot - y)
    assert variance <= 2 * f.lipschitz_max / b * bregman * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("b", [1, 2])
@pytest.mark.parametrize("seed", range(10))
def test_one_step_with_the_tighter_weight_decreases_as_claimed(b, seed):
    rng = np.random.default_rng(seed)
    f, batches = small_sum(rng, b)
    h = sa.L1(0.1)
    x, snapshot, z, y = rng.standard_normal((4, 3))
    theta1, theta2 = rng.uniform(0.05, 0.5), rng.uniform(0.2, 0.5)
    eta = f.lipschitz_mean + f.lipschitz_max / (b * theta2)
    assert eta <= (1 + 1 / (b * theta2)) * f.lipschitz_max * (1 + 1e-9)  # the paper's
    rest = 1 - theta1 - theta2
    u = rest * x + theta2 * snapshot + theta1 * z

    def F(x):
        return f.value(x) + h.value(x)

    ends = [h.prox(y - v / eta, 1 / eta) for v in estimates(f, batches, y, snapshot)]
    left = np.mean([F(end) for end in ends])
    away = np.mean([np.sum((end - u) ** 2) for end in ends])
    right = rest * F(x) + theta2 * F(snapshot) + theta1 * F(z)
    assert left <= right + eta / 2 * (np.sum((y - u) ** 2) - away) + 1e-12


# ---------------------------------------------------------------- 2 the corrected theorem


def random_problem(rng, rows=30, d=6):
    X, y = rng.standard_normal((rows, d)), rng.standard_normal(rows)
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    return sa.Problem.linear(sa.Squared(), X, y, structure=A, on_structure=sa.L1(0.02))


def random_start(problem, rng):
    return sa.Pair(rng.standard_normal(problem.shape1), rng.standard_normal(problem.shape2))


def every_row_once(solver, problem, state):
    """Run an epoch whose batches are all rows, each once."""

    class AllRows:
        def integers(self, n, size):
            return np.tile(np.arange(n), (size[0], 1))

    solver.epoch(problem, state, AllRows())


@pytest.mark.parametrize("metric", ["none", "identity"])
@pytest.mark.parametrize("seed", range(3))
def test_multiplier_identity_from_a_random_infeasible_start(metric, seed):
    """lambda^ = beta W r(x^) - beta (m-1) theta_2/theta_1(0) r(x0) + lambda~0, at every epoch
    end."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    solver = sa.AccSADMM(beta=0.3, batch_size=3, metric=metric, restart="never")
    x0, dual0 = random_start(problem, rng), rng.standard_normal(problem.shape_dual)
    state = solver.start(problem, x0, dual0)
    m = state.n_inner
    for s in range(6):
        solver.epoch(problem, state, rng)
        theta, theta2 = Schedule().theta(s, m)
        W = (1 + (m - 1) * (theta + theta2)) / theta
        assert pytest.approx(m * (s + 2) - 1) == W
        right = (
            0.3 * W * problem.constraint(state.output)
            - 0.3 * (m - 1) * theta2 / Schedule().theta(0, m)[0] * problem.constraint(x0)
            + dual0
        )
        np.testing.assert_allclose(state.dual, right, rtol=0, atol=1e-10)


def test_weights_of_the_schedule_telescope():
    for m in (3, 10, 1000):
        for s in range(20):
            (now, theta2), (following, _) = (Schedule().theta(k, m) for k in (s, s + 1))
            assert (1 - 2 * following) / following == pytest.approx(1 / now)
            left = theta2 / following + 1 / (m - 1)
            assert left == pytest.approx(1 + theta2 / now)
    assert Schedule.unconstrained().theta(0, 10) == (0.5, 0.5)


def exact_optimum(problem):
    """Return x*, lambda* of a small quadratic + l1 problem by a conic solver."""
    import cvxpy as cp

    f = problem.f2
    A = problem.A2.tosparse()
    x, z = cp.Variable(problem.shape2[0]), cp.Variable(problem.shape1[0])
    tie = A @ x - z == 0
    loss = cp.sum_squares(f.X @ x - f.y) / (2 * f.n_terms)
    model = cp.Problem(cp.Minimize(loss + 0.02 * cp.norm1(z)), [tie])
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    multiplier = np.asarray(tie.dual_value)
    gradient = f.gradient(x.value) + A.T @ multiplier
    assert np.abs(gradient).max() < 1e-7  # the sign convention is ours
    return x.value, multiplier, model.value


class Cycle:
    """Both sides of the theorem for one cycle, from a start and its multiplier."""

    def __init__(self, problem, solver, star, x0, dual0, m, beta):
        self.problem, (x2, self.dual, self.F) = problem, star
        self.beta, self.m = beta, m
        theta, theta2 = Schedule().theta(0, m)
        A2 = problem.A2.tosparse().toarray()
        d1, d2 = x0.x1 - A2 @ x2, x0.x2 - x2
        eta = solver.weight(problem, solver.runs(problem), theta2)
        exact = solver.metric != "none"
        constraint2 = np.sum((A2 @ d2) ** 2) if exact else problem.A2.norm2 * (d2 @ d2)
        metric1 = beta * (problem.A1.norm2 - 1) * (d1 @ d1)  # A1 = -I
        self.primal = (metric1 + theta * eta * (d2 @ d2) + beta * constraint2) / 2
        self.right = (m - 1) * self.D(x0) + self.away(dual0) + self.primal

    def D(self, x):
        return self.problem.objective(x) - self.F + self.dual @ self.problem.constraint(x)

    def away(self, dual):
        return np.sum((dual - self.dual) ** 2) / (2 * self.beta)

    def left(self, state, W):
        return self.away(state.dual) + W * self.D(state.output)


def exact_case(seed, metric="none", restart="never"):
    """Return a small problem and the method with all rows in each batch: nothing is random."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, rows=12, d=int(rng.integers(2, 7)))
    beta, m = 10 ** rng.uniform(-2, 1), int(rng.integers(3, 12))
    n = problem.f2.n_terms
    solver = sa.AccSADMM(
        beta=beta, batch_size=n, n_inner=m, sampling="rows", metric=metric, restart=restart
    )
    x0, dual0 = random_start(problem, rng), rng.standard_normal(problem.shape_dual)
    return problem, solver, beta, m, x0, dual0, int(rng.integers(1, 6))


def multiplier_at_start(problem, beta, x0, dual0, m):
    theta, _ = Schedule().theta(0, m)
    return dual0 + beta * (1 / theta - 1) * problem.constraint(x0)


@pytest.mark.parametrize("metric", ["none", "identity"])
def test_corrected_theorem_holds_with_all_rows_in_each_batch(metric):
    for seed in range(30):
        problem, solver, beta, m, x0, dual0, S = exact_case(seed, metric)
        start = multiplier_at_start(problem, beta, x0, dual0, m)
        cycle = Cycle(problem, solver, exact_optimum(problem), x0, start, m, beta)
        state = solver.start(problem, x0, dual0)
        for _ in range(S):
            every_row_once(solver, problem, state)
        assert cycle.left(state, m * (S + 1) - 1) <= cycle.right * (1 + 1e-7) + 1e-9, seed


def test_printed_weight_makes_the_theorem_false():
    false = []
    for seed in range(30):
        problem, solver, beta, m, x0, dual0, S = exact_case(seed)
        start = multiplier_at_start(problem, beta, x0, dual0, m)
        cycle = Cycle(problem, solver, exact_optimum(problem), x0, start, m, beta)
        state = solver.start(problem, x0, dual0)
        for _ in range(S):
            every_row_once(solver, problem, state)
        (theta0, theta2), (theta, _) = (Schedule().theta(s, m) for s in (0, S - 1))
        W, r, r0 = m / theta, problem.constraint(state.output), problem.constraint(x0)
        dual = beta * W * r - beta * (m - 1) * theta2 / theta0 * r0 + dual0
        false.append(cycle.away(dual) + W * cycle.D(state.output) > cycle.right * (1 + 1e-6))
    assert any(false)


# ---------------------------------------------------------------- 3 restarts


@pytest.mark.parametrize("seed", range(3))
def test_cycles_of_the_proved_length_halve_the_gap_without_a_constraint(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 3)) * [3.0, 1.0, 0.5]
    problem = sa.Problem.linear(
        sa.Squared(), X, rng.standard_normal(12), on_coefficients=sa.L1(0.05)
    )
    m, schedule = int(rng.integers(3, 10)), Schedule()
    parts = {"batch_size": 12, "n_inner": m, "sampling": "rows", "theta": schedule}
    _, theta2 = schedule.theta(0, m)
    plain = sa.AccSADMM(**parts)
    eta = plain.weight(problem, plain.runs(problem), theta2)
    growth = float(np.linalg.eigvalsh(X.T @ X / 12)[0])
    S = int(np.ceil(1 + eta / (growth * m)))
    q = (m - 1 + eta / (2 * growth)) / (m * (S + 1) - 1)
    assert q <= 0.5
    solver = sa.AccSADMM(**parts, restart=S)
    optimum = sa.minimize(problem, stop=sa.Gap(1e-13)).objective
    start = sa.Pair(np.zeros(0), rng.standard_normal(3))
    state, gap = solver.start(problem, start), problem.objective(start) - optimum
    for _ in range(5):
        for _ in range(S):
            every_row_once(solver, problem, state)
        now = problem.objective(state.output) - optimum
        assert now <= q * gap + 1e-11
        gap = now


def test_theorem_chains_over_restarts_with_the_multiplier_kept():
    for seed in range(10):
        problem, solver, beta, m, x, dual, _ = exact_case(seed, restart=2)
        star = exact_optimum(problem)
        state = solver.start(problem, x, dual)
        multiplier = multiplier_at_start(problem, beta, x, dual, m)
        for _ in range(4):
            cycle = Cycle(problem, solver, star, x, multiplier, m, beta)
            for _ in range(2):
                every_row_once(solver, problem, state)
            assert cycle.left(state, 3 * m - 1) <= cycle.right * (1 + 1e-7) + 1e-9, seed
            x, multiplier = state.output, state.dual


# ---------------------------------------------------------------- 4 the plateau


def test_momentum_stays_at_one_half_and_steps_add_up_to_a_logarithm():
    beta, norm2, epochs = 0.3, 4.0, 500
    for m in (3, 10, 200):
        lengths = []
        for s in range(epochs):
            theta1, theta2 = Schedule().theta(s, m)
            assert 1 - theta1 - theta2 <= 0.5 + 0.5 / (m - 1)
            lengths.append(1 / (1.0 + beta / theta1 * norm2))
        assert m * sum(lengths) <= m * (1 + np.log(epochs)) / (2 * beta * norm2)


@pytest.mark.parametrize("epochs", [10, 100, 1000])
def test_steps_of_the_printed_form_leave_a_power_of_the_epochs(epochs):
    m, a = 20, 0.05  # a = mu / (2 beta |A2|^2)
    left = np.prod((1 - a / np.arange(1, epochs + 1)) ** m)
    # 1 - t >= exp(-t - t^2) for t <= 1/2, and the sum of 1 / s^2 is pi^2 / 6
    assert left >= np.exp(-m * a * (1 + np.log(epochs)) - m * a**2 * np.pi**2 / 6)


def test_restarts_leave_the_plateau_of_the_printed_form():
    problem = random_problem(np.random.default_rng(0), rows=200)
    optimum = sa.minimize(problem, stop=sa.Gap(1e-13)).objective

    def gap(restart):
        parts = {"beta": 1.0, "batch_size": 10, "metric": "none", "restart": restart}
        states = sa.iterate(problem, sa.AccSADMM(**parts), np.random.default_rng(0))
        *_, state = islice(states, 80)
        return problem.objective(problem.feasible(state.output)) - optimum

    assert gap(4) < 1e-2 * gap("never")


# ---------------------------------------------------------------- 5 methods that average


@pytest.mark.parametrize("method", [sa.solvers.StocADMM, sa.solvers.OPGADMM, sa.solvers.OptSADMM])
@pytest.mark.parametrize("share", [0.7, 0.8])
def test_averages_of_noisy_methods_have_the_exponent_one_half(method, share):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 8)) < 0.5, 0.0, 1.0)
    y = np.where(np.arange(4000) < share * 4000, -1.0, 1.0)  # nothing to learn but the share
    problem = sa.Problem.linear(
        sa.Logistic(),
        X,
        y,
        structure=sa.Differences(8),
        on_structure=sa.L1(0.01),
        on_coefficients=sa.NonNegative(),
    )
    certified = sa.minimize(problem, stop=sa.Gap(1e-10))
    assert not certified.coef.any()  # zero is the optimum, on the boundary
    solver = method(batch_size=1, n_inner=512, sampling="rows", returns="ergodic", growth=4.0)
    epochs, logs = [2, 4, 8, 16, 32], []
    for seed in range(3):
        states = islice(sa.iterate(problem, solver, np.random.default_rng(seed)), epochs[-1])
        gaps = [
            problem.objective(problem.feasible(state.output)) - certified.objective
            for k, state in enumerate(states, 1)
            if k in epochs
        ]
        logs.append(np.log(gaps))
    exponent, _ = np.polyfit(np.log(epochs), np.mean(logs, axis=0), 1)
    assert -0.65 <= exponent <= -0.35
