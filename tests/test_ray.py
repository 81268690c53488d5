"""A Ray cluster as an engine: the same bits, workers that die, errors, a cluster that is gone."""

import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

import stochadmm as sa

ray = pytest.importorskip("ray")


@dataclass(frozen=True)
class Numbered:
    """A shard that is only a number."""

    first: int
    n_rows: int = 1


def plus(a, b):
    return a + b


@pytest.fixture(scope="module")
def connected():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def problem(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.sign(X[:, :2].sum(axis=1) + rng.standard_normal(4000)))
    source = sa.open(tmp_path / "X.npy", target=tmp_path / "y.npy")
    return sa.Problem.linear(
        sa.Logistic(), source, structure=sa.Differences(6), on_structure=sa.L1(1e-3)
    )


def test_without_a_cluster_the_error_says_what_to_do(problem):
    with pytest.raises(sa.EngineLost, match=r"ray\.init"):
        sa.minimize(problem, cluster=sa.cluster.Ray())


def test_ray_gives_the_bits_of_this_process(connected, problem):
    here = sa.minimize(problem, stop=sa.Gap(1e-8))
    there = sa.minimize(problem, stop=sa.Gap(1e-8), cluster=sa.cluster.Ray())
    assert there.converged and there.coef.tobytes() == here.coef.tobytes()
    assert (there.gap, there.n_passes) == (here.gap, here.n_passes)


def test_a_worker_that_dies_costs_no_number(connected, tmp_path):
    flag = tmp_path / "died"

    def dies_once(shard):
        if shard.first == 3 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        return shard.first

    shards = [Numbered(k) for k in range(10)]
    assert sa.cluster.Ray().map_reduce(shards, dies_once, plus) == 45 and flag.exists()


def test_errors_of_the_data_are_told_and_not_repeated(connected, tmp_path):
    def unreadable(shard):
        with open(tmp_path / "tries", "a") as file:
            file.write(".")
        raise sa.DataError("row 7 of this very file")

    with pytest.raises(sa.DataError, match="row 7"):
        sa.cluster.Ray().map_reduce([Numbered(0)], unreadable, plus)
    assert (tmp_path / "tries").read_text() == "."


def test_nothing_waits_for_ever(connected):
    def slow(shard):
        time.sleep(60)

    began = time.monotonic()
    with pytest.raises(sa.EngineLost, match="no task"):
        sa.cluster.Ray(timeout=1.0).map_reduce([Numbered(0), Numbered(1)], slow, plus)
    assert time.monotonic() - began < 30
