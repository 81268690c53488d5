"""Snapshots that keep nothing per row give the iterates of those that do."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from tests.variants import by_variant

import stochadmm as sa
from stochadmm.solvers import choose_engine

N, D, C = 230, 13, 5
METHODS = {
    "svrg-admm": {},
    "asvrg-admm": {},
    "acc-sadmm": {"metric": "none"},
    "vr-pddy": {},
    "acc-sadmm data": {"metric": "data"},
    "acc-sadmm hessian": {"metric": "hessian", "restart": 2},
}
ENGINES = ["reference", pytest.param("compiled", marks=pytest.mark.compiled)]


def problem(storage, outputs, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.5)
    X = sparse.csr_array(X.astype(dtype)) if storage == "csr" else X.astype(dtype)
    if outputs:
        loss, y = sa.Multinomial(C), rng.integers(C, size=N)
    else:
        loss, y = sa.Logistic(), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    return sa.Problem.linear(
        loss,
        X,
        y,
        structure=sa.Differences(D),
        on_structure=sa.L1(0.01),
        intercept=True,
        sample_weight=rng.random(N),
    )


def light(p):
    return sa.Problem(p.f2.with_memory(0), h1=p.h1, h2=p.h2, f1=p.f1, A1=p.A1, A2=p.A2, b=p.b)


def iterates(p, name, options, engine, epochs=4):
    solver = sa.solvers.get(name.split()[0])(batch_size=20, **options)
    state, rng, found = solver.start(p), np.random.default_rng(1), []
    state.engine = engine
    for _ in range(epochs):
        solver.epoch(p, state, rng)
        found += [state.x.x1, state.x.x2, state.output.x2, state.dual]
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("outputs", [False, True], ids=["one output", "several"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("name", METHODS)
def test_iterates_do_not_depend_on_what_a_snapshot_keeps(name, storage, outputs, engine):
    p = problem(storage, outputs)
    kept = iterates(p, name, METHODS[name], engine)
    again = iterates(light(p), name, METHODS[name], engine)
    for a, b in zip(kept, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.compiled
@pytest.mark.parametrize("outputs", [False, True], ids=["one output", "several"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("name", ["svrg-admm", "asvrg-admm", "acc-sadmm"])
def test_compiled_loops_that_recompute_are_the_reference_loops(name, storage, outputs):
    p, options = light(problem(storage, outputs)), METHODS[name]
    reference = iterates(p, name, options, "reference")
    for found in by_variant(lambda: iterates(p, name, options, "compiled")):
        for a, b in zip(reference, found, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_a_light_anchor_has_the_value_and_gradient_and_nothing_per_row():
    f2 = problem("dense", True).f2
    x = np.random.default_rng(2).standard_normal(f2.shape)
    kept, light_one = f2.anchor(x), f2.with_memory(0).anchor(x)
    assert kept.has_rows and not light_one.has_rows
    assert light_one.predictions.size == light_one.derivative.size == 0
    assert light_one.value == kept.value
    np.testing.assert_array_equal(light_one.gradient, kept.gradient)


def test_memory_decides_what_a_snapshot_keeps():
    f2 = problem("dense", True).f2
    table = 2 * N * C * 8
    assert f2.keeps_rows and f2.with_memory(table).keeps_rows
    assert not f2.with_memory(table - 1).keeps_rows


@pytest.mark.parametrize("shape", [(3000, 400, 100, 600), (1500, 800, 60, 200)], ids=str)
@pytest.mark.parametrize(
    ("solver", "arrays"),
    [
        (sa.SVRGADMM(n_inner=3), 18),
        (sa.SVRGADMM(n_inner=3, returns="ergodic"), 21),
        (sa.solvers.ASVRGADMM(n_inner=3), 18),
        (sa.AccSADMM(n_inner=3, metric="none", restart=2), 26),
    ],
    ids=["svrg-admm", "svrg-admm, ergodic", "asvrg-admm", "acc-sadmm"],
)
def test_memory_is_a_number_of_matrices_and_the_batch(solver, arrays, shape):
    n, d, outputs, batch = shape
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(np.float32)
    f2 = sa.FiniteSum(sa.Multinomial(outputs), X, rng.integers(outputs, size=n)).with_memory(0)
    p = sa.Problem(f2, h1=sa.L1(1e-4), h2=sa.L1(1e-4), A1=sa.Identity(d, -1.0), A2=sa.Identity(d))
    solver = dataclasses.replace(solver, batch_size=batch)
    state = solver.start(p)
    tracemalloc.start()
    state = state.copy()  # what the start finds out about the rows is not the method's
    for _ in range(4):
        solver.epoch(p, state, rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(peak / (4 * d * outputs), peak / 1e6, 4 * d * outputs / 1e6)
    assert peak <= 4 * (arrays * d * outputs + batch * (d + 4 * outputs))


def test_many_outputs_within_a_budget_run_on_the_loop_that_holds_less():
    p = problem("dense", True)
    assert choose_engine(light(p), "auto") == "reference"
    assert choose_engine(light(problem("dense", False)), "auto") == choose_engine(p, "auto")


def test_minimize_takes_a_budget_for_rows_in_memory():
    rng = np.random.default_rng(0)
    n = 300_000  # predictions and derivatives take 4.8 MB, the least budget is 4 MiB
    X, y = rng.standard_normal((n, 2)), rng.standard_normal(n)
    p = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.L1(0.01))
    method = sa.SVRGADMM(batch_size=5000)
    seen = [
        sa.minimize(p, method, max_passes=6, random_state=0, memory=memory).coef
        for memory in (None, "1GB", "4MiB")
    ]
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_allclose(seen[0], seen[2], rtol=0, atol=1e-10)
