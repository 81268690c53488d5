"""Runs at a large shape: nothing per row, saved after every epoch, memory measured."""

import csv
import json

import numpy as np
import pytest
from reproduction.tests.tiny import called

from stochadmm_reproduction import claims, problems, runs
from stochadmm_reproduction.__main__ import main

pytest.importorskip("yaml")

LARGE = """
name: imagenet
title: Large
problem: multitask
mu: 1.0e-3
passes: 1
seconds: 60
seeds: [0]
methods: [stoc-admm, opt-sadmm, svrg-admm, acc-sadmm]
datasets:
  - {name: features-small, batch: 50, rows: 600, columns: 24, outputs: 8, epochs: 3}
  - {name: features, batch: 50, rows: 800, columns: 32, outputs: 8, epochs: 3, cut: 2,
     measured: 500, reference: 3, light: true, tuned_on: features-small}
variants: [{name: tuned}]
tuning: {points: 2, kept: [1, 1], seeds: [101, 102], rows: 300, most: 1}
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "large.yaml").write_text(LARGE)

    def run(out, *more):
        words = [str(tmp_path / "large.yaml"), "--out", str(tmp_path / out)]
        stages = () if "--stages" in more else ("--stages", ",".join(STAGES))
        return called(main, *words, *stages, *more)

    return run


STAGES = ("optima", "references", "tuning", "runs")


def contents(folder):
    return {
        path.stem: json.loads(path.read_text())
        for path in (folder / "full" / "runs" / "imagenet" / "features").rglob("*.json")
    }


def test_a_run_that_was_killed_goes_on_to_the_same_numbers(command, tmp_path, monkeypatch):
    assert command("whole").exit_code == 0
    whole = contents(tmp_path / "whole")
    assert set(whole) == {"stoc-admm-0", "opt-sadmm-0", "svrg-admm-0", "acc-sadmm-0"}

    save, saves = runs.Run._save, []

    def killed(self, state, rng):
        save(self, state, rng)
        if self.saved is None:  # short epochs: such a run is made again from its start
            return
        saves.append((self.piece.method, state.n_epochs))
        if len(saves) % 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs.Run, "_save", killed)
    codes = []
    while not codes or (codes[-1] == 130 and len(codes) < 20):
        codes.append(command("killed").exit_code)
    assert codes[-1] == 0 and len(codes) > 3
    assert len(saves) == len(set(saves))  # no epoch that was saved is made again
    again = contents(tmp_path / "killed")
    for name, content in whole.items():
        for column in ("objective", "test_error", "passes", "epoch", "point"):
            assert again[name]["records"][column] == content["records"][column]
    assert not list((tmp_path / "killed" / "unfinished").rglob("*.*"))


def test_runs_end_after_their_epochs_and_tell_their_memory(command, tmp_path):
    assert command("out").exit_code == 0
    found = contents(tmp_path / "out")
    one = 4 * 32 * 8  # a matrix of one number per feature and class, in single precision
    for content in found.values():
        assert max(content["records"]["epoch"]) == 2
        assert 6 * one < content["peak"] < 2**20  # most of it are objects of Python here
    assert found["acc-sadmm-0"]["records"]["passes"][-1] == 10.0
    assert found["svrg-admm-0"]["records"]["passes"][-1] == 13.0
    (kept,) = (tmp_path / "out" / "full" / "optima" / "imagenet" / "features").rglob("*.json")
    best = json.loads(kept.read_text())
    assert not best["certified"]
    assert 0 < best["gap"] < best["value"]
    assert command("out", "--stages", "report").exit_code == 0
    with (tmp_path / "out" / "tables" / "peaks.csv").open() as stream:
        table = {row["method"]: row for row in csv.DictReader(stream)}
    assert set(table) == {"STOC-ADMM", "OPT-SADMM", "SVRG-ADMM", "ACC-SADMM"}
    assert table["ACC-SADMM"]["peak"] == claims.readable(found["acc-sadmm-0"]["peak"])
    # the published run of the method that is the reference is its beginning
    long = best["long"]
    same = found[f"{long['method']}-0"]["records"]
    assert max(long["records"]["epoch"]) == 3
    assert long["records"]["objective"][: len(same["objective"])] == same["objective"]
    assert best["value"] == min(long["records"]["objective"])


def test_runs_do_not_wait_for_a_reference_that_is_a_long_run(command, tmp_path):
    before = ("--stages", "references,tuning", "--datasets", "features-small")
    assert command("out", *before).exit_code == 0
    assert command("out", "--stages", "runs", "--methods", "opt-sadmm").exit_code == 0
    assert set(contents(tmp_path / "out")) == {"opt-sadmm-0"}
    assert not list((tmp_path / "out" / "full" / "optima").rglob("features/*.json"))
    early = contents(tmp_path / "out")["opt-sadmm-0"]
    assert command("out").exit_code == 0
    assert contents(tmp_path / "out")["opt-sadmm-0"] == early


def test_a_reference_may_be_longer_than_the_runs(command, tmp_path):
    longer = LARGE.replace("cut: 2", "cut: 3").replace("reference: 3", "reference: 5")
    (tmp_path / "large.yaml").write_text(longer)
    assert command("out").exit_code == 0
    (kept,) = (tmp_path / "out" / "full" / "optima" / "imagenet" / "features").rglob("*.json")
    best = json.loads(kept.read_text())
    assert max(best["long"]["records"]["epoch"]) == 5
    for content in contents(tmp_path / "out").values():
        assert max(content["records"]["epoch"]) == 3


def test_an_optimum_may_be_certified_as_well_as_a_limit_allows(command, tmp_path):
    limited = LARGE.replace("measured: 500, reference: 3", "certified_in: 5")
    (tmp_path / "large.yaml").write_text(limited)
    assert command("out").exit_code == 0
    (kept,) = (tmp_path / "out" / "full" / "optima" / "imagenet" / "features").rglob("*.json")
    best = json.loads(kept.read_text())
    assert best["certified"]
    assert 0 <= best["gap"] < best["value"]
    found = contents(tmp_path / "out")
    assert set(found) == {"stoc-admm-0", "opt-sadmm-0", "svrg-admm-0", "acc-sadmm-0"}
    for content in found.values():
        assert max(content["records"]["epoch"]) == 2  # not ended by the certificate
        assert min(content["records"]["objective"]) >= best["value"] - best["gap"]


def test_generated_data_is_deleted_on_request(command, tmp_path):
    assert command("out", "--remove-data").exit_code == 0
    assert list((tmp_path / "cache" / "generated").iterdir()) == []
    assert command("out").exit_code == 0  # everything is finished


def test_a_lower_bound_is_below_the_optimum_and_near_it_there():
    import stochadmm as sa

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 10)) / 3, rng.integers(4, size=200)
    problem = sa.Problem.linear(
        sa.Multinomial(4), X, y, on_structure=sa.Nuclear(0.01), on_coefficients=sa.L1(0.003)
    )
    best = sa.minimize(problem, stop=sa.Gap(1e-9), max_passes=1e4)
    assert best.status.name == "CONVERGED"
    at_best = problems.lower_bound(problem, best.coef)
    assert 0.9 * best.objective < at_best <= best.objective  # the split is not the best one
    for scale in (0.0, 0.5, 2.0):
        assert problems.lower_bound(problem, scale * best.coef) <= best.objective
    part = problems.measured(problem, 50)
    assert part.f2.value(best.coef) == pytest.approx(
        sa.FiniteSum(sa.Multinomial(4), X[:50], y[:50]).value(best.coef)
    )
