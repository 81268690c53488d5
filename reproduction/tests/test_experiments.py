"""Reproducing experiments: everything that is written, runs that go on after an interrupt."""

import csv
import errno
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from reproduction.tests.tiny import TINY, assert_one_line, rows_of

import stochadmm_reproduction as experiments
from stochadmm.solvers import Workspace
from stochadmm_reproduction import (
    bench,
    claims,
    config,
    methods,
    problems,
    trials,
    tuning,
    verdicts,
)
from stochadmm_reproduction.methods import METHODS, Setting
from stochadmm_reproduction.pieces import pieces
from stochadmm_reproduction.store import Store

pytest.importorskip("yaml")


def test_everything_is_written_and_agrees(tiny, tmp_path, run):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = run(tiny, "--out", out)
    assert result.exit_code == 0, result.output
    assert str(out / "report.html") in result.stdout.replace("\n", "")

    rows = rows_of(out)
    settings = {(r["variant"], r["method"], r["seed"]) for r in rows}
    assert len(settings) == 2 * 8 * 2
    assert {r["point"] for r in rows if r["method"] == "svrg-admm"} == {"last", "ergodic"}
    (optimum,) = (out / "full" / "optima").rglob("*.json")
    assert len(list((out / "full" / "trials").rglob("*.csv"))) == 6
    best = json.loads(optimum.read_text())
    assert best["certified"]
    assert best["gap"] <= 1e-9
    for row in rows:
        gap = float(row["objective"]) - best["value"]
        assert gap == pytest.approx(float(row["gap"]), abs=1e-12)
        assert gap >= -best["gap"] - 1e-12
        assert float(row["feasibility"]) >= 0

    page = (out / "report.html").read_text()
    for claim in json.loads((out / "claims.json").read_text()):
        assert verdicts.Claim(**claim).verdict in (claims.HOLDS, claims.FAILS, claims.OPEN)
        assert f'id="claim-{claim["name"]}"' in page
        assert f'href="#claim-{claim["name"]}"' in page  # one line of the overview
    assert page.count("data:image/png;base64,") == 13
    assert "Not run yet" not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    drawn = {path.name for path in (out / "figures").iterdir() if path.stat().st_size > 1000}
    assert drawn == {"comparisons.png"} | {
        f"fig1-{name}{part}-{axis}.{kind}"
        for name in ("theory", "step-1.5")
        for part in ("", "-others")
        for axis in ("gradients", "reads", "seconds")
        for kind in ("png", "pdf")
    }
    assert {p.stem for p in (out / "tables").iterdir()} == {
        "table2",
        "optima",
        "tuning",
        "cost",
        "comparisons",
    }
    with (out / "tables" / "tuning.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert {r["at the edge"] for r in table} <= {"", "flat", "bound", "yes"}
    assert {r["method"] for r in table} == {
        METHODS[n].label for n in METHODS if METHODS[n].tuned_as == n and n in TINY
    }


def test_finished_runs_are_skipped(tiny, tmp_path, monkeypatch, no_figures):
    experiments.reproduce([str(tiny)], tmp_path / "out")
    before = rows_of(tmp_path / "out")

    def never(*arguments):
        raise AssertionError("a finished piece was done again")

    for name in ("run", "tune"):
        monkeypatch.setattr(bench, name, never)
    monkeypatch.setattr(problems, "sample", never)
    experiments.reproduce([str(tiny)], tmp_path / "out")
    assert rows_of(tmp_path / "out") == before


def test_another_machine_goes_on_from_the_archive(tiny, tmp_path, monkeypatch, run, no_figures):
    first, kept, pieces_ = tmp_path / "first", tmp_path / "second", tmp_path / "pieces"
    archive = ("--archive", pieces_)
    tuned = run(tiny, "--stages", "optima,references,tuning", "--out", first, *archive)
    assert tuned.exit_code == 0, tuned.output
    assert "new pieces in" in tuned.stderr and "is not there yet" in tuned.stderr
    before = {path.name: path.read_bytes() for path in pieces_.iterdir()}
    assert {name.split(".")[0] for name in before} == {
        f"full-fig1-{kind}" for kind in ("optima", "references", "tuning", "trials")
    }
    monkeypatch.setattr(bench, "tune", lambda *arguments: pytest.fail("tuned again"))
    assert run(tiny, "--out", kept, *archive).exit_code == 0
    assert not (kept / "full" / "tuning").exists()
    assert {path.name for path in pieces_.iterdir()} == {
        *before,
        "full-fig1-runs.jsonl.xz",
        "full-fig1-sizes.jsonl.xz",
    }
    assert {name: (pieces_ / name).read_bytes() for name in before} == before

    never = lambda *arguments: pytest.fail("a finished piece was done again")  # noqa: E731
    monkeypatch.setattr(bench, "run", never)
    monkeypatch.setattr(problems, "sample", never)
    third = tmp_path / "third"
    assert run(tiny, "--stages", "report", "--out", third, *archive).exit_code == 0
    assert rows_of(third) == rows_of(kept)
    (pieces_ / "full-fig1-runs.jsonl.xz").write_bytes(b"nothing")
    assert_one_line(run(tiny, "--out", third, *archive), "holds no finished pieces", "remove it")
    nowhere = run(tiny, "--stages", "report", "--out", third, "--archive", tmp_path / "pices")
    assert_one_line(nowhere, "there is no archive", "pices", "docs/reproduction/pieces")
    assert not (tmp_path / "pices").exists()


def test_the_first_report_stands_until_all_rivals_are_tuned_anew(tiny, tmp_path, no_figures):
    out = tmp_path / "out"

    def made(more, **options):
        tiny.write_text(TINY.replace("most: 2", f"most: 2, {more}"))
        page = experiments.reproduce([str(tiny)], out, archive=tmp_path / "pieces", **options)
        with (out / "tables" / "tuning.csv").open() as stream:
            aims = {row["tuned for"] for row in csv.DictReader(stream)}
        return {tuple(row.values()) for row in rows_of(out)}, aims, page.read_text()

    first, aims, _ = made("aim: end")
    assert aims == {"the end, 200 rows"}
    kept, aims, page = made("whole: 400", stages=["report"])
    assert (kept, aims) == (first, {"the end, 200 rows"})
    assert "the end, 200 rows: fig1, theory: generated; fig1, step-1.5: generated" in page
    assert "Not run yet" not in page
    some = {"methods": ["acc-sadmm"], "stages": ["tuning", "runs", "report"]}
    kept, aims, _ = made("whole: 400", **some)
    assert (kept, aims) == (first, {"the end, 200 rows"})
    renewed, aims, page = made("whole: 400")
    assert aims == {"the curve, all rows"}
    assert "the curve, all rows: fig1, theory: generated" in page
    untuned = {row for row in first if "auto" in row}
    assert untuned <= renewed != first
    # both are kept: the former form of the experiment finds its own again
    assert made("aim: end", stages=["report"])[:2] == (first, {"the end, 200 rows"})


def test_a_search_that_was_cut_goes_on_from_the_archive(tiny, tmp_path, monkeypatch):
    out, archive = tmp_path / "out", tmp_path / "pieces"
    options = {"stages": ["optima", "references", "tuning"], "methods": ["acc-sadmm"]}
    done, whole = [], tuning.trial

    def cut(*arguments):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(tuning, "trial", cut)
    with pytest.raises(KeyboardInterrupt):
        experiments.reproduce([str(tiny)], out, archive=archive, **options)
    options["stages"] = ["references"]
    experiments.reproduce([str(tiny)], out, archive=archive, **options)
    options["stages"] = ["tuning"]
    monkeypatch.setattr(tuning, "trial", whole)
    experiments.reproduce([str(tiny)], tmp_path / "other", archive=archive, **options)
    (again,) = (tmp_path / "other" / "full" / "trials").rglob("*.csv")
    (before,) = (out / "full" / "trials").rglob("*.csv")
    assert again.read_text().startswith(before.read_text())
    assert len(trials.read(again)) > 4


def test_the_progress_adds_up(tiny, tmp_path, no_figures):
    class Watch:
        def begin(self, total):
            self.total, self.done = total, 0.0

        def advance(self, cost, doing):
            self.done += cost

        def say(self, line):
            pass

    for _ in range(2):
        watch = Watch()
        experiments.reproduce([str(tiny)], tmp_path / "out", watch=watch)
        assert watch.done == pytest.approx(watch.total)


def test_an_interrupt_loses_one_run_at_most(tiny, tmp_path, monkeypatch, no_figures):
    done, whole = [], bench.run

    def interrupted(piece, *arguments):
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(piece.key)
        return whole(piece, *arguments)

    monkeypatch.setattr(bench, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.reproduce([str(tiny)], tmp_path / "out")
    kept = sorted((tmp_path / "out" / "full" / "runs").rglob("*.json"))
    assert len(kept) == 5

    again = []

    def counted(piece, *arguments):
        again.append(piece.key)
        return whole(piece, *arguments)

    monkeypatch.setattr(bench, "run", counted)
    experiments.reproduce([str(tiny)], tmp_path / "out")
    assert not set(done) & set(again)
    assert len(done) + len(again) == 2 * 8 * 2


def test_an_interrupted_optimum_is_not_kept(tiny, tmp_path, monkeypatch, no_figures):
    whole = problems.minimize

    def interrupted(*arguments, **options):
        def stop(*event):
            raise KeyboardInterrupt

        return whole(*arguments, **(options | {"callback": stop}))

    monkeypatch.setattr(problems, "minimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.reproduce([str(tiny)], tmp_path / "out")
    assert not list((tmp_path / "out" / "full").glob("optima/**/*.json"))


def test_a_killed_process_loses_one_run_at_most(tiny, tmp_path, monkeypatch, no_figures):
    out = tmp_path / "out"
    command = f"import sys; sys.path[:] = {sys.path!r}; "
    command += "from stochadmm_reproduction.__main__ import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, str(tiny), "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runs = out / "full" / "runs"
    try:
        end = time.monotonic() + 200  # compiling comes first
        while len(list(runs.rglob("*.json"))) < 3 and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    kept = {path: path.stat().st_mtime_ns for path in runs.rglob("*.json")}
    assert 3 <= len(kept) < 2 * 8 * 2

    again, whole = [], bench.run

    def counted(piece, *arguments):
        again.append(piece.key)
        return whole(piece, *arguments)

    monkeypatch.setattr(bench, "run", counted)
    experiments.reproduce([str(tiny)], out)
    assert len(kept) + len(again) == 2 * 8 * 2
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items())


def test_an_interrupt_at_the_command_line_says_how_to_go_on(tiny, tmp_path, run, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "run", stop)
    result = run(tiny, "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr


def test_stages_are_done_apart_and_the_report_shows_what_there_is(tiny, tmp_path, run):
    out = ("--out", tmp_path / "out")
    assert run(tiny, "--stages", "report", *out).exit_code == 0
    assert_one_line(run(tiny, "--stages", "runs", *out), "not tuned yet", "stage tuning")
    report = tmp_path / "out" / "report.html"
    report.unlink()
    done = run(tiny, "--stages", "optima,references,tuning", "--methods", "acc-sadmm", *out)
    assert done.exit_code == 0
    assert "kept in" in done.stdout
    assert not report.exists()
    assert not (tmp_path / "out" / "full" / "runs").exists()
    assert run(tiny, "--stages", "runs,report", "--methods", "acc-sadmm", *out).exit_code == 0
    assert {r["method"] for r in rows_of(tmp_path / "out")} == {"acc-sadmm"}
    assert "<li>fig1, step-1.5: 14 more runs of generated</li>" in report.read_text()
    assert_one_line(run(tiny, "--stages", "tunning", *out), "no stage 'tunning'", "tuning")
    assert_one_line(run(tiny, "--methods", "acc", *out), "no method 'acc'", "acc-sadmm")


def test_methods_outside_the_paper_have_fewer_candidates_and_sets_their_own_rows(tiny, tmp_path):
    text = TINY.replace("most: 2", "most: 6, others: 2").replace(
        "rows: 400", "rows: 400, tuning_rows: 100"
    )
    tiny.write_text(text)
    out = tmp_path / "out"
    experiments.reproduce(
        [str(tiny)],
        out,
        methods=["opg-admm", "acc-sadmm", "sdca-admm"],
        stages=["references", "tuning"],
    )
    (reference,) = (out / "full" / "references").rglob("*.json")
    assert json.loads(reference.read_text())["n"] == 100
    whole = {
        path.stem: len({t.candidate for t in trials.read(path) if t.share == 1.0})
        for path in (out / "full" / "trials").rglob("*.csv")
    }
    assert whole["sdca-admm"] < 6 <= whole["acc-sadmm"]


def test_a_warm_start_that_diverges_is_a_bad_candidate_and_a_diverged_run(tiny):
    tiny.write_text(TINY.replace("problem: fused", "problem: lasso"))
    experiment = config.load(tiny)
    spec, variant = experiment.datasets[0], experiment.variants[0]
    sample = problems.sample(spec, quick=True)
    problem = problems.build(experiment, spec, variant, sample)
    wild = Setting(warm=1e-30, first=1e-30)
    found = tuning.trial("svrg-admm", problem, spec.batch, wild, 12.0, 0)
    assert found[0] == np.inf
    piece = next(p for p in pieces(experiment) if (p.kind, p.method) == ("runs", "svrg-admm"))
    task = methods.Task(problem, spec.batch, 12.0, wild, Workspace())
    held = problems.held_out(experiment, sample)
    best = problems.Optimum(0.0, 1e-9, 0.0, True)
    records, ended = bench.run(piece, task, held, best, lambda passes: None)
    assert ended["status"] == "diverged"
    assert [r["passes"] for r in records] == [0.0]


@pytest.mark.parametrize(("passes", "status"), [(24.0, "passes"), (6.0, "diverged")])
def test_a_run_may_rise_at_first_but_has_to_come_down_by_the_half_of_its_passes(
    tiny, passes, status
):
    tiny.write_text(TINY.replace("passes: 12", f"passes: {passes:g}"))
    experiment = config.load(tiny)
    spec, variant = experiment.datasets[0], experiment.variants[0]
    sample = problems.sample(spec, quick=True)
    problem = problems.build(experiment, spec, variant, sample)
    piece = next(p for p in pieces(experiment) if (p.kind, p.method) == ("runs", "sdca-admm"))
    task = methods.Task(problem, spec.batch, passes, Setting(first=1e3), Workspace())
    best = problems.Optimum(0.0, 1e-9, 0.0, True)
    held = problems.held_out(experiment, sample)
    records, ended = bench.run(piece, task, held, best, lambda passes: None)
    objectives = [r["objective"] for r in records]
    assert objectives[1] > 100 * objectives[0]
    assert ended["status"] == status
    if status == "passes":
        assert objectives[-1] < objectives[0]
    else:
        assert objectives[-1] > 100 * objectives[0]
        assert passes / 2 <= records[-1]["passes"] < passes


def test_a_full_disk_is_one_line(tiny, tmp_path, run, monkeypatch):
    def full(self, trial):
        raise OSError(errno.ENOSPC, "No space left on device", "trials.csv")

    monkeypatch.setattr(trials.TrialLog, "_append", full)
    result = run(tiny, "--out", tmp_path / "out")
    assert_one_line(result, "no space is left for trials.csv", "the same command goes on")


def test_a_changed_setting_is_run_again(tiny, tmp_path, no_figures):
    out = tmp_path / "out"
    experiments.reproduce([str(tiny)], out)
    tiny.write_text(TINY.replace("passes: 12", "passes: 17"))
    experiments.reproduce([str(tiny)], out)
    last = [r for r in rows_of(out) if r["method"] == "acc-sadmm" and r["seed"] == "0"]
    assert max(float(r["passes"]) for r in last) >= 17


def test_a_half_written_file_counts_as_absent(tmp_path):
    store = Store(tmp_path)
    store.put(("a", "b"), "x", {"number": 1})
    assert store.get(("a", "b"), "x") == {"fingerprint": "x", "number": 1}
    assert store.get(("a", "b"), "y") is None
    store.path(("a", "b")).write_text('{"fingerprint": "x", "num')
    assert store.get(("a", "b"), "x") is None
