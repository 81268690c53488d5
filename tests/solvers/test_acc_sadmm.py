"""ACC-SADMM: its two engines, its parameters, its restarts."""

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
