"""VR-PDDY, SPDHG, SDCA-ADMM and Katyusha: engines, equivalences, duals, optima, capabilities."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso, LogisticRegression

import stochadmm as sa
from stochadmm.risk.gradients import Loopless
from stochadmm.solvers.comparison._dual_blocks import block_norms2, partition, residual, rows_of

DUAL = (sa.solvers.SDCAADMM, sa.solvers.SPDHG)
SPLIT = (*DUAL, sa.solvers.VRPDDY)
LOSSES = {
    "logistic": sa.Logistic(),
    "squared": sa.Squared(),
    "twice": sa.Squared(half=False),
    "huber": sa.Huber(0.5),
    "quantile": sa.Quantile(0.7, 0.3),
    "hinge": sa.SquaredHinge(),
    "poisson": sa.Poisson(3.0),
    "multinomial": sa.Multinomial(4),
}


def targets(rng, loss, rows, outputs):
    if loss == "multinomial":
        return rng.integers(4, size=rows)
    shape = rows if outputs is None else (rows, outputs)
    if loss in ("logistic", "hinge"):
        return np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    if loss == "poisson":
        return rng.poisson(2.0, shape).astype(float)
    return rng.standard_normal(shape)


def make(
    loss="logistic",
    *,
    rows=57,
    d=6,
    csr=False,
    outputs=None,
    extras=False,
    h2=False,
    constrained=True,
    shift=True,
    seed=7,
    dtype=np.float64,
    alpha=0.02,
):
    """Return a fused problem; ``extras`` are intercept, weights (one of them 0) and offset."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d)).astype(dtype)
    if csr:
        X = sparse.csr_array(np.where(rng.random((rows, d)) < 0.5, X, 0).astype(dtype))
    y = targets(rng, loss, rows, outputs)
    weight = offset = None
    if extras:
        weight, C = rng.random(rows), 4 if loss == "multinomial" else outputs
        weight[3] = 0.0
        offset = 0.3 * rng.standard_normal(rows if C is None else (rows, C)) if shift else None
    A = sa.VStack([sa.Differences(d), sa.Identity(d)]) if constrained else None
    return sa.Problem.linear(
        LOSSES[loss],
        X,
        y,
        structure=A,
        on_structure=sa.L1(alpha) if constrained else None,
        on_coefficients=sa.ElasticNet(alpha, 0.5) if h2 else None,
        intercept=extras,
        sample_weight=weight,
        offset=offset,
    )


def run(solver, problem, engine, epochs, seed=3, state=None):
    state = solver.start(problem) if state is None else state
    state.engine = engine
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        solver.epoch(problem, state, rng)
    return state


def assert_same_engines(solver, problem, tolerance=1e-9):
    states = [solver.start(problem), solver.start(problem)]
    generators = [np.random.default_rng(3), np.random.default_rng(3)]
    for _ in range(3):
        for state, engine, rng in zip(states, ("reference", "compiled"), generators, strict=True):
            state.engine = engine
            solver.epoch(problem, state, rng)
        a, b = states
        pairs = [(a.dual, b.dual)]
        for name in ("x", "output", "ergodic"):
            left, right = getattr(a, name), getattr(b, name)
            if left is not None:
                pairs += [(left.x1, right.x1), (left.x2, right.x2)]
        for name in ("derivatives", "residual", "pull", "lead", "ahead", "snapshot"):
            if hasattr(a, name):
                pairs.append((getattr(a, name), getattr(b, name)))
        for left, right in pairs:
            assert left.dtype == right.dtype == problem.dtype
            np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)
        assert a.n_passes == b.n_passes and a.n_gradients == b.n_gradients


@pytest.mark.compiled
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "intercept-weights-offset"])
@pytest.mark.parametrize("loss, outputs", [(name, None) for name in LOSSES] + [("squared", 3)])
@pytest.mark.parametrize("method", DUAL)
def test_dual_methods_compiled_equals_reference(method, loss, outputs, csr, extras):
    problem = make(loss, csr=csr, outputs=outputs, extras=extras, h2=extras)
    assert_same_engines(method(batch_size=5), problem)


@pytest.mark.compiled
@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "intercept-weights-offset"])
@pytest.mark.parametrize(
    "loss, outputs", [("logistic", None), ("squared", 3), ("multinomial", None)]
)
def test_gradient_methods_compiled_equals_reference(loss, outputs, csr, extras):
    for h2 in (False, True):
        problem = make(loss, csr=csr, outputs=outputs, extras=extras, h2=h2)
        assert_same_engines(sa.solvers.VRPDDY(batch_size=5), problem)
    free = make(loss, csr=csr, outputs=outputs, extras=extras, h2=True, constrained=False)
    assert_same_engines(sa.solvers.Katyusha(batch_size=5), free)
    assert_same_engines(sa.solvers.Katyusha(batch_size=5, strong_convexity=0.1), free)
    assert_same_engines(sa.solvers.VRPDDY(batch_size=5, sampling="rows"), free)


@pytest.mark.compiled
@pytest.mark.parametrize("method", [*SPLIT, sa.solvers.Katyusha])
def test_float32_stays_float32(method):
    problem = make(
        "logistic", dtype=np.float32, h2=True, constrained=method is not sa.solvers.Katyusha
    )
    assert_same_engines(method(batch_size=5), problem, tolerance=2e-3)


@pytest.mark.compiled
def test_a_general_orthogonal_A1_compiled_equals_reference():
    base = make("logistic", h2=True)
    p = base.shape1[0]
    flip = sparse.csr_array(2.0 * np.eye(p)[::-1])
    b = np.linspace(-1, 1, p)
    problem = sa.Problem(base.f2, h1=sa.L1(0.02), h2=base.h2, A1=flip, A2=base.A2, b=b)
    for method in SPLIT:
        solver = method(batch_size=5)
        assert_same_engines(solver, problem)
        state = run(solver, problem, "compiled", 400)
        x, dual = state.output, state.dual
        g1, g2 = flip.T @ dual, problem.f2.gradient(x.x2) + problem.A2.rmatvec(dual)
        np.testing.assert_allclose(problem.constraint(x), 0, atol=1e-9)
        np.testing.assert_allclose(problem.h1.prox(x.x1 - g1, 1.0), x.x1, atol=1e-9)
        np.testing.assert_allclose(problem.h2.prox(x.x2 - g2, 1.0), x.x2, atol=1e-9)


# ---------------------------------------------------------------- VR-PDDY


class EveryRowOnce:
    """Stands for a generator: every batch is all rows, every coin says yes."""

    def integers(self, n, size):
        return np.tile(np.arange(n), (size[0], 1))

    def random(self, n):
        return np.zeros(n)


@pytest.mark.parametrize("h2", [False, True])
def test_vr_pddy_with_all_rows_and_refresh_1_is_the_batch_method(h2):
    problem = make("logistic", extras=True, h2=h2)
    n, step = problem.f2.n_terms, 0.7
    A = problem.A2.tosparse().toarray()
    sigma = 1 / (step * problem.A2.norm2)
    solver = sa.solvers.VRPDDY(batch_size=n, step=step, refresh=1.0, n_inner=25, sampling="rows")
    state = solver.start(problem)
    lead, lam = np.zeros(problem.shape2), np.zeros(problem.shape_dual)
    if h2:
        lead = -step * problem.f2.gradient(lead)
    for _ in range(2):
        solver.epoch(problem, state, EveryRowOnce())
        for _ in range(25):
            x = problem.h2.prox(lead, step) if h2 else lead
            g = problem.f2.gradient(x)
            lam = np.clip(lam + sigma * A @ (2 * x - lead - step * (g + A.T @ lam)), -0.02, 0.02)
            lead = x - step * (g + A.T @ lam)
        np.testing.assert_allclose(state.z, lead, rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.dual, lam, rtol=0, atol=1e-12)
    assert state.n_passes == 1 + 2 * 25 + 2 * 25


def test_the_steps_of_vr_pddy_are_those_of_the_analysis():
    problem = make("logistic")
    solver = sa.solvers.VRPDDY(batch_size=5, sampling="rows")
    Lf, noise = problem.f2.lipschitz_mean, problem.f2.lipschitz_max / 5
    proved, practical = (
        sa.solvers.VRPDDY(batch_size=5, sampling="rows", step=s).start(problem)
        for s in ("proved", "practical")
    )
    assert proved.step == pytest.approx(1 / (Lf + 6 * noise))
    assert proved.step < 2 / (Lf + 8 * noise)
    assert practical.step == pytest.approx(1 / (Lf + 2 * noise))
    assert proved.beta * proved.step * problem.A2.norm2 == pytest.approx(1.0)
    run(solver, problem, "reference", 1, state=proved)
    assert proved.gradient.probability == pytest.approx(5 / 57)


def test_loopless_spans_cover_the_steps_and_move_where_the_coins_say():
    problem = make("logistic")
    estimator = Loopless.take(problem.f2, partition(problem, 5), np.zeros(6), 0.3)
    coins = np.random.default_rng(0).random(40) < 0.3
    spans = estimator.spans(np.random.default_rng(0), 40)
    steps = np.concatenate([np.arange(40)[span] for span in spans])
    np.testing.assert_array_equal(steps, np.arange(40))
    assert len(spans) - 1 == coins.sum()
    assert [span.stop - 1 for span in spans[:-1]] == list(np.flatnonzero(coins))
    x = np.ones(6)
    moved = estimator.moved(x).anchored
    np.testing.assert_array_equal(moved.full_gradient, problem.f2.gradient(x))


@pytest.mark.parametrize("method", [sa.solvers.VRPDDY, sa.solvers.SPDHG])
def test_ergodic_point_is_the_mean_of_the_iterates(method):
    problem = make("logistic", h2=True)
    solver = method(batch_size=57, n_inner=1)  # one step an epoch: every iterate is seen
    state, rng, total = solver.start(problem), np.random.default_rng(0), problem.zeros()
    for k in range(30):
        solver.epoch(problem, state, rng)
        total = total + state.x
        for block in ("x1", "x2"):
            mean = getattr(total, block) / (k + 1)
            np.testing.assert_allclose(getattr(state.ergodic, block), mean, atol=1e-13)
    averaged = method(batch_size=57, n_inner=1, returns="ergodic")
    state = run(averaged, problem, "reference", 3)
    np.testing.assert_array_equal(state.output.x2, state.ergodic.x2)


# ---------------------------------------------------------------- the dual methods


@pytest.mark.parametrize("loss", [name for name in LOSSES])
@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("method", DUAL)
def test_duals_stay_in_the_domains_of_the_conjugates(method, engine, loss):
    problem = make(loss, extras=True)
    solver = method(batch_size=5)
    state = solver.start(problem)
    rng = np.random.default_rng(0)
    state.engine = engine
    for _ in range(4):
        solver.epoch(problem, state, rng)
        assert np.isfinite(problem.f2.loss.conjugate(state.derivatives, problem.f2.y)).all()
        assert np.abs(state.dual).max() <= 0.02 * (1 + 1e-9)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("h2", [False, True])
def test_the_residual_is_kept_consistent(engine, h2):
    problem = make("logistic", extras=True, h2=h2)
    for method, name in ((sa.solvers.SDCAADMM, "residual"), (sa.solvers.SPDHG, "z")):
        state = run(method(batch_size=5), problem, engine, 8)  # before it is summed anew
        exact = residual(problem, state.derivatives, state.dual) + getattr(state, "dual2", 0.0)
        np.testing.assert_allclose(getattr(state, name), exact, rtol=0, atol=1e-12)


def test_sdca_step_is_that_of_its_paper():
    """One step in the paper's letters: Z, B, rho, gamma = 1/n, unscaled dual variables."""
    problem = make("squared", rows=12, d=4)
    f, n = problem.f2, 12
    Z, B = f.X.T, problem.A2.tosparse().toarray().T
    rho, mu, K = 0.3, 0.02, 4
    solver = sa.solvers.SDCAADMM(rho=rho, batch_size=3, n_inner=1)
    state = solver.start(problem)
    w, a, u = np.zeros(4), -f.y.copy(), np.zeros(B.shape[1])
    eta_B = 1.01 * problem.A2.norm2
    etas = 1.01 * block_norms2(f, partition(problem, 3))
    rng, same = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(20):
        solver.epoch(problem, state, rng)
        block = int(same.integers(K, size=1)[0])
        rows = rows_of(partition(problem, 3), block)
        before = Z @ a + B @ u
        u = np.clip(u + B.T @ (w - rho * before) / (rho * eta_B), -n * mu, n * mu)
        v = a[rows] + Z[:, rows].T @ (w - rho * (Z @ a + B @ u)) / (rho * etas[block])
        a[rows] = f.loss.prox_conjugate(v, 1 / (rho * etas[block]), f.y[rows])
        w = w - rho / n * (n * (Z @ a + B @ u) - (n - n / K) * before)
        np.testing.assert_allclose(state.x.x2, w, rtol=0, atol=1e-11)
        np.testing.assert_allclose(n * state.dual, u, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.derivatives, a, rtol=0, atol=1e-11)


@pytest.mark.parametrize("csr", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rows, d, b", [(60, 8, 20), (60, 30, 10), (400, 90, 100)])
def test_block_norms_are_safe_and_close(rows, d, b, csr, intercept):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((rows, d)) < 0.4, rng.standard_normal((rows, d)), 0)
    f = sa.FiniteSum(
        sa.Squared(), sparse.csr_array(X) if csr else X, np.zeros(rows), intercept=intercept
    )
    problem = sa.Problem(f)
    runs = partition(problem, b)
    full = np.column_stack([X, np.ones(rows)]) if intercept else X
    exact = [np.linalg.norm(full[rows_of(runs, k)], 2) ** 2 for k in range(runs.n_runs)]
    ratio = block_norms2(f, runs) / exact
    assert ratio.min() >= 1 - 1e-12
    assert ratio.max() <= 1.3


@pytest.mark.parametrize(
    "method, name", [(sa.solvers.SDCAADMM, "rho"), (sa.solvers.SPDHG, "balance")]
)
def test_search_charges_its_trials_and_finds_a_usable_value(method, name):
    problem = make("logistic", rows=300)
    state = method(batch_size=10, **{name: "search"}).start(problem)
    assert state.n_passes > 5 * 3 * 1.5
    middle = method(batch_size=10).start(problem).notes[name]
    assert 0.09 < state.notes[name] / middle < 11
    result = sa.minimize(problem, method(batch_size=10, **{name: "search"}), stop=sa.Gap(1e-6))
    assert result.status is sa.Status.CONVERGED


# ---------------------------------------------------------------- Katyusha


def test_katyusha_is_the_printed_algorithm():
    """In the paper's letters; the strongly convex weights are (1 + alpha sigma)^k."""
    for sigma in (0.0, 0.3):
        problem = make("logistic", h2=True, constrained=False)
        f, n, b = problem.f2, 57, 5
        solver = sa.solvers.Katyusha(batch_size=b, sampling="rows", strong_convexity=sigma)
        m = round(2 * n / b)
        L = f.lipschitz_mean + 2 * f.lipschitz_max / b
        state, rng, same = solver.start(problem), *(np.random.default_rng(1) for _ in range(2))
        y = z = snapshot = np.zeros(6)
        for s in range(3):
            solver.epoch(problem, state, rng)
            tau1 = min(np.sqrt(m * sigma / L), 0.5) if sigma else 2 / (s + 4)
            alpha = 1 / (tau1 * L)
            anchor, total, weights = f.evaluate(snapshot), np.zeros(6), 0.0
            for k, rows in enumerate(same.integers(n, size=(m, b))):
                x = tau1 * z + snapshot / 2 + (0.5 - tau1) * y
                v = anchor.gradient + f.gradient_change(rows, x, anchor)
                z_new = problem.h2.prox(z - alpha * v, alpha)
                y, z = x + tau1 * (z_new - z), z_new
                total = total + (1 + alpha * sigma) ** k * y
                weights += (1 + alpha * sigma) ** k
            snapshot = total / weights
            np.testing.assert_allclose(state.output.x2, snapshot, rtol=0, atol=1e-12)
    assert sa.solvers.Katyusha(batch_size=b, step="paper").start(
        problem
    ).curvature == pytest.approx(3 * f.lipschitz_max)
    same, longer = (
        next(sa.iterate(problem, sa.solvers.Katyusha(batch_size=b, curvature=factor * L)))
        for L in [sa.solvers.Katyusha(batch_size=b).start(problem).curvature]
        for factor in (1.0, 0.5)
    )
    plain = next(sa.iterate(problem, sa.solvers.Katyusha(batch_size=b)))
    np.testing.assert_array_equal(same.output.x2, plain.output.x2)
    assert longer.curvature == 0.5 * plain.curvature
    assert np.linalg.norm(longer.output.x2) > np.linalg.norm(plain.output.x2)


def test_katyusha_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    y = X[:, :3] @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_normal(200)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.1), intercept=True)
    result = sa.minimize(problem, sa.solvers.Katyusha(), stop=sa.Gap(1e-10), max_passes=500)
    other = Lasso(alpha=0.1, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(result.coef, other.coef_, rtol=0, atol=1e-5)
    assert result.intercept == pytest.approx(other.intercept_, abs=1e-5)

    labels = np.where(y > 0, 1.0, -1.0)
    problem = sa.Problem.linear(sa.Logistic(), X, labels, on_coefficients=sa.L1(0.01))
    result = sa.minimize(problem, sa.solvers.Katyusha(), stop=sa.Gap(1e-9), max_passes=2000)
    model = LogisticRegression(
        l1_ratio=1,
        C=1 / (200 * 0.01),
        solver="saga",
        tol=1e-10,
        max_iter=100_000,
        fit_intercept=False,
    ).fit(X, labels)
    other = problem.objective(sa.Pair(np.zeros(0), model.coef_.ravel()))
    assert result.objective <= other + 1e-8
    assert result.objective == pytest.approx(other, abs=1e-7)


@pytest.mark.compiled
def test_strong_convexity_makes_katyusha_faster_at_the_end():
    problem = make("logistic", rows=500, h2=True, constrained=False, alpha=0.05)
    gaps = []
    for sigma in (0.0, 0.025):
        solver = sa.solvers.Katyusha(batch_size=5, strong_convexity=sigma)
        state = run(solver, problem, "compiled", 12)
        gaps.append(sa.certify(problem, state.output, state.dual).gap)
    assert gaps[1] < 0.1 * gaps[0]


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize(
    "kind",
    [
        {"loss": "logistic"},
        {"loss": "logistic", "extras": True, "csr": True},
        {"loss": "squared", "h2": True},
        {"loss": "squared", "outputs": 3, "extras": True},
        {"loss": "multinomial", "h2": True},
        {"loss": "huber"},
        {"loss": "quantile", "extras": True},
        {"loss": "hinge", "h2": True},
        {"loss": "poisson", "extras": True},
    ],
    ids=lambda kind: "-".join(str(v) for v in kind.values()),
)
@pytest.mark.parametrize("method", [*SPLIT, sa.solvers.Katyusha])
def test_reaches_a_small_certified_gap(method, kind):
    if method is sa.solvers.Katyusha:
        kind = {**kind, "h2": True, "constrained": False}
    problem = make(**kind, rows=150, shift=False)
    result = sa.minimize(
        problem, method(batch_size=10), stop=sa.Gap(1e-6), max_passes=2000, random_state=1
    )
    assert result.status is sa.Status.CONVERGED
    assert result.relative_gap <= 1e-6
    found = sa.certify(problem, sa.Pair(result.x1, result.x2), result.dual, strength="corrected")
    assert found.relative(problem.objective_at_zero) <= 1e-4


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("method", [*SPLIT, sa.solvers.Katyusha])
def test_resuming_equals_going_straight_through(method, engine):
    problem = make("logistic", extras=True, h2=True, constrained=method is not sa.solvers.Katyusha)
    solver = method(batch_size=5)
    rng = np.random.default_rng(0)
    straight = solver.start(problem)
    straight.engine = engine
    kept, generator = None, None
    for k in range(14):
        if k == 5:
            kept, generator = straight.copy(), rng.bit_generator.state
        solver.epoch(problem, straight, rng)
    again = np.random.default_rng()
    again.bit_generator.state = generator
    for _ in range(9):
        solver.epoch(problem, kept, again)
    np.testing.assert_array_equal(kept.output.x2, straight.output.x2)
    np.testing.assert_array_equal(kept.dual, straight.dual)
    assert kept.n_passes == straight.n_passes


@pytest.mark.compiled
@pytest.mark.parametrize("method", [*SPLIT, sa.solvers.Katyusha])
def test_start_is_not_changed_and_counts_are_those_of_the_papers(method):
    constrained = method is not sa.solvers.Katyusha
    problem = make("logistic", rows=100, h2=True, constrained=constrained)
    rng = np.random.default_rng(0)
    x0 = sa.Pair(rng.standard_normal(problem.shape1), rng.standard_normal(problem.shape2))
    dual = 0.01 * rng.standard_normal(problem.shape_dual)
    kept, kept_dual = x0.copy(), dual.copy()
    solver = method(batch_size=10)
    for engine in ("reference", "compiled"):
        state = solver.start(problem, x0, dual)
        state.engine = engine
        solver.epoch(problem, state, np.random.default_rng(0))
        np.testing.assert_array_equal(x0.x1, kept.x1)
        np.testing.assert_array_equal(x0.x2, kept.x2)
        np.testing.assert_array_equal(dual, kept_dual)
    if method is sa.solvers.Katyusha:
        assert (state.n_passes, state.n_gradients) == pytest.approx((3.0, 5.0))
    elif method is sa.solvers.VRPDDY:
        assert state.n_gradients == pytest.approx(state.n_passes + 2)
    elif method is sa.solvers.SDCAADMM:
        assert (state.n_passes, state.n_gradients) == (3.0, 3.0)
    else:
        assert state.n_passes == state.n_gradients >= 2


@pytest.mark.compiled
def test_a_warm_start_at_the_optimum_stays_there():
    problem = make("logistic", rows=300, h2=True, alpha=0.005)
    state = run(sa.solvers.SDCAADMM(batch_size=10), problem, "compiled", 300)
    assert np.count_nonzero(state.output.x2) == 6
    for method in SPLIT:
        solver = method(batch_size=10)
        again = solver.start(problem, state.output, state.dual)
        run(solver, problem, "compiled", 3, state=again)
        np.testing.assert_allclose(again.output.x2, state.output.x2, rtol=0, atol=1e-10)
        np.testing.assert_allclose(again.dual, state.dual, rtol=0, atol=1e-10)


class Absolute:
    """|z - y|: no bound on the curvature, and derivative zero where a row is fitted exactly."""

    curvature_bound = np.inf

    def value(self, z, y, weight=None):
        return float(np.average(np.abs(z - y), weights=weight))

    def derivative(self, z, y):
        return np.sign(z - y)

    def conjugate(self, u, y):
        return np.where(np.abs(u) <= 1, u * y, np.inf)

    def dual_step_limit(self, u, du, y):
        return np.where(np.abs(u + du) <= 1, 1.0, 0.0)

    def prox_conjugate(self, v, step, y):
        return np.clip(v - step * y, -1.0, 1.0)


@pytest.mark.parametrize("method", DUAL)
def test_derivatives_of_zero_at_the_start_do_no_harm(method):
    X = np.random.default_rng(0).standard_normal((50, 6))
    fused = {"structure": sa.Differences(6), "on_structure": sa.L1(0.05)}
    problem = sa.Problem.linear(Absolute(), X, np.zeros(50), **fused)
    assert sa.minimize(problem, method()).objective == 0.0
    w = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    X = np.round(X)  # the targets are then fitted without rounding
    strong = {"structure": sa.Differences(6), "on_structure": sa.L1(0.2)}
    problem = sa.Problem.linear(Absolute(), X, X @ w, **strong)
    assert not problem.f2.loss.derivative(X @ w, problem.f2.y).any()
    start = sa.minimize(problem, method(), start=w, max_passes=200)
    other = sa.minimize(problem, method(), max_passes=200)
    assert start.objective == pytest.approx(other.objective, rel=1e-4)


def test_a_point_without_a_bound_is_not_given_up_for_exact_structure():
    X = np.round(np.random.default_rng(0).standard_normal((50, 6)))
    w = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    fused = {"structure": sa.Differences(6), "on_structure": sa.L1(0.2)}
    problem = sa.Problem.linear(Absolute(), X, X @ w, **fused)
    result = sa.minimize(problem, sa.solvers.SDCAADMM(), start=w, max_passes=20)
    assert result.gap is None and not result.converged and result.objective <= 0.2


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", DUAL)
def test_rows_of_zeros_do_no_harm(method, dtype, engine):
    X = np.random.default_rng(0).standard_normal((60, 6)).astype(dtype)
    y = X.sum(axis=1) + 1
    fused = {"structure": sa.Differences(6), "on_structure": sa.L1(0.05)}
    empty = sa.Problem.linear(sa.Squared(), 0 * X, y, **fused)
    result = sa.minimize(empty, method(), engine=engine)
    assert result.objective == pytest.approx(0.5 * np.mean(y.astype(float) ** 2), rel=1e-6)
    X[20:40] = 0
    problem = sa.Problem.linear(sa.Squared(), X, y, **fused)
    result = sa.minimize(problem, method(batch_size=5), stop=1e-5, engine=engine, max_passes=500)
    assert result.status is sa.Status.CONVERGED


class PlainLoss:
    """A loss with the required members only."""

    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return float(np.average(0.5 * (z - y) ** 2, weights=weight))

    def derivative(self, z, y):
        return z - y


class HalfSquare:
    lipschitz = 1.0

    def value(self, x):
        return 0.5 * float((x * x).sum())

    def gradient(self, x):
        return x


def test_capability_errors_name_what_is_missing():
    X, y = np.eye(4), np.arange(4.0)
    plain = sa.Problem.linear(
        PlainLoss(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.1)
    )
    for name in ("sdca-admm", "spdhg"):
        with pytest.raises(sa.solvers.Unsuitable, match=f"{name} needs `prox_conjugate` of f2"):
            sa.minimize(plain, name)
    assert sa.minimize(plain, "vr-pddy", max_passes=20, stop=sa.Never()).n_passes >= 20

    f2 = sa.FiniteSum(sa.Squared(), X, y)
    skew = np.triu(np.ones((3, 3)))
    A2 = sa.Differences(4)
    general = sa.Problem(f2, h1=sa.L1(0.1), A1=skew, A2=A2)
    smooth = sa.Problem(f2, f1=HalfSquare(), A1=sa.Identity(3, scale=-1.0), A2=A2)
    for name in ("sdca-admm", "spdhg", "vr-pddy"):
        with pytest.raises(ValueError, match=f"{name} needs A1"):
            sa.minimize(general, name)
        with pytest.raises(ValueError, match=f"{name} needs f1 absent"):
            sa.minimize(smooth, name)
    with pytest.raises(ValueError, match="without a constraint"):
        sa.minimize(make("logistic"), "katyusha")


@pytest.mark.parametrize(
    "method, bad",
    [
        (sa.solvers.VRPDDY, {"step": "long"}),
        (sa.solvers.VRPDDY, {"step": -1.0}),
        (sa.solvers.VRPDDY, {"sigma": 0.0}),
        (sa.solvers.VRPDDY, {"refresh": 2.0}),
        (sa.solvers.VRPDDY, {"returns": "first"}),
        (sa.solvers.SPDHG, {"balance": "odd"}),
        (sa.solvers.SPDHG, {"n_inner": 0}),
        (sa.solvers.SDCAADMM, {"rho": -1.0}),
        (sa.solvers.SDCAADMM, {"rho": float("nan")}),
        (sa.solvers.Katyusha, {"step": "long"}),
        (sa.solvers.Katyusha, {"strong_convexity": -1.0}),
    ],
)
def test_odd_parameters_are_refused(method, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        method(**bad)
