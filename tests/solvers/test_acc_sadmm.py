"""ACC-SADMM: the identities of its analysis, its theorem, and its two engines."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.solvers import Schedule


def random_problem(
    rng,
    *,
    loss="squared",
    rows=30,
    d=6,
    sparse_data=False,
    outputs=None,
    intercept=False,
    weights=False,
    dtype=np.float64,
):
    X = rng.standard_normal((rows, d)).astype(dtype)
    if sparse_data:
        X = sparse.csr_array(np.where(rng.random((rows, d)) < 0.5, X, 0).astype(dtype))
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    if loss == "multinomial":
        part, y = sa.Multinomial(outputs), rng.integers(outputs, size=rows)
    elif loss == "logistic":
        part, y = sa.Logistic(), np.where(rng.random(rows) < 0.5, -1.0, 1.0)
    else:
        part, y = sa.Squared(), rng.standard_normal(rows if outputs is None else (rows, outputs))
    return sa.Problem.linear(
        part,
        X,
        y,
        structure=A,
        on_structure=sa.L1(0.02),
        intercept=intercept,
        sample_weight=rng.random(rows) if weights else None,
    )


def random_start(problem, rng):
    return sa.Pair(rng.standard_normal(problem.shape1), rng.standard_normal(problem.shape2))


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


@pytest.mark.parametrize("metric", ["none", "identity"])
def test_corrected_theorem_holds_with_all_rows_in_each_batch(metric):
    """With exact gradients the bound is deterministic: 30 random instances for each x2 step."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, rows=12, d=int(rng.integers(2, 7)))
        f, n = problem.f2, problem.f2.n_terms
        x_star, dual_star, F_star = exact_optimum(problem)
        beta, m = 10 ** rng.uniform(-2, 1), int(rng.integers(3, 12))
        solver = sa.AccSADMM(
            beta=beta, batch_size=n, n_inner=m, sampling="rows", metric=metric, restart="never"
        )
        x0, dual0 = random_start(problem, rng), rng.standard_normal(problem.shape_dual)
        state = solver.start(problem, x0, dual0)
        epochs = int(rng.integers(1, 6))
        for _ in range(epochs):
            every_row_once(solver, problem, state)
        (theta0, theta2), (theta, _) = (Schedule().theta(s, m) for s in (0, epochs - 1))

        def distance(x, F_star=F_star, dual_star=dual_star, problem=problem):
            return problem.objective(x) - F_star + dual_star @ problem.constraint(x)

        W = (1 + (m - 1) * (theta + theta2)) / theta
        r0, r = problem.constraint(x0), problem.constraint(state.output)
        left = W * distance(state.output) + np.sum(
            (beta * W * r - beta * (m - 1) * theta2 / theta0 * r0 + dual0 - dual_star) ** 2
        ) / (2 * beta)
        A2 = problem.A2.tosparse().toarray()
        star1 = A2 @ x_star
        c3 = (1 - theta0 + (m - 1) * theta2) / theta0
        d2 = x0.x2 - x_star
        curvature = solver.weight(problem, solver.runs(problem), theta2)
        if metric == "none":
            block2 = (theta0 * curvature + beta * problem.A2.norm2) * (d2 @ d2)
        else:
            block2 = theta0 * curvature * (d2 @ d2) + beta * np.sum((A2 @ d2) ** 2)
        d1 = x0.x1 - star1
        block1 = beta * problem.A1.norm2 * (d1 @ d1) - beta * (d1 @ d1)
        right = (
            c3 * distance(x0)
            + np.sum((dual0 + beta * (1 - theta0) / theta0 * r0 - dual_star) ** 2) / (2 * beta)
            + block1 / 2
            + block2 / 2
        )
        assert left <= right * (1 + 1e-7) + 1e-9, (seed, left, right)
        assert f.lipschitz_mean <= f.lipschitz_max


def every_row_once(solver, problem, state):
    """Run an epoch whose batches are all rows, each once."""

    class AllRows:
        def integers(self, n, size):
            return np.tile(np.arange(n), (size[0], 1))

    solver.epoch(problem, state, AllRows())


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse_data", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("loss", "outputs"),
    [("logistic", None), ("squared", None), ("squared", 3), ("multinomial", 4)],
)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sampling", ["rows", "blocks"])
def test_compiled_equals_reference(dtype, sparse_data, loss, outputs, intercept, sampling):
    rng = np.random.default_rng(7)
    problem = random_problem(
        rng,
        loss=loss,
        rows=57,
        sparse_data=sparse_data,
        outputs=outputs,
        intercept=intercept,
        weights=intercept,
        dtype=dtype,
    )
    solver = sa.AccSADMM(beta=0.1, batch_size=5, sampling=sampling, restart=2)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    states = []
    for engine in ("reference", "compiled"):
        state = solver.start(problem)
        state.engine = engine
        states.append((state, np.random.default_rng(3)))
    for _ in range(4):
        for state, generator in states:
            solver.epoch(problem, state, generator)
        a, b = states[0][0], states[1][0]
        for field in ("x", "output", "y", "x_tilde"):
            for block in ("x1", "x2"):
                left, right = (getattr(getattr(s, field), block) for s in (a, b))
                assert left.dtype == right.dtype == dtype
                np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)
        np.testing.assert_allclose(a.dual, b.dual, rtol=0, atol=tolerance)


@pytest.mark.compiled
def test_exact_step_compiled_equals_reference():
    rng = np.random.default_rng(1)
    problem = random_problem(rng, loss="logistic", intercept=True)
    solver = sa.AccSADMM(beta=0.1, batch_size=5, metric="identity")
    results = []
    for engine in ("reference", "compiled"):
        state = solver.start(problem)
        state.engine = engine
        generator = np.random.default_rng(3)
        for _ in range(4):
            solver.epoch(problem, state, generator)
        results.append(state)
    np.testing.assert_allclose(results[0].output.x2, results[1].output.x2, rtol=0, atol=1e-9)


def test_paper_variant_has_the_papers_constants():
    rng = np.random.default_rng(0)
    problem = random_problem(rng, loss="logistic", rows=1000)
    solver = sa.AccSADMM.paper(beta=0.1, batch_size=100)
    state = solver.start(problem)
    assert state.n_inner == 20
    assert (solver.step, solver.sampling, solver.metric, solver.restart) == (
        "paper",
        "rows",
        "none",
        "never",
    )
    theta2 = 18 / 38
    assert Schedule().theta(0, 20) == (0.5, pytest.approx(theta2))
    expected = (1 + 1 / (100 * theta2)) * problem.f2.lipschitz_max
    assert solver.weight(problem, solver.runs(problem), theta2) == pytest.approx(expected)


def test_start_is_not_changed_and_odd_parameters_are_refused():
    rng = np.random.default_rng(0)
    problem = random_problem(rng, loss="logistic")
    x0 = random_start(problem, rng)
    kept = x0.copy()
    state = sa.AccSADMM(batch_size=5).start(problem, x0)
    sa.AccSADMM(batch_size=5).epoch(problem, state, rng)
    np.testing.assert_array_equal(x0.x1, kept.x1)
    np.testing.assert_array_equal(x0.x2, kept.x2)
    for bad in (
        {"step": "long"},
        {"metric": "gold"},
        {"restart": 0},
        {"restart": "often"},
        {"L2": 1.0},
        {"curvature": 1.0, "metric": "data"},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sa.AccSADMM(**bad)
    for bad in (
        {"beta": -1.0},
        {"batch_size": 0},
        {"sampling": "odd"},
        {"n_inner": 2},
        {"curvature": 0.0},
    ):
        with pytest.raises(ValueError, match=next(iter(bad))):
            sa.AccSADMM(**bad).start(problem)


@pytest.mark.compiled
def test_wide_indices_of_csr_rows_give_the_same_bits():
    rng = np.random.default_rng(2)
    problem = random_problem(rng, loss="logistic", rows=200, sparse_data=True)
    f = problem.f2
    wide = f.X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    same = sa.Problem.linear(f.loss, wide, f.y, structure=problem.A2, on_structure=problem.h1)
    results = [
        sa.minimize(p, "acc-sadmm", stop=sa.Never(), max_passes=20, engine="compiled")
        for p in (problem, same)
    ]
    assert same.f2.X.indices.dtype == np.int64
    np.testing.assert_array_equal(results[0].x2, results[1].x2)
