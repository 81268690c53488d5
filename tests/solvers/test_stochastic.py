"""Stochastic ADMM, plain and variance-reduced: as their papers say, in two engines."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.risk.gradients import Fresh, Table
from stochadmm.risk.sampling import Runs
from stochadmm.solvers.comparison.svrg_admm import multiplier_for

PLAIN = {
    "stoc": sa.solvers.StocADMM(),
    "stoc-sqrt": sa.solvers.StocADMM(step="sqrt", returns="last"),
    "stoc-strong": sa.solvers.StocADMM(step="strong", growth=0.01),
    "opg": sa.solvers.OPGADMM(),
    "rda": sa.solvers.RDAADMM(),
    "opt": sa.solvers.OptSADMM(),
}
REDUCED = {
    "svrg": sa.SVRGADMM(),
    "svrg-ergodic": sa.SVRGADMM(returns="ergodic", warm_start_passes=1),
    "asvrg": sa.solvers.ASVRGADMM(),
    "sag": sa.solvers.SAGADMM(),
    "sag-points": sa.solvers.SAGADMM(form="points"),
}
NEED_FREE_X2 = {
    "stoc-exact": sa.solvers.StocADMM(form="exact"),
    "svrg-strong": sa.SVRGADMM(strongly_convex=True),
    "asvrg-strong": sa.solvers.ASVRGADMM(strongly_convex=True),
}
ALL = PLAIN | REDUCED


def make(
    seed=0,
    *,
    loss="logistic",
    n=60,
    d=6,
    outputs=None,
    csr=False,
    rich=False,
    h2=None,
    dtype=np.float64,
):
    """Return a small fused problem; ``rich`` adds an intercept and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    if csr:
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.5, X, 0).astype(dtype))
    signal = X @ np.repeat(rng.standard_normal((2, outputs or 1)), d // 2 + 1, axis=0)[:d].astype(
        dtype
    )
    if loss == "multinomial":
        part, y = (
            sa.Multinomial(outputs),
            np.argmax(signal + rng.gumbel(size=signal.shape), axis=1),
        )
    elif loss == "logistic":
        part, y = sa.Logistic(), np.where(rng.logistic(size=n) < signal[:, 0], 1.0, -1.0)
    else:
        part, y = sa.Squared(), signal + 0.5 * rng.standard_normal(signal.shape) + 0.5
        y = y if outputs else y[:, 0]
    return sa.Problem.linear(
        part,
        X,
        y,
        structure=sa.VStack([sa.Differences(d), sa.Identity(d)]),
        on_structure=sa.L1(0.02),
        on_coefficients=h2,
        intercept=rich,
        sample_weight=rng.random(n) + 0.1 if rich else None,
    )


def general(seed=0, *, f1=None):
    """Return a problem with an A1 of no special kind, both penalties and a right-hand side."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 5)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
    return sa.Problem(
        sa.FiniteSum(sa.Logistic(), X, y),
        h1=sa.L1(0.05),
        h2=sa.Ridge(0.1),
        f1=f1,
        A1=rng.standard_normal((4, 3)),
        A2=rng.standard_normal((4, 5)),
        b=rng.standard_normal(4),
    )


def run(solver, problem, epochs, engine="reference", seed=3, start=None, dual=None):
    """Return copies of the states after each epoch."""
    solver.check(problem)
    state, rng = solver.start(problem, start, dual), np.random.default_rng(seed)
    state.engine = engine
    states = []
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
        states.append(state.copy())
    return states


def assert_same(a, b, tolerance):
    for name in ("x", "output", "ergodic"):
        for block in ("x1", "x2"):
            left, right = (getattr(getattr(s, name), block) for s in (a, b))
            assert left.dtype == right.dtype
            np.testing.assert_allclose(left, right, rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(a.dual, b.dual, rtol=0, atol=tolerance)
    assert (a.n_passes, a.n_gradients) == (b.n_passes, b.n_gradients)


# -------------------------------------------------------------------- two engines, one method


@pytest.mark.compiled
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("loss", "outputs", "rich"),
    [
        ("logistic", None, False),
        ("logistic", None, True),
        ("squared", 3, True),
        ("multinomial", 4, False),
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_compiled_equals_reference(name, loss, outputs, rich, csr):
    problem = make(
        7,
        loss=loss,
        outputs=outputs,
        csr=csr,
        rich=rich,
        h2=sa.ElasticNet(0.05, 0.5) if rich else None,
    )
    for sampling in ("rows", "blocks"):
        solver = dataclasses.replace(ALL[name], beta=0.1, batch_size=5, sampling=sampling)
        pairs = zip(run(solver, problem, 3), run(solver, problem, 3, "compiled"), strict=True)
        for a, b in pairs:
            assert_same(a, b, 1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("name", NEED_FREE_X2)
def test_compiled_equals_reference_where_h2_must_be_absent(name, rich):
    for outputs in (None, 3):
        problem = make(2, loss="squared", outputs=outputs, rich=rich)
        solver = dataclasses.replace(NEED_FREE_X2[name], beta=0.1, batch_size=5)
        pairs = zip(run(solver, problem, 3), run(solver, problem, 3, "compiled"), strict=True)
        for a, b in pairs:
            assert_same(a, b, 1e-9)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ALL)
def test_general_constraint_in_both_engines(name):
    problem = general()
    solver = dataclasses.replace(ALL[name], beta=0.2, batch_size=4)
    last, compiled = (run(solver, problem, 40, engine)[-1] for engine in ("reference", "compiled"))
    assert_same(last, compiled, 1e-8)
    first = np.linalg.norm(problem.constraint(problem.zeros()))
    assert np.linalg.norm(problem.constraint(last.output)) < 0.1 * first


@pytest.mark.compiled
@pytest.mark.parametrize("name", ALL)
def test_float32_stays_float32(name):
    problem = make(1, dtype=np.float32)
    solver = dataclasses.replace(ALL[name], beta=0.1, batch_size=5)
    a, b = (run(solver, problem, 2, engine)[-1] for engine in ("reference", "compiled"))
    assert a.x.x2.dtype == a.output.x1.dtype == a.dual.dtype == np.float32
    assert_same(a, b, 1e-3)


# -------------------------------------------------------------------- what the papers say


class Smooth:
    """|x1 - 1|^2 / 2."""

    lipschitz = 1.0

    def value(self, x):
        return 0.5 * float(np.sum((x - 1) ** 2))

    def gradient(self, x):
        return x - 1


def every_row_once(problem):
    """Return a source of batches that hold all rows, each once."""

    class AllRows:
        def integers(self, n, size):
            return np.tile(np.arange(n), (size[0], 1))

    return AllRows()


@pytest.mark.parametrize("f1", [None, Smooth()], ids=["no f1", "f1"])
def test_svrg_with_a_fresh_snapshot_each_step_is_linearized_admm(f1):
    problem, beta = general(f1=f1), 0.3
    n, L = problem.f2.n_terms, problem.f2.lipschitz_mean
    solver = sa.SVRGADMM(beta=beta, batch_size=n, n_inner=1, sampling="rows", curvature=L)
    state, rows = solver.start(problem), every_row_once(problem)
    x1, x2, dual = np.zeros(3), np.zeros(5), np.zeros(4)
    A1, A2 = (A.tosparse().toarray() for A in (problem.A1, problem.A2))
    weight1 = beta * problem.A1.norm2 + (0.0 if f1 is None else f1.lipschitz)
    weight2 = L + beta * problem.A2.norm2
    for _ in range(30):
        solver.epoch(problem, state, rows)
        g1 = A1.T @ (dual + beta * (A1 @ x1 + A2 @ x2 - problem.b))
        g1 = g1 if f1 is None else g1 + f1.gradient(x1)
        x1 = problem.h1.prox(x1 - g1 / weight1, 1 / weight1)
        g2 = problem.f2.gradient(x2) + A2.T @ (dual + beta * (A1 @ x1 + A2 @ x2 - problem.b))
        x2 = problem.h2.prox(x2 - g2 / weight2, 1 / weight2)
        dual = dual + beta * (A1 @ x1 + A2 @ x2 - problem.b)
        np.testing.assert_allclose(state.x.x1, x1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.x.x2, x2, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-12)


def shrink(v, cut):
    return np.sign(v) * np.maximum(np.abs(v) - cut, 0)


def fused(seed=0):
    """Return a problem with x1 = A x2, its matrix A and penalty strength."""
    problem = make(seed, loss="squared", n=30, d=5)
    return problem, problem.A2.tosparse().toarray(), 0.02


def batches_of(solver, problem, steps, seed=3):
    runs = solver.runs(problem)
    rng = np.random.default_rng(seed)
    return [runs.rows(b) for b in runs.draw(rng, steps)]


def test_stoc_admm_step_by_step():
    """Both forms against the subproblems of the paper, solved anew in every step."""
    problem, A, mu = fused()
    f, beta, L, c = problem.f2, 0.4, 1.5, 0.3
    H = A.T @ A
    for form in ("exact", "linearized"):
        solver = sa.solvers.StocADMM(
            beta=beta,
            batch_size=4,
            sampling="rows",
            n_inner=25,
            growth=c,
            curvature=L,
            form=form,
            returns="last",
        )
        state = run(solver, problem, 1)[0]
        x, z, dual = np.zeros(5), np.zeros(A.shape[0]), np.zeros(A.shape[0])
        for k, rows in enumerate(batches_of(solver, problem, 25), start=1):
            weight = L + c * np.sqrt(k)
            g = f.X[rows].T @ (f.X[rows] @ x - f.y[rows]) / 4
            if form == "exact":
                right = weight * x - g - A.T @ (dual - beta * z)
                x = np.linalg.solve(weight * np.eye(5) + beta * H, right)
            else:
                augmented = g + A.T @ (dual + beta * (A @ x - z))
                x = x - augmented / (weight + beta * problem.A2.norm2)
            z = shrink(A @ x + dual / beta, mu / beta)
            dual = dual + beta * (A @ x - z)
        np.testing.assert_allclose(state.x.x2, x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.x.x1, z, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-11)


def test_opg_admm_is_linearized_stoc_admm_with_other_steps():
    problem = make()
    opg = sa.solvers.OPGADMM(beta=0.1, batch_size=5)
    stoc = sa.solvers.StocADMM(beta=0.1, batch_size=5, step="sqrt")
    assert_same(run(opg, problem, 2)[-1], run(stoc, problem, 2)[-1], 0.0)


def test_rda_admm_keeps_means_of_the_whole_past():
    problem, A, mu = fused(1)
    f, beta, L, c = problem.f2, 0.4, 1.5, 0.3
    solver = sa.solvers.RDAADMM(
        beta=beta, batch_size=4, sampling="rows", n_inner=10, growth=c, curvature=L
    )
    state = run(solver, problem, 2)[-1]
    x, z, dual = np.zeros(5), np.zeros(A.shape[0]), np.zeros(A.shape[0])
    gradients, xs, zs, duals = [], [], [], []
    rng, runs = np.random.default_rng(3), solver.runs(problem)
    batches = [runs.rows(b) for _ in range(2) for b in runs.draw(rng, 10)]
    for k, rows in enumerate(batches, start=1):
        gradients.append(f.X[rows].T @ (f.X[rows] @ x - f.y[rows]) / 4)
        xs.append(x), zs.append(z), duals.append(dual)
        mean = [np.mean(past, axis=0) for past in (gradients, xs, zs, duals)]
        direction = mean[0] + A.T @ (mean[3] + beta * (A @ mean[1] - mean[2]))
        x = -k / (L + c * np.sqrt(k) + beta * problem.A2.norm2) * direction
        z = shrink(A @ x + dual / beta, mu / beta)
        dual = dual + beta * (A @ x - z)
    np.testing.assert_allclose(state.x.x2, x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.output.x2, np.mean([*xs[1:], x], axis=0), rtol=0, atol=1e-11)


def test_opt_sadmm_step_by_step():
    problem, A, mu = fused(2)
    f, beta, L, c = problem.f2, 0.4, 1.5, 0.3
    solver = sa.solvers.OptSADMM(
        beta=beta, batch_size=4, sampling="rows", n_inner=25, growth=c, curvature=L
    )
    state = run(solver, problem, 1)[0]
    x, z, dual = np.zeros(5), np.zeros(A.shape[0]), np.zeros(A.shape[0])
    x_ag, z_ag = x, z
    for t, rows in enumerate(batches_of(solver, problem, 25), start=1):
        alpha = 2 / (t + 1)
        middle = (1 - alpha) * x_ag + alpha * x
        g = f.X[rows].T @ (f.X[rows] @ middle - f.y[rows]) / 4
        weight = 2 * L / t + beta * problem.A2.norm2 + c * np.sqrt(t)
        x = x - (g + A.T @ (dual + beta * (A @ x - z))) / weight
        z = shrink(A @ x + dual / beta, mu / beta)
        dual = dual + beta * (A @ x - z)
        x_ag, z_ag = (1 - alpha) * x_ag + alpha * x, (1 - alpha) * z_ag + alpha * z
    np.testing.assert_allclose(state.output.x2, x_ag, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.output.x1, z_ag, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-11)


@pytest.mark.parametrize("form", ["gradients", "points"])
def test_sag_admm_step_by_step_and_the_stale_mean_is_the_center(form):
    """Against tables of whole gradients and points, one of each per row."""
    problem, A, mu = fused(3)
    f, beta, L, n = problem.f2, 0.4, 5.0, 30
    solver = sa.solvers.SAGADMM(
        beta=beta, batch_size=4, sampling="rows", n_inner=40, curvature=L, form=form
    )
    start = np.random.default_rng(9).standard_normal(5)
    state = run(solver, problem, 1, start=start)[0]
    x, z, dual = start, A @ start, np.zeros(A.shape[0])
    points = np.tile(x, (n, 1))
    gradients = (f.X @ x - f.y)[:, None] * f.X
    a2 = problem.A2.norm2
    for rows in batches_of(solver, problem, 40):
        z = shrink(A @ x + dual / beta, mu / beta)
        for i in rows:
            points[i], gradients[i] = x, (f.X[i] @ x - f.y[i]) * f.X[i]
        center = points.mean(axis=0) if form == "points" else x
        augmented = gradients.mean(axis=0) + A.T @ (dual + beta * (A @ x - z))
        x = (L * center + beta * a2 * x - augmented) / (L + beta * a2)
        dual = dual + beta * (A @ x - z)
    np.testing.assert_allclose(state.x.x2, x, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.x.x1, z, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state.dual, dual, rtol=0, atol=1e-11)


def test_asvrg_admm_step_by_step():
    """Against the article's letters: eta, gamma, the scaled multiplier u."""
    problem, A, mu = fused(4)
    f, beta, L, theta, m = problem.f2, 0.4, 3.0, 0.8, 15
    solver = sa.solvers.ASVRGADMM(
        beta=beta, batch_size=4, sampling="rows", n_inner=m, curvature=L, momentum=theta
    )
    states = run(solver, problem, 3)
    rng, runs = np.random.default_rng(3), solver.runs(problem)
    q, eta, a2 = A.shape[0], 1 / L, problem.A2.norm2
    w, z, u, snapshot, snapshot1 = np.zeros(5), np.zeros(q), np.zeros(q), np.zeros(5), np.zeros(q)
    for state in states:
        G = f.X.T @ (f.X @ snapshot - f.y) / 30
        gamma = 1 + eta * beta * a2 / theta
        x, xs, zs = theta * w + (1 - theta) * snapshot, [], []
        for b in runs.draw(rng, m):
            rows = runs.rows(b)
            z = shrink(A @ w + u, mu / beta)
            v = f.X[rows].T @ (f.X[rows] @ (x - snapshot)) / 4 + G
            w = w - eta / (gamma * theta) * (v + beta * A.T @ (A @ w - z + u))
            u = u + A @ w - z
            x = theta * w + (1 - theta) * snapshot
            xs.append(x), zs.append(z)
        snapshot = np.mean(xs, axis=0)
        snapshot1 = (1 - theta) * snapshot1 + theta * np.mean(zs, axis=0)
        theta = (np.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2
        np.testing.assert_allclose(state.output.x2, snapshot, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.output.x1, snapshot1, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.dual, beta * u, rtol=0, atol=1e-11)
        assert state.theta == pytest.approx(theta)


def test_svrg_admm_restarts_from_the_means_when_strongly_convex():
    problem = make(5, loss="squared")
    solver = sa.SVRGADMM(beta=0.2, batch_size=5, strongly_convex=True)
    first, second = run(solver, problem, 2)
    A = problem.A2.tosparse().toarray()
    multiplier = multiplier_for(problem, problem.f2.gradient(first.x_tilde.x2), Workspace())
    expected = np.linalg.lstsq(A.T, -problem.f2.gradient(first.x_tilde.x2), rcond=None)[0]
    np.testing.assert_allclose(multiplier, expected, rtol=0, atol=1e-10)
    again = sa.SVRGADMM(beta=0.2, batch_size=5)
    state = again.start(problem, first.x_tilde, multiplier)
    rng = np.random.default_rng(3)
    solver.runs(problem).draw(rng, first.n_inner)
    again.epoch(problem, state, rng)
    np.testing.assert_allclose(state.x_tilde.x2, second.output.x2, rtol=0, atol=1e-12)


# -------------------------------------------------------------------- averages, devices, budgets


class Recorded:
    """A penalty that keeps what its prox returns."""

    def __init__(self, penalty):
        self.penalty, self.points = penalty, []

    def value(self, x):
        return self.penalty.value(x)

    def prox(self, v, step):
        self.points.append(self.penalty.prox(v, step))
        return self.points[-1]


@pytest.mark.parametrize("name", ["stoc", "opg", "rda", "svrg", "sag", "sag-points"])
def test_ergodic_point_is_the_average_of_all_iterates(name):
    h1, h2 = Recorded(sa.L1(0.02)), Recorded(sa.L1(0.01))
    problem = dataclasses.replace(make(), h1=h1, h2=h2)
    state = run(dataclasses.replace(ALL[name], beta=0.1, batch_size=5), problem, 4)[-1]
    for h, x, average in (
        (h1, state.x.x1, state.ergodic.x1),
        (h2, state.x.x2, state.ergodic.x2),
    ):
        assert len(h.points) == 4 * state.n_inner
        np.testing.assert_allclose(average, np.mean(h.points, axis=0), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(x, h.points[-1])


@pytest.mark.parametrize("name", ALL)
def test_output_is_what_was_asked_for(name):
    for returns in ("last", "ergodic"):
        solver = dataclasses.replace(ALL[name], beta=0.1, batch_size=5, returns=returns)
        state = run(solver, make(), 2)[-1]
        if returns == "ergodic":
            assert state.output is not state.x
            np.testing.assert_array_equal(state.output.x2, state.ergodic.x2)
        else:
            point = state.x_tilde if name == "asvrg" else state.x
            np.testing.assert_array_equal(state.output.x2, point.x2)


def test_average_of_the_asvrg_snapshots():
    states = run(sa.solvers.ASVRGADMM(beta=0.1, batch_size=5), make(), 4)
    mean = np.mean([s.x_tilde.x2 for s in states], axis=0)
    np.testing.assert_allclose(states[-1].ergodic.x2, mean, rtol=0, atol=1e-13)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ALL)
def test_penalty_grows_by_continuation(name):
    schedule = sa.Continuation(0.5, rho=2.0)
    solver = dataclasses.replace(ALL[name], beta=schedule, batch_size=5)
    states = run(solver, make(), 6)
    assert [s.beta for s in states] == [schedule.at(s) for s in range(6)] == [0.5, 1, 2, 4, 8, 10]
    compiled = run(solver, make(), 6, "compiled")
    assert_same(states[-1], compiled[-1], 1e-9)


@pytest.mark.parametrize("name", ["svrg", "sag", "asvrg"])
def test_warm_start_is_stoc_admm_and_is_charged(name):
    problem = make(n=100)
    solver = dataclasses.replace(ALL[name], beta=0.1, batch_size=5, warm_start_passes=3)
    state = run(solver, problem, 1)[0]
    first = sa.solvers.StocADMM(beta=0.1, batch_size=5, n_inner=60)
    warm, rng = first.start(problem), np.random.default_rng(3)
    first.epoch(problem, warm, rng)
    cold = dataclasses.replace(solver, warm_start_passes=0)
    after = cold.start(problem, warm.x, warm.dual)
    cold.epoch(problem, after, rng)
    np.testing.assert_array_equal(state.x.x2, after.x.x2)
    np.testing.assert_array_equal(state.dual, after.dual)
    assert state.n_passes == pytest.approx(3 + after.n_passes)
    assert state.n_gradients == pytest.approx(3 + after.n_gradients)
    assert state.n_inner == 40  # averages and counts of the method itself are untouched
    np.testing.assert_array_equal(state.ergodic.x2, after.ergodic.x2)


@pytest.mark.parametrize(
    ("name", "passes", "gradients"),
    [
        ("stoc", 2, 2),
        ("opg", 2, 2),
        ("rda", 2, 2),
        ("opt", 2, 2),
        ("svrg", 3, 5),
        ("asvrg", 3, 5),
        ("sag", 2, 2),
    ],
)
def test_an_epoch_is_two_passes_of_steps(name, passes, gradients):
    first, second = run(dataclasses.replace(ALL[name], batch_size=5), make(n=100), 2)
    assert first.n_inner == 40
    assert second.n_passes - first.n_passes == pytest.approx(passes)
    assert second.n_gradients - first.n_gradients == pytest.approx(gradients)
    filled = 1 if name == "sag" else 0
    assert first.n_passes == pytest.approx(passes + filled)


# -------------------------------------------------------------------- accuracy


def gap(problem, state):
    """Return the certified gap of a state as a part of F(0)."""
    found = sa.certify(problem, state.output, state.dual, strength="corrected")
    return found.gap / problem.objective_at_zero


ACCURACY = {  # method: passes, certified gap relative to F(0)
    "stoc": (100, 1e-2),
    "stoc-sqrt": (100, 1e-2),
    "opg": (100, 1e-2),
    "rda": (100, 2e-2),
    "opt": (100, 1e-2),
    "svrg": (300, 1e-5),
    "svrg-ergodic": (300, 5e-3),
    "asvrg": (300, 1e-4),
    "sag": (300, 1e-8),
    "sag-points": (600, 1e-2),  # the center lags a pass behind: slow by nature
}


@pytest.mark.compiled
@pytest.mark.parametrize("loss", ["logistic", "squared", "multinomial"])
@pytest.mark.parametrize("name", ACCURACY)
def test_certified_accuracy(name, loss):
    passes, accuracy = ACCURACY[name]
    problem = make(11, loss=loss, n=200, outputs=3 if loss == "multinomial" else None, rich=True)
    solver = dataclasses.replace(ALL[name], batch_size=10)
    state, rng = solver.start(problem), np.random.default_rng(0)
    state.engine = "compiled"
    while state.n_passes < passes:
        solver.epoch(problem, state, rng)
    assert gap(problem, state) <= accuracy


def test_strongly_convex_svrg_admm_converges_linearly():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 5)), rng.standard_normal(200)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.05))
    for solver in (
        sa.SVRGADMM(strongly_convex=True, beta=1.0, batch_size=10),
        sa.solvers.ASVRGADMM(strongly_convex=True, beta=1.0, batch_size=10),
    ):
        result = sa.minimize(problem, solver, stop=sa.Gap(1e-9), max_passes=150)
        assert result.status is sa.Status.CONVERGED, solver.name


@pytest.mark.compiled
def test_steps_of_squared_losses_do_not_blow_up():
    """Rows of very different sizes, where an uncapped first step would explode."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 10)) * rng.lognormal(0, 2, size=(400, 1))
    y = X @ rng.standard_normal(10) + rng.standard_normal(400)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.01))
    for name, solver in ALL.items():
        largest = 0.0
        for state in run(dataclasses.replace(solver, batch_size=5), problem, 5, "compiled"):
            value = problem.objective(problem.feasible(state.output))
            largest = max(largest, value / problem.objective_at_zero)
        assert largest <= 1.01, name


# -------------------------------------------------------------------- systems


@pytest.mark.parametrize("name", ALL | NEED_FREE_X2)
@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_resuming_equals_going_straight_through(name, engine):
    problem = make(3)
    solver = dataclasses.replace(
        (ALL | NEED_FREE_X2)[name], batch_size=5, beta=sa.Continuation(0.05, rho=1.2)
    )
    settings = {"stop": sa.Never(), "engine": engine}
    straight = sa.minimize(problem, solver, max_passes=20, **settings)
    half = sa.minimize(problem, solver, max_passes=10, **settings)
    whole = sa.minimize(problem, solver, max_passes=20, resume=half, **settings)
    a, b = straight.state[0], whole.state[0]
    assert a.n_passes == b.n_passes > half.state[0].n_passes
    for left, right in ((a.x, b.x), (a.output, b.output), (a.ergodic, b.ergodic)):
        np.testing.assert_array_equal(left.x1, right.x1)
        np.testing.assert_array_equal(left.x2, right.x2)
    np.testing.assert_array_equal(a.dual, b.dual)


@pytest.mark.compiled
@pytest.mark.parametrize("name", ALL)
def test_start_is_not_changed_and_problems_without_constraint_are_served(name):
    problem = make()
    rng = np.random.default_rng(0)
    start = sa.Pair(rng.standard_normal(problem.shape1), rng.standard_normal(problem.shape2))
    dual, kept = rng.standard_normal(problem.shape_dual), start.copy()
    kept_dual = dual.copy()
    for engine in ("reference", "compiled"):
        run(dataclasses.replace(ALL[name], batch_size=5), problem, 2, engine, 3, start, dual)
        np.testing.assert_array_equal(start.x1, kept.x1)
        np.testing.assert_array_equal(start.x2, kept.x2)
        np.testing.assert_array_equal(dual, kept_dual)
    X = rng.standard_normal((50, 4))
    y = X @ np.array([2.0, -1.0, 0.0, 0.0]) + 0.1 * rng.standard_normal(50)
    free = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.1))
    states = [
        run(dataclasses.replace(ALL[name], batch_size=5), free, 5, engine)[-1]
        for engine in ("reference", "compiled")
    ]
    assert_same(*states, 1e-9)
    assert free.objective(states[0].output) < 0.5 * free.objective_at_zero


def test_estimates_are_unbiased_and_the_table_keeps_its_mean():
    problem = make(rich=True)
    f2, rng = problem.f2, np.random.default_rng(0)
    x = rng.standard_normal(problem.shape2)
    runs = Runs(f2.n_terms, 7, 1)
    fresh = Fresh(f2, runs)
    mean = np.mean([fresh.estimate(np.array([r]), x) for r in range(7)], axis=0)
    np.testing.assert_allclose(mean, f2.gradient(x), rtol=0, atol=1e-13)
    first = f2.evaluate(np.zeros(problem.shape2))
    table = Table(f2, runs, first.derivative, first.gradient)
    table.estimate(np.array([2, 2, 5]), x)
    np.testing.assert_allclose(
        table.mean_gradient,
        f2.pull_back(f2.weighted(table.derivatives)) / f2.n_terms,
        rtol=0,
        atol=1e-13,
    )
    for r in range(7):
        estimate = table.estimate(np.array([r]), x)
    np.testing.assert_allclose(estimate, f2.gradient(x), rtol=0, atol=1e-13)


def test_what_a_method_cannot_serve_is_said_before_the_run():
    with_h2 = make(h2=sa.L1(0.1))
    for solver in NEED_FREE_X2.values():
        with pytest.raises(ValueError, match="needs h2 absent"):
            sa.minimize(with_h2, solver)

    class NoRows:
        n_terms, shape, lipschitz_max, lipschitz_mean = 3, (2,), 1.0, 1.0

        def value(self, x):
            return float(x @ x) / 2

        def gradient(self, x):
            return x

        def gradient_change(self, rows, x, anchor):
            return x - anchor

    bare = sa.Problem(NoRows(), h2=sa.L1(0.1))
    with pytest.raises(sa.solvers.Unsuitable, match="stoc-admm needs `gradient_rows` of f2"):
        sa.minimize(bare, "stoc-admm")
    with pytest.raises(sa.solvers.Unsuitable, match="sag-admm needs `evaluate` of f2"):
        sa.minimize(bare, "sag-admm")
    with pytest.raises(sa.solvers.Unsuitable, match="stoc-admm needs `gradient_rows` of f2"):
        sa.minimize(bare, sa.SVRGADMM(warm_start_passes=1))
    assert sa.minimize(bare, sa.SVRGADMM(batch_size=1)).objective == 0.0

    for make_bad, word in (
        (lambda: sa.solvers.StocADMM(step="long"), "step"),
        (lambda: sa.solvers.StocADMM(form="odd"), "form"),
        (lambda: sa.solvers.StocADMM(step="strong"), "growth"),
        (lambda: sa.solvers.OPGADMM(returns="best"), "returns"),
        (lambda: sa.solvers.SAGADMM(form="odd"), "form"),
        (lambda: sa.solvers.ASVRGADMM(momentum=1.0), "momentum"),
        (lambda: sa.SVRGADMM(warm_start_passes=-1), "warm_start_passes"),
        (lambda: sa.SVRGADMM(curvature=0.0).start(with_h2), "curvature"),
        (lambda: sa.solvers.StocADMM(growth=-1.0).start(with_h2), "growth"),
        (lambda: sa.solvers.RDAADMM(batch_size=0).start(with_h2), "batch_size"),
    ):
        with pytest.raises(ValueError, match=word):
            make_bad()
