"""The benchmark against other packages states the problems that stochadmm solves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import stochadmm as sa

PEERS = Path(__file__).parents[1] / "benchmarks" / "peers"
pytestmark = pytest.mark.skipif(not PEERS.exists(), reason="the benchmark is not part of sdists")
PROBLEMS = (
    "graph-fused-logistic",
    "fused-lasso",
    "overlapping-groups",
    "lasso",
    "sparse-logistic",
    "sparse-low-rank",
)


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    from benchmark_utils import tasks

    return tasks


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_formula_of_the_benchmark_is_the_objective_of_the_problem(tasks, problem):
    task = tasks.generated(problem)
    stated = task.problem()
    w = np.random.default_rng(0).standard_normal(task.shape)
    point = stated.feasible(sa.Pair(stated.zeros().x1, w))
    assert task.value(w) == pytest.approx(stated.objective(point), rel=1e-12)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_gradient_is_that_of_the_mean_loss(tasks, problem):
    task = tasks.generated(problem)
    w, v = np.random.default_rng(0).standard_normal((2, *task.shape))
    value, gradient = task.mean_loss_gradient(w)
    assert value == pytest.approx(task.mean_loss(w), rel=1e-14)
    derivative = (task.mean_loss(w + 1e-5 * v) - task.mean_loss(w - 1e-5 * v)) / 2e-5
    assert np.vdot(gradient, v) == pytest.approx(derivative, rel=1e-6)


def test_a_gap_is_measured_from_a_proved_bound(tasks):
    task = tasks.generated("overlapping-groups")
    optimum = tasks.Optimum.of(task)
    assert 0 <= optimum.gap(optimum.value) < 1e-9
    assert optimum.gap(task.value(np.zeros(task.shape))) > 0.1


@pytest.mark.filterwarnings("default")
def test_every_file_of_the_benchmark_is_understood(tasks):
    pytest.importorskip("benchopt")
    from benchopt.benchmark import Benchmark

    benchmark = Benchmark(PEERS)
    assert benchmark.get_benchmark_objective().name
    assert {"Generated", "Real"} <= set(benchmark.get_dataset_names())
    files = {file.stem for file in (PEERS / "solvers").glob("*.py")}
    solvers = benchmark.get_solvers()
    assert len(solvers) == len(files)
    task = tasks.generated("overlapping-groups")
    for solver in solvers:
        if solver.is_installed():
            skipped, reason = solver.get_instance().skip(task)
            assert not skipped or "cannot express" in reason
