"""Every registered method on the same small problems, judged by certificates; equivalences."""

import ast
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.solvers._steps import (
    Average,
    Continuation,
    adapted_beta,
    first_beta,
    next_beta,
    solve_x1,
)

API_NAMES = {
    "auto",
    "acc-sadmm",
    "svrg-admm",
    "sag-admm",
    "sdca-admm",
    "asvrg-admm",
    "stoc-admm",
    "opg-admm",
    "rda-admm",
    "opt-sadmm",
    "admm",
    "linearized-admm",
    "ladm-ne",
    "aadmm",
    "vr-pddy",
    "spdhg",
    "katyusha",
    "sampled-newton",
    "gram",
    "fast-ladmm",
    "ladmpsap",
    "inertial-admm",
}


# ---------------------------------------------------------------- a dozen problems


def rows(n=80, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    coef = np.repeat(rng.standard_normal(d // 4 + 1), 4)[:d]
    return rng, X, X @ coef


def chain(d):
    return sa.VStack([sa.Differences(d), sa.Identity(d)])


def signs(rng, z):
    return np.where(z + rng.standard_normal(len(z)) > 0, 1.0, -1.0)


def lasso():
    rng, X, z = rows()
    y = z + rng.standard_normal(80)
    return sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.1))


def sparse_logistic():
    rng, X, z = rows(seed=1)
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        signs(rng, z),
        on_coefficients=sa.ElasticNet(0.04, 0.5),
        intercept=True,
        sample_weight=rng.uniform(0.5, 2.0, 80),
    )


def identity_structure():
    rng, X, z = rows(seed=2)
    return sa.Problem.linear(
        sa.SquaredHinge(), X, signs(rng, z), structure=sa.Identity(8), on_structure=sa.L1(0.1)
    )


def fused_squared():
    rng, X, z = rows(seed=3)
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(80) + 2.0,
        structure=chain(8),
        on_structure=sa.L1(0.1),
        intercept=True,
        sample_weight=rng.uniform(0.5, 2.0, 80),
    )


def fused_logistic():
    rng, X, z = rows(seed=4)
    return sa.Problem.linear(
        sa.Logistic(), X, signs(rng, z), structure=chain(8), on_structure=sa.L1(0.03)
    )


def graph_logistic_csr():
    rng, X, z = rows(seed=5)
    edges = np.array([[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7], [0, 3]])
    X = sparse.csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        signs(rng, z),
        on_structure=sa.L1(0.03),
        intercept=True,
        structure=sa.VStack([sa.Incidence(edges, 8), sa.Identity(8)]),
    )


def overlapping_groups():
    rng, X, z = rows(seed=6)
    groups = [np.arange(j, j + 4) for j in (0, 2, 4)]
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(80),
        structure=sa.Selection(groups, 8),
        on_structure=sa.GroupL2(0.2, [4, 4, 4]),
    )


def group_huber():
    rng, X, z = rows(seed=7)
    groups = [np.arange(j, j + 4) for j in (0, 2, 4)]
    return sa.Problem.linear(
        sa.Huber(1.0),
        X,
        z + rng.standard_t(3, 80),
        structure=sa.Selection(groups, 8),
        on_structure=sa.GroupL2(0.1, [4, 4, 4]),
        intercept=True,
    )


def fused_multinomial():
    rng, X, z = rows(seed=8)
    y = np.digitize(z + rng.standard_normal(80), np.quantile(z, [0.33, 0.66]))
    return sa.Problem.linear(
        sa.Multinomial(3), X, y, structure=chain(8), on_structure=sa.L1(0.02), intercept=True
    )


def low_rank():
    rng, X, z = rows(seed=9)
    Y = np.outer(z, [1.0, -1.0, 0.5]) + rng.standard_normal((80, 3))
    return sa.Problem.linear(
        sa.Squared(), X, Y, structure=sa.Identity(8), on_structure=sa.Nuclear(0.3)
    )


def fused_box():
    rng, X, _ = rows(seed=10)
    return sa.Problem.linear(
        sa.Squared(),
        X,
        X @ np.repeat([1.0, 0.0, 0.5, -0.5], 2) + rng.standard_normal(80),
        structure=sa.Differences(8),
        on_structure=sa.L1(0.1),
        on_coefficients=sa.Box(0.0, 3.0),
    )


def shifted_constraint():
    """A1 = 2 I and b nonzero, written out by hand."""
    rng, X, z = rows(seed=11)
    f2 = sa.FiniteSum(sa.Squared(), X, z + rng.standard_normal(80))
    return sa.Problem(
        f2, h1=sa.L1(0.1), A1=sa.Identity(7, scale=2.0), A2=sa.Differences(8), b=np.full(7, 0.3)
    )


def poisson_trend():
    rng, X, z = rows(seed=12)
    y = rng.poisson(np.exp(np.clip(0.4 * z, -3, 2)))
    second = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(6, 8))
    return sa.Problem.linear(
        sa.Poisson.for_targets(y),
        X,
        y,
        structure=sa.VStack([second, sa.Identity(8)]),
        on_structure=sa.L1(0.05),
    )


PROBLEMS = {
    make.__name__: make
    for make in (
        lasso,
        sparse_logistic,
        identity_structure,
        fused_squared,
        fused_logistic,
        graph_logistic_csr,
        overlapping_groups,
        group_huber,
        fused_multinomial,
        low_rank,
        fused_box,
        shifted_constraint,
        poisson_trend,
    )
}
UNCONSTRAINED = {"lasso", "sparse_logistic"}
BY_COLUMN = UNCONSTRAINED | {"identity_structure"}
QUADRATIC = {
    "lasso",
    "fused_squared",
    "overlapping_groups",
    "low_rank",
    "fused_box",
    "shifted_constraint",
}


@cache
def problem(name):
    return PROBLEMS[name]()


@cache
def lower_bound(name):
    """Certified lower bound on the optimum, from an accurate solution; and F at the start."""
    p = problem(name)
    result = sa.minimize(p, "sampled-newton", stop=sa.Gap(1e-11), max_passes=1000)
    found = [sa.certify(p, result.pair, result.dual, strength=s) for s in ("scaled", "corrected")]
    tightest = min(found, key=lambda c: c.gap)
    first = p.objective(p.feasible(p.zeros()))
    assert tightest.gap <= 1e-7 * (first - tightest.bound)
    return tightest.bound, first


# ---------------------------------------------------------------- what each method must reach


@dataclass(frozen=True)
class Promise:
    """What a method must reach: certified gap / gap at zero, after so many passes."""

    passes: float
    accuracy: float
    why: str
    own: bool = False
    """Whether the method's own point and multiplier must certify it."""
    steep: float | None = None
    """Accuracy for the Poisson loss, whose curvature bound is far above what its optimum sees."""
    cannot: frozenset = frozenset()
    """Problems that must be refused before the run."""
    solver: sa.solvers.Solver | None = None


EVERYTHING = frozenset(PROBLEMS)
PROMISES = {
    "auto": Promise(100, 1e-6, "chooses among the methods below", own=True),
    "acc-sadmm": Promise(200, 1e-6, "accelerated and restarted", own=True, steep=1e-4),
    "svrg-admm": Promise(200, 1e-3, "linear in practice; cautious steps", steep=0.2),
    "svrg-admm, mean": Promise(
        200,
        0.05,
        "the mean of all iterates forgets the start like 1/K",
        steep=0.5,
        solver=sa.SVRGADMM(returns="ergodic"),
    ),
    "sag-admm": Promise(200, 1e-4, "linear in practice; fills its table first", steep=0.1),
    "sag-admm, stale mean": Promise(
        200,
        0.5,
        "steps from where rows were seen last: slow by nature",
        steep=1.0,
        solver=sa.solvers.SAGADMM(form="points"),
    ),
    "sdca-admm": Promise(200, 1e-6, "linear in practice once its penalty fits", steep=1e-3),
    "asvrg-admm": Promise(200, 1e-3, "accelerated; momentum outlasts its use", steep=1e-2),
    "stoc-admm": Promise(100, 0.1, "noise decreases like one over the root of K", steep=0.5),
    "opg-admm": Promise(100, 0.1, "noise decreases like one over the root of K", steep=0.5),
    "rda-admm": Promise(100, 0.1, "noise decreases like one over the root of K", steep=0.5),
    "opt-sadmm": Promise(100, 0.1, "noise decreases like one over the root of K"),
    "admm": Promise(2000, 1e-6, "exact steps; most passes are of inner Newton steps", own=True),
    "linearized-admm": Promise(500, 1e-6, "linear in practice, not accelerated", own=True),
    "linearized-admm, mean": Promise(
        500,
        0.05,
        "the mean of all iterates forgets the start like 1/K",
        solver=sa.solvers.LinearizedADMM(returns="ergodic"),
    ),
    "ladm-ne": Promise(500, 1e-4, "the optimal 1/K; its growing penalty slows the end", own=True),
    "aadmm": Promise(500, 1e-3, "returns a mean of slow stages that double"),
    "fast-ladmm": Promise(
        500, 3e-4, "the smooth part is accelerated, the constraint is not", own=True
    ),
    "ladmpsap": Promise(500, 1e-5, "linear in practice; parallel blocks, shorter steps", own=True),
    "ladmpsap, mean": Promise(
        500,
        0.05,
        "the mean of all iterates forgets the start like 1/K",
        solver=sa.solvers.LADMPSAP(returns="ergodic"),
    ),
    "inertial-admm": Promise(500, 1e-5, "linear in practice, a little momentum", own=True),
    "vr-pddy": Promise(200, 1e-3, "linear in practice; proved steps are short", steep=0.2),
    "spdhg": Promise(200, 1e-6, "linear in practice once its steps are balanced", steep=1e-3),
    "katyusha": Promise(
        100,
        1e-6,
        "accelerated, for problems without a constraint",
        own=True,
        cannot=EVERYTHING - UNCONSTRAINED,
    ),
    "sampled-newton": Promise(100, 1e-6, "second order", own=True),
    "small": Promise(
        10,
        1e-9,
        "one compiled call, for small problems of one output",
        own=True,
        cannot=frozenset({"fused_multinomial", "low_rank", "shifted_constraint"}),
    ),
    "few-columns": Promise(
        10,
        1e-9,
        "one compiled call, for columns held one by one",
        own=True,
        cannot=EVERYTHING - BY_COLUMN,
    ),
    "working-set": Promise(
        100,
        1e-9,
        "second order, where columns can be left out",
        own=True,
        cannot=EVERYTHING - BY_COLUMN,
    ),
    "tied-newton": Promise(
        100,
        1e-6,
        "second order, one output",
        own=True,
        cannot=frozenset({"fused_multinomial", "low_rank"}),
    ),
    "low-rank-gram": Promise(
        20,
        1e-6,
        "on the Gram matrix of squared losses, for a nuclear norm",
        own=True,
        cannot=EVERYTHING - {"low_rank"},
    ),
    "low-rank-newton": Promise(
        20, 1e-6, "for a nuclear norm and losses that are not squared", cannot=EVERYTHING
    ),
    "coordinate-newton": Promise(
        20, 1e-9, "for sparse rows, several outputs, entries by themselves", cannot=EVERYTHING
    ),
    "streamed-newton": Promise(5, 1e-6, "for rows in files", cannot=EVERYTHING),
    "gram": Promise(
        3, 1e-9, "exact for quadratic losses", own=True, cannot=EVERYTHING - QUADRATIC
    ),
}
CASES = [(label, name) for label in PROMISES for name in PROBLEMS]


def test_every_name_of_the_public_contract_is_registered_and_has_a_promise():
    assert set(sa.solvers.names()) >= API_NAMES
    assert {label for label in PROMISES if "," not in label} == set(sa.solvers.names())


def run(solver, p, passes):
    """Return the state after so many passes."""
    return next(state for state in sa.iterate(p, solver) if state.n_passes >= passes)


@pytest.mark.parametrize(("label", "name"), CASES, ids=[f"{m}-{p}" for m, p in CASES])
def test_method_keeps_its_promise_or_refuses_the_problem(label, name):
    promise, p = PROMISES[label], problem(name)
    solver = promise.solver or sa.solvers.get(label)()
    if name in promise.cannot:
        with pytest.raises((TypeError, ValueError), match=solver.name) as error:
            sa.minimize(p, solver)
        assert "\n" not in str(error.value)
        return
    state = run(solver, p, promise.passes)
    bound, first = lower_bound(name)
    accuracy = promise.accuracy if name != "poisson_trend" else promise.steep or promise.accuracy
    found = [sa.certify(p, state.output, state.dual, strength=s) for s in ("scaled", "corrected")]
    reached = min(c.objective for c in found) - bound
    assert reached <= accuracy * (first - bound), f"{reached / (first - bound):.1e}"
    if promise.own:
        assert min(c.gap for c in found) <= accuracy * (first - bound)


@pytest.mark.parametrize("method", sorted(API_NAMES))
def test_state_resumes_and_float32_stays(method):
    p = problem("lasso" if method == "katyusha" else "fused_squared")
    solver, rng = sa.solvers.get(method)(), np.random.default_rng(5)
    start = sa.Pair(rng.standard_normal(p.shape1), rng.standard_normal(p.shape2))
    kept = start.copy()
    state, rng = solver.start(p, start), np.random.default_rng(5)
    solver.epoch(p, state, rng)
    other, generator = state.copy(), np.random.default_rng()
    generator.bit_generator.state = rng.bit_generator.state
    for _ in range(2):
        solver.epoch(p, state, rng)
    for _ in range(2):
        solver.epoch(p, other, generator)
    np.testing.assert_array_equal(state.output.x1, other.output.x1)
    np.testing.assert_array_equal(state.output.x2, other.output.x2)
    np.testing.assert_array_equal(state.dual, other.dual)
    np.testing.assert_array_equal(start.x1, kept.x1)
    np.testing.assert_array_equal(start.x2, kept.x2)

    f = p.f2
    small = sa.FiniteSum(f.loss, f.X.astype(np.float32), f.y, f.weight, intercept=f.intercept)
    narrow = replace(p, f2=small)
    state = solver.start(narrow)
    for _ in range(3):
        solver.epoch(narrow, state, rng)
    for array in (state.output.x1, state.output.x2, state.dual):
        assert array.dtype == np.float32 and np.isfinite(array).all()


# ---------------------------------------------------------------- equivalences


def every_row_once(solver, p, state):
    """Run an epoch whose batches are all rows, each once."""

    class AllRows:
        def integers(self, n, size):
            return np.tile(np.arange(n), (size[0], 1))

    solver.epoch(p, state, AllRows())


def random_start(p, seed=0):
    rng = np.random.default_rng(seed)
    x = sa.Pair(rng.standard_normal(p.shape1), rng.standard_normal(p.shape2))
    return x, rng.standard_normal(p.shape_dual)


@pytest.mark.parametrize("tau", [0.6, 0.9])
@pytest.mark.parametrize("name", ["fused_logistic", "fused_multinomial", "shifted_constraint"])
def test_acc_sadmm_with_one_step_per_epoch_is_ladm_ne(name, tau):
    p = problem(name)
    theta = sa.Schedule(theta2=0.0, tau=1 - tau, c=1.0)
    accelerated = sa.AccSADMM(
        beta=0.2,
        batch_size=80,
        n_inner=1,
        sampling="rows",
        metric="none",
        restart="never",
        theta=theta,
    )
    linearized = sa.solvers.LADMNE(beta=0.2, tau=tau, n_inner=1)
    a, b = (solver.start(p, *random_start(p)) for solver in (accelerated, linearized))
    for _ in range(30):
        every_row_once(accelerated, p, a)
        linearized.epoch(p, b, np.random.default_rng(0))
        np.testing.assert_allclose(a.output.x1, b.output.x1, rtol=0, atol=1e-9)
        np.testing.assert_allclose(a.output.x2, b.output.x2, rtol=0, atol=1e-9)
        np.testing.assert_allclose(a.dual, b.dual, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dual_step", [1.0, 1.5])
def test_without_relaxation_admm_is_the_plain_one_written_out(dual_step):
    p = problem("shifted_constraint")
    X, y, n = p.f2.X, p.f2.y, p.f2.n_terms
    D, beta = p.A2.tosparse().toarray(), 0.3
    solver = sa.solvers.ADMM(beta=beta, relaxation=1.0, dual_step=dual_step, n_inner=1)
    start, dual = random_start(p)
    state, x2 = solver.start(p, start, dual), start.x2
    for _ in range(20):
        solver.epoch(p, state, np.random.default_rng(0))
        v = -(D @ x2 - p.b + dual / beta) / 2
        x1 = np.sign(v) * np.maximum(np.abs(v) - 0.1 / (4 * beta), 0)
        right = X.T @ y / n - D.T @ (dual + beta * (2 * x1 - p.b))
        x2 = np.linalg.solve(X.T @ X / n + beta * D.T @ D, right)
        dual = dual + dual_step * beta * (2 * x1 + D @ x2 - p.b)
        np.testing.assert_allclose(state.x.x1, x1, rtol=0, atol=1e-9)
        np.testing.assert_allclose(state.x.x2, x2, rtol=0, atol=1e-9)
        np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["fused_logistic", "fused_multinomial", "fused_box", "group_huber"]
)
def test_second_step_of_admm_is_exact(name):
    """x2+ satisfies the optimality condition of its subproblem, written with a prox."""
    p = problem(name)
    solver = sa.solvers.ADMM(beta=0.2, relaxation=1.0, n_inner=1)
    state = solver.start(p, *random_start(p))
    for _ in range(5):
        solver.epoch(p, state, np.random.default_rng(0))
        x2 = state.x.x2
        derivative = p.f2.gradient(x2) + p.A2.rmatvec(
            state.dual
        )  # lambda+ holds the penalty's part
        moved = x2 - derivative if p.h2 is None else p.h2.prox(x2 - derivative, 1.0)
        np.testing.assert_allclose(moved, x2, rtol=0, atol=1e-8)


class Dense:
    """A general problem with dense matrices: what a step of a paper needs, in three lines."""

    def __init__(self, p, L1=1.0):
        self.A = [M.matvec(np.eye(M.shape[1])) for M in (p.A1, p.A2)]
        self.L = [L1, np.linalg.norm(p.f2.X, 2) ** 2 / p.f2.n_terms]
        self.a = [np.linalg.norm(M, 2) ** 2 for M in self.A]
        self.derivatives = [
            lambda u: u - 1,
            lambda u: p.f2.X.T @ (p.f2.X @ u - p.f2.y) / p.f2.n_terms,
        ]
        self.levels, self.b = [0.2, 0.05], p.b

    def residual(self, x):
        return self.A[0] @ x[0] + self.A[1] @ x[1] - self.b

    def step(self, i, center, at, augmented, weight):
        v = center - (self.derivatives[i](at) + self.A[i].T @ augmented) / weight
        return np.sign(v) * np.maximum(np.abs(v) - self.levels[i] / weight, 0)


def fast_ladmm_by_hand(D, x, dual, beta):
    z, theta = x, 1.0
    while True:
        y = [(1 - theta) * x[i] + theta * z[i] for i in (0, 1)]
        augmented = dual + beta * D.residual(z)
        weights = [theta * D.L[i] + 2.02 * beta * D.a[i] for i in (0, 1)]
        z = [D.step(i, z[i], y[i], augmented, weights[i]) for i in (0, 1)]
        x = [(1 - theta) * x[i] + theta * z[i] for i in (0, 1)]
        dual = dual + beta * D.residual(z)
        theta = (-(theta**2) + np.sqrt(theta**4 + 4 * theta**2)) / 2
        yield x, dual


def ladmpsap_by_hand(D, x, dual, beta):
    while True:
        augmented = dual + beta * D.residual(x)
        weights = [D.L[i] + 2.02 * beta * D.a[i] for i in (0, 1)]
        x = [D.step(i, x[i], x[i], augmented, weights[i]) for i in (0, 1)]
        dual = dual + beta * D.residual(x)
        yield x, dual


def inertial_admm_by_hand(D, x, dual, beta, alpha=0.25):
    before, dual_before = x, dual
    while True:
        hat = [x[i] + alpha * (x[i] - before[i]) for i in (0, 1)]
        dual_hat = dual + alpha * (dual - dual_before)
        weights = [2 * D.L[i] + beta * D.a[i] for i in (0, 1)]
        before, dual_before = x, dual
        augmented = dual_hat + beta * D.residual(hat)
        x1 = D.step(0, hat[0], hat[0], augmented, weights[0])
        dual = dual_hat + beta * D.residual([x1, hat[1]])
        augmented = dual + beta * D.residual([x1, hat[1]])
        x = [x1, D.step(1, hat[1], hat[1], augmented, weights[1])]
        yield x, dual


def ladm_ne_by_hand(D, x, dual, beta, tau=0.8):
    before, theta, last = x, 1.0, 1.0
    while True:
        y = [x[i] + theta * (1 - last) / last * (x[i] - before[i]) for i in (0, 1)]
        weights = [D.L[i] + beta / theta * D.a[i] for i in (0, 1)]
        x1 = D.step(0, y[0], y[0], dual + beta / theta * D.residual(y), weights[0])
        augmented = dual + beta / theta * D.residual([x1, y[1]])
        before, x = x, [x1, D.step(1, y[1], y[1], augmented, weights[1])]
        dual = dual + beta * tau * D.residual(x)
        theta, last = 1 / (1 / theta + 1 - tau), theta
        yield x, dual


def aadmm_by_hand(D, x, dual, beta, N=40):
    mean = x
    for t in range(1, N + 1):
        alpha, rho = 2 / (t + 1), beta * N / t
        middle = [(1 - alpha) * mean[i] + alpha * x[i] for i in (0, 1)]
        weights = [(2 * D.L[i] + beta * N * D.a[i]) / t for i in (0, 1)]
        x2 = D.step(1, x[1], middle[1], dual + rho * D.residual(x), weights[1])
        augmented = dual + rho * D.residual([x[0], x2])
        x = [D.step(0, x[0], middle[0], augmented, weights[0]), x2]
        mean = [(1 - alpha) * mean[i] + alpha * x[i] for i in (0, 1)]
        dual = dual + beta * t / N * D.residual(x)
        yield x, dual


BY_HAND = {
    "ladm-ne": (sa.solvers.LADMNE(beta=0.3, n_inner=1, tau=0.8), ladm_ne_by_hand, "multiplier"),
    "aadmm": (sa.solvers.AADMM(beta=0.3, n_inner=1, horizon=40), aadmm_by_hand, "multiplier"),
    "fast-ladmm": (sa.solvers.FastLADMM(beta=0.3, n_inner=1), fast_ladmm_by_hand, "multiplier"),
    "ladmpsap": (sa.solvers.LADMPSAP(beta=0.3, n_inner=1, growth=1.0), ladmpsap_by_hand, "dual"),
    "inertial-admm": (
        sa.solvers.InertialADMM(beta=0.3, n_inner=1, inertia=0.25, smooth=2.0),
        inertial_admm_by_hand,
        "dual",
    ),
}


@pytest.mark.parametrize("method", BY_HAND)
def test_batch_methods_are_those_of_their_papers_written_out(method):
    p, (solver, by_hand, dual) = general_problem(), BY_HAND[method]
    start, multiplier = random_start(p)
    state = solver.start(p, start, multiplier)
    iterates = by_hand(Dense(p), [start.x1, start.x2], multiplier, 0.3)
    for _ in range(25):
        solver.epoch(p, state, np.random.default_rng(0))
        x, expected = next(iterates)
        np.testing.assert_allclose(state.x.x1, x[0], rtol=0, atol=1e-7)
        np.testing.assert_allclose(state.x.x2, x[1], rtol=0, atol=1e-7)
        np.testing.assert_allclose(getattr(state, dual), expected, rtol=0, atol=1e-7)


def test_the_penalty_of_ladmpsap_grows_to_its_cap_when_the_blocks_stand_still():
    p = problem("fused_logistic")
    state = run(sa.solvers.LADMPSAP(beta=0.01, growth=2.0, cap=8.0), p, 300)
    assert state.beta == pytest.approx(0.08)
    assert run(sa.solvers.LADMPSAP(beta=0.01, growth=1.0), p, 300).beta == 0.01


def test_fast_ladmm_without_a_constraint_has_the_accelerated_rate():
    """4 |x0 - x*|^2 L / (2 (K + 1)^2) bounds the gap of the last iterate."""
    p = problem("lasso")
    bound, _ = lower_bound("lasso")
    best = sa.minimize(p, "sampled-newton", stop=1e-12).coef
    solver = sa.solvers.FastLADMM(n_inner=1)
    state = solver.start(p)
    for k in range(1, 60):
        solver.epoch(p, state, np.random.default_rng(0))
        allowed = 2 * p.f2.lipschitz_mean * best @ best / (k + 1) ** 2
        assert p.objective(state.output) - bound <= allowed + 1e-9


MEANS = [n for n in sorted(API_NAMES) if hasattr(sa.solvers.get(n)(), "returns")]


@pytest.mark.parametrize("method", MEANS)
def test_ergodic_point_is_the_mean_of_the_iterates(method):
    p = problem("fused_logistic")
    solver = sa.solvers.get(method)(n_inner=1, returns="last")
    state, rng, seen = solver.start(p), np.random.default_rng(3), []
    for _ in range(12):
        solver.epoch(p, state, rng)
        seen.append((state.output if method == "asvrg-admm" else state.x).copy())
    weights = np.arange(1, 13) if method == "opt-sadmm" else np.ones(12)
    for block in ("x1", "x2"):
        points = np.array([getattr(x, block) for x in seen])
        right = np.average(points, axis=0, weights=weights)
        np.testing.assert_allclose(getattr(state.ergodic, block), right, rtol=0, atol=1e-12)


def test_mean_of_aadmm_weighs_its_iterates_by_their_number():
    p = problem("fused_logistic")
    solver = sa.solvers.AADMM(horizon=15, n_inner=1)
    state, seen = solver.start(p), []
    for _ in range(15):
        solver.epoch(p, state, np.random.default_rng(3))
        seen.append(state.x.x2)
    weights = np.arange(1, 16) / 120
    np.testing.assert_allclose(state.ergodic.x2, weights @ np.array(seen), rtol=0, atol=1e-12)


# ---------------------------------------------------------------- what is shared, and its limits


class Pull:
    """f1(x) = |x - 1|^2 / 2."""

    lipschitz = 1.0

    def value(self, x):
        return 0.5 * float(np.sum((x - 1) ** 2))

    def gradient(self, x):
        return x - 1


def general_problem():
    rng, X, z = rows(seed=20)
    f2 = sa.FiniteSum(sa.Squared(), X, z + rng.standard_normal(80))
    A1, A2 = rng.standard_normal((6, 6)), rng.standard_normal((6, 8))
    b = rng.standard_normal(6)
    return sa.Problem(f2, h1=sa.L1(0.2), h2=sa.L1(0.05), f1=Pull(), A1=A1, A2=A2, b=b)


def conic_optimum(p):
    import cvxpy as cp

    x1, x2 = cp.Variable(6), cp.Variable(8)
    A1, A2 = (A.matvec(np.eye(A.shape[1])) for A in (p.A1, p.A2))
    objective = cp.sum_squares(p.f2.X @ x2 - p.f2.y) / 160
    objective += 0.2 * cp.norm1(x1) if p.h1 is not None else 0
    objective += 0.5 * cp.sum_squares(x1 - 1) if p.f1 is not None else 0
    objective += 0.05 * cp.norm1(x2) if p.h2 is not None else 0
    return cp.Problem(cp.Minimize(objective), [A1 @ x1 + A2 @ x2 == p.b]).solve(cp.CLARABEL)


ANY_BLOCKS = {
    "linearized-admm": (sa.solvers.LinearizedADMM(beta=0.1), 2500, 2e-5),
    "ladm-ne": (sa.solvers.LADMNE(beta=0.1), 2500, 1e-4),
    "fast-ladmm": (sa.solvers.FastLADMM(beta=0.3), 1000, 0.03),
    "ladmpsap": (sa.solvers.LADMPSAP(beta=0.1), 1500, 1e-4),
    "inertial-admm": (sa.solvers.InertialADMM(beta=0.1), 1500, 1e-4),
    "admm": (sa.solvers.ADMM(beta=0.1), 600, 1e-5),
    "admm, linearized": (sa.solvers.ADMM(beta=0.1, first_block="linearized"), 1500, 1e-5),
    "aadmm": (sa.solvers.AADMM(beta=0.3, horizon=1000), 1000, 0.03),
    "aadmm, exact": (sa.solvers.AADMM(beta=0.3, horizon=150, first_block="exact"), 150, 0.05),
}
WITHOUT = [(), ("f1",), ("h1", "h2")]


@pytest.mark.parametrize("missing", WITHOUT, ids=lambda names: "without " + " ".join(names))
@pytest.mark.parametrize("label", ANY_BLOCKS)
def test_methods_for_any_two_blocks_agree_with_a_conic_solver(label, missing):
    solver, passes, accuracy = ANY_BLOCKS[label]
    p = replace(general_problem(), **dict.fromkeys(missing))
    state = run(solver, p, passes)
    assert p.objective(state.output) == pytest.approx(conic_optimum(p), abs=accuracy)
    assert np.abs(p.constraint(state.output)).max() < accuracy


@pytest.mark.parametrize("rank", [6, 3])
@pytest.mark.parametrize("missing", WITHOUT, ids=lambda names: "without " + " ".join(names))
def test_first_step_of_admm_is_exact_for_any_first_block(missing, rank):
    """x1+ satisfies the optimality condition of its subproblem, written with a prox."""
    rng = np.random.default_rng(1)
    p = replace(general_problem(), **dict.fromkeys(missing))
    p = replace(p, A1=rng.standard_normal((6, rank)) @ rng.standard_normal((rank, 6)))
    solver = sa.solvers.ADMM(beta=0.4, relaxation=1.0, n_inner=1)
    state = solver.start(p, *random_start(p))
    for _ in range(5):
        before, dual = state.x.x2, state.dual
        solver.epoch(p, state, rng)
        x1 = state.x.x1
        augmented = dual + 0.4 * p.constraint(sa.Pair(x1, before))
        derivative = p.A1.rmatvec(augmented) + (0 if p.f1 is None else p.f1.gradient(x1))
        moved = x1 - derivative if p.h1 is None else p.h1.prox(x1 - derivative, 1.0)
        np.testing.assert_allclose(moved, x1, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", [n for n in PROBLEMS if n not in QUADRATIC])
def test_inner_newton_steps_of_admm_end_at_the_rounding_of_the_data(name):
    """Exact steps of float32 data never need more passes than those of float64."""
    p, reads = problem(name), {}
    for dtype in (np.float64, np.float32):
        f = p.f2
        X = f.X.astype(dtype)
        narrow = replace(p, f2=sa.FiniteSum(f.loss, X, f.y, f.weight, intercept=f.intercept))
        state, rng = sa.solvers.ADMM().start(narrow), np.random.default_rng(0)
        for _ in range(5):
            sa.solvers.ADMM().epoch(narrow, state, rng)
        reads[dtype] = state.n_passes
    assert reads[np.float32] <= 1.1 * reads[np.float64]


@pytest.mark.parametrize("method", ["sdca-admm", "spdhg", "vr-pddy"])
def test_refusals_name_the_method_and_the_reason(method):
    p = general_problem()
    with pytest.raises(ValueError, match=f"{method} needs f1 absent"):
        sa.minimize(p, method)
    with pytest.raises(ValueError, match=f"{method} needs A1"):
        sa.minimize(replace(p, f1=None), method)


@pytest.mark.parametrize(
    "solver", [sa.solvers.ADMM(first_block="exact"), sa.solvers.AADMM(first_block="exact")]
)
def test_exact_first_steps_of_too_many_columns_are_refused(solver):
    p = general_problem()
    wide = sparse.random_array((6, 4001), density=0.01, rng=np.random.default_rng(0))
    many = replace(p, f1=None, A1=wide)
    with pytest.raises(ValueError, match=f"{solver.name} with first_block='exact' works with 400"):
        sa.minimize(many, solver)
    state = run(replace(solver, first_block="linearized"), many, 20)
    assert np.isfinite(state.output.x1).all()


class Bare:
    """A squared loss that offers nothing beyond the protocol."""

    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return 0.5 * float(np.mean((z - y) ** 2))

    def derivative(self, z, y):
        return z - y


def test_every_method_refuses_a_problem_in_one_way():
    bare = sa.Problem.linear(Bare(), np.eye(3), np.ones(3), on_structure=sa.L1(0.1))
    refused = set()
    for problem in (bare, general_problem()):
        for name in sa.solvers.names():
            try:
                sa.solvers.get(name)().check(problem)
            except sa.solvers.Unsuitable as error:
                refused.add(name)
                assert name in str(error)
    assert {"gram", "streamed-newton", "sampled-newton", "sdca-admm", "tied-newton"} <= refused
    assert not {"auto", "acc-sadmm", "linearized-admm"} & refused


def test_a_loss_without_curvature_is_refused_by_name():
    p = sa.Problem.linear(Bare(), np.eye(3), np.ones(3), on_structure=sa.L1(0.1))
    with pytest.raises(
        sa.solvers.Unsuitable,
        match=r"sampled-newton .* the loss offers no curvature",
    ):
        sa.minimize(p, "sampled-newton")


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(
    "name",
    ["auto", "acc-sadmm", "svrg-admm", "stoc-admm", "linearized-admm", "vr-pddy", "katyusha"],
)
def test_rows_of_zeros_leave_the_penalty_alone_in_single_precision(name, tied):
    if tied and name == "katyusha":
        pytest.skip("takes no constraint")
    X, y = np.zeros((40, 3), np.float32), np.ones(40, np.float32)
    structure = {"structure": sa.Differences(3), "on_structure": sa.L1(0.1)}
    p = sa.Problem.linear(
        sa.Squared(), X, y, **structure if tied else {"on_coefficients": sa.L1(0.1)}
    )
    start = np.array([1.0, 2.0, 3.0], np.float32)
    found = sa.minimize(p, name, start=start, stop=1e-4, max_passes=200)
    assert found.converged and np.ptp(found.coef) == 0


def test_exact_first_step_with_a_tight_frame_minimizes_its_subproblem():
    """A1 = [I; -I] / sqrt(2) has A1'A1 = I without being an identity."""
    rng = np.random.default_rng(0)
    A1 = np.vstack([np.eye(4), -np.eye(4)]) / np.sqrt(2)
    f2 = sa.FiniteSum(sa.Squared(), rng.standard_normal((20, 5)), rng.standard_normal(20))
    p = sa.Problem(f2, h1=sa.L1(0.3), A1=A1, A2=rng.standard_normal((8, 5)))
    x2, dual = rng.standard_normal(5), rng.standard_normal(8)
    x1 = solve_x1(p, x2, dual, 0.7)

    def value(u):
        r = p.constraint(sa.Pair(u, x2))
        return p.h1.value(u) + dual @ (A1 @ u) + 0.35 * r @ r

    for _ in range(50):
        assert value(x1) <= value(x1 + 0.1 * rng.standard_normal(4))


def random_states(p):
    """Return a pair whose constraint is far from met, x2 before it, and a multiplier."""
    x, dual = random_start(p)
    return x, x.x2 + 1e-6, dual


def test_balancing_raises_the_penalty_when_the_constraint_lags_and_ends():
    p = problem("fused_logistic")
    state = random_states(p)
    assert adapted_beta("auto", p, 1, *state, 0.1) == pytest.approx(1.0)
    x = p.feasible(state[0])
    assert adapted_beta("auto", p, 1, x, x.x2 + 1.0, state[2], 0.1) <= 0.1
    assert adapted_beta("auto", p, 31, *state, 0.1) == 0.1


def test_averages_and_continuation():
    rng = np.random.default_rng(0)
    points = [sa.Pair(rng.standard_normal(2), rng.standard_normal(3)) for _ in range(6)]
    weights = rng.uniform(0, 1, 6)
    mean = Average.empty()
    for x, w in zip(points[:4], weights[:4], strict=True):
        mean = mean.add(x, w)
    right = sum(w * x.x2 for x, w in zip(points[:4], weights[:4], strict=True)) / weights[:4].sum()
    np.testing.assert_allclose(mean.value.x2, right)
    plain = Average.empty().add(points[0]).add_sum(points[1] + points[2], 2)
    np.testing.assert_allclose(plain.value.x1, (points[0] + points[1] + points[2]).x1 / 3)

    p, schedule = problem("fused_logistic"), Continuation(0.1, rho=1.5)
    beta = first_beta(p, schedule)
    for s in range(20):
        assert beta == pytest.approx(min(10, 0.1 * 1.5**s)) == schedule.at(s)
        beta = next_beta(schedule, beta)
    assert next_beta(0.3, 0.3) == 0.3
    assert adapted_beta(0.3, p, 1, *random_states(p), 0.3) == 0.3
    solver = sa.solvers.LinearizedADMM(beta=schedule)
    state = solver.start(p)
    solver.epoch(p, state, rng)
    assert state.beta == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: sa.solvers.ADMM(relaxation=2.0), "relaxation"),
        (lambda: sa.solvers.ADMM(dual_step=1.7, relaxation=1.0), "dual_step"),
        (lambda: sa.solvers.ADMM(dual_step=1.5), "both"),
        (lambda: sa.solvers.ADMM(returns="best"), "returns"),
        (lambda: sa.solvers.ADMM(first_block="inexact"), "first_block"),
        (lambda: sa.solvers.AADMM(first_block="inexact"), "first_block"),
        (lambda: sa.solvers.LinearizedADMM(n_inner=0), "n_inner"),
        (lambda: sa.solvers.LADMNE(tau=0.5), "tau"),
        (lambda: sa.solvers.LADMNE(beta=sa.Continuation(0.1)), "Continuation"),
        (lambda: sa.solvers.AADMM(horizon=0), "horizon"),
        (lambda: sa.solvers.FastLADMM(slack=2.0), "slack"),
        (lambda: sa.solvers.LADMPSAP(growth=0.9), "growth"),
        (lambda: sa.solvers.LADMPSAP(cap=float("nan")), "cap"),
        (lambda: sa.solvers.InertialADMM(inertia=0.4), "inertia"),
        (lambda: sa.solvers.InertialADMM(smooth=0.5), "smooth"),
        (lambda: sa.Continuation(rho=0.5), "rho"),
    ],
)
def test_odd_parameters_are_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


ROOT = Path(__file__).parents[2]
OUTSIDE = [
    path
    for part in ("src/stochadmm", "reproduction/src", "benchmarks", "examples")
    for path in sorted((ROOT / part).rglob("*.py"))
    if "solvers" not in path.relative_to(ROOT).parts
]


def test_nothing_private_of_a_method_or_its_state_is_touched_outside_of_the_solvers():
    assert len(OUTSIDE) > 100
    for path in OUTSIDE:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
                owner = ast.unparse(node.value).split(".")[-1]
                assert owner not in ("solver", "state", "method"), f"{path}:{node.lineno}"
