"""Reproducing experiments: files, runs, resuming, claims, the report."""

import csv
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from stochadmm import experiments
from stochadmm.cli.main import app
from stochadmm.experiments import (
    bench,
    claims,
    config,
    methods,
    problems,
    recipes,
    report,
    tables,
    tuning,
    verdicts,
)
from stochadmm.experiments.curves import Curve, Curves, advantage, speed_up
from stochadmm.experiments.methods import METHODS, Setting
from stochadmm.experiments.pieces import pieces
from stochadmm.experiments.store import Store

pytest.importorskip("yaml")

TINY = """
name: fig1
title: Tiny
problem: fused
mu: 1.0e-3
passes: 12
seconds: 5
seeds: [0, 1]
methods: [stoc-admm, svrg-admm, sag-admm, opt-sadmm, acc-sadmm, acc-sadmm-reset, sdca-admm, auto]
datasets:
  - {name: generated, batch: 50, rows: 400, graph: given}
variants:
  - {name: theory}
  - {name: larger, factor: 0.5}
tuning: {passes: 4, factors: [1.0], betas: [10.0], rhos: [1.1], more_betas: [0.1]}
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(report, "_figures", lambda *arguments: [])


def rows_of(folder):
    with (folder / "table.csv").open() as stream:
        return list(csv.DictReader(stream))


# ---------------------------------------------------------------- from one end to the other


def test_everything_is_written_and_agrees(tiny, tmp_path, run):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    result = run(tiny, "memory", "--out", out)
    assert result.exit_code == 0, result.output
    assert str(out / "report.html") in result.stdout.replace("\n", "")

    rows = rows_of(out)
    settings = {(r["variant"], r["method"], r["seed"]) for r in rows}
    assert len(settings) == 2 * 8 * 2
    assert {r["point"] for r in rows if r["method"] == "svrg-admm"} == {"last", "ergodic"}
    (optimum,) = (out / "full" / "optima").rglob("*.json")
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
    assert page.count("data:image/png;base64,") == 4
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for name in ("theory", "larger"):
        for axis in ("passes", "seconds"):
            for kind in ("png", "svg"):
                assert (out / "figures" / f"fig1-{name}-{axis}.{kind}").stat().st_size > 1000
    assert {p.stem for p in (out / "tables").iterdir()} == {"table2", "memory", "optima", "tuning"}


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
    command = "from stochadmm.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "reproduce", str(tiny), "--out", str(out)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
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


# ---------------------------------------------------------------- files and names


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("passes: 12", "pases: 12", ["there is no field 'pases'", "did you mean passes"]),
        ("passes: 12", "", ["the field 'passes' is missing"]),
        ("passes: 12", "passes: many", ["passes is 'many'", "expected float"]),
        ("passes: 12", "passes: 0", ["passes is 0", "> 0"]),
        ("mu: 1.0e-3", "mu: 1e-3", ["mu is '1e-3'", "write 1.0e-5"]),
        ("problem: fused", "problem: fusd", ["there is no problem 'fusd'", "fused"]),
        ("opt-sadmm", "opt-admm", ["there is no method 'opt-admm'", "opt-sadmm"]),
        ("name: generated", "name: generatd", ["there is no data set 'generatd'", "generated"]),
        ("seeds: [0, 1]", "seeds: []", ["seeds is []", "at least one"]),
        ("rhos: [1.1]", "rhos: [1.1, 2.0]", ["2 rhos and 1 more_betas", "same number"]),
        ("title: Tiny", "title: [", ["is not valid YAML"]),
        ("graph: given", "graph: none", ["graph is 'none'", "glasso"]),
        ("title: Tiny", "title: " + "[" * 5000 + "]" * 5000, ["nested too deeply"]),
        ("title: Tiny", "title: " + "{a: " * 5000 + "}" * 5000, ["nested too deeply"]),
        ("title: Tiny", "title: " + "[" * 40 + "]" * 40, ["title is [[", "expected str"]),
        ("title: Tiny", "title: &t [*t]", ["title is [", "expected str"]),
        ("title: Tiny", "title: 2026-13-41", ["is not valid YAML"]),
        ("title: Tiny", "title: !!python/object:os.system {}", ["is not valid YAML"]),
        (
            "title: Tiny",
            "\n".join(
                [
                    "a0: &a0 [x, x]",
                    *(f"a{k}: &a{k} [*a{k - 1}, *a{k - 1}]" for k in range(1, 40)),
                    "title: *a39",
                ]
            ),
            ["there is no field 'a0'"],
        ),
        (
            "seeds: [0, 1]",
            "seeds: [" + "[" * 30 + "]" * 30 + "]",
            ["seeds[0] is [[", "expected int"],
        ),
    ],
)
def test_errors_of_a_file_name_the_place(tiny, tmp_path, run, old, new, parts):
    tiny.write_text(TINY.replace(old, new, 1))
    assert_one_line(run(tiny, "--out", tmp_path / "out"), *parts)


def test_files_that_are_no_text_are_one_line(tiny, tmp_path, run):
    tiny.write_bytes(b"\xff\xfe\x00title")
    assert_one_line(run(tiny, "--out", tmp_path / "out"), "UTF-8")
    tiny.write_text(TINY + "words: &w [[a, a], [a, a]]\nquick: [" + "*w, " * 100 + "*w]\n")
    assert_one_line(run(tiny, "--quick", "--out", tmp_path / "out"), "expected a section")


def assert_one_line(result, *parts):
    assert result.exit_code == 2, result.output
    assert result.stderr.strip().count("\n") == 0
    assert len(result.stderr) < 600
    for part in parts:
        assert part in result.stderr


def test_wrong_names_and_places_are_one_line(tiny, tmp_path, run, monkeypatch):
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.delenv("STOCHADMM_DATA_URL", raising=False)
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    out = ("--out", tmp_path / "out")
    assert_one_line(run("fig9", *out), "'fig9'", "fig1")
    assert_one_line(run("fig1", "--datasets", "protien", *out), "'protien'", "protein")
    assert_one_line(run("fig1", "--datasets", "protein", *out), "bio_train", "STOCHADMM_DATA")
    (tmp_path / "file").touch()
    assert_one_line(run(tiny, "--out", tmp_path / "file" / "out"), "cannot write to", "--out")


@pytest.mark.parametrize("name", experiments.names())
@pytest.mark.parametrize("quick", [False, True])
def test_shipped_experiments_are_valid(name, quick):
    experiment = experiments.load(name, quick=quick)
    assert experiment.name == name
    assert len(experiment.seeds) == (2 if quick else 5)
    assert {"acc-sadmm", "stoc-admm", "svrg-admm", "auto"} <= set(experiment.methods)
    work = list(pieces(experiment))
    assert len({piece.key for piece in work if piece.kind == "runs"}) == len(
        [piece for piece in work if piece.kind == "runs"]
    )


def test_missing_files_have_a_stand_in_that_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path))
    for name, recipe in recipes.RECIPES.items():
        spec = config.DataSpec(name, 50, rows=150)
        assert recipe.here or recipe.stand_in is not None
        rows = problems.sample(spec, quick=True)
        assert bool(rows.note) == (not recipe.here)
        assert rows.data.X.shape[0] <= 150
        norms = np.asarray((rows.data.X.power(2) if hasattr(rows.data.X, "power")
                            else rows.data.X**2).sum(axis=1))  # fmt: skip
        np.testing.assert_allclose(norms, 1.0, rtol=1e-5)


def test_a_variant_is_run_on_its_data_sets_only(tiny):
    only = TINY.replace("factor: 0.5}", "factor: 0.5, datasets: [digits], without: [auto]}")
    tiny.write_text(only)
    assert {piece.variant.name for piece in pieces(config.load(tiny))} == {"theory"}
    tiny.write_text(only.replace("[digits]", "[generated]"))
    work = [piece for piece in pieces(config.load(tiny)) if piece.variant.name == "larger"]
    assert {piece.method for piece in work if piece.kind == "runs"} == {*METHODS} - {"auto"}
    tiny.write_text(only.replace("[digits]", "[digit]"))
    with pytest.raises(ValueError, match="did you mean digits"):
        config.load(tiny)


def test_sets_are_cut_to_sizes_that_can_be_certified():
    digits = problems.sample(config.DataSpec("digits", 50, columns=16, outputs=3), quick=True)
    assert digits.data.X.shape[1] == 16
    assert digits.n_outputs == 3
    with pytest.raises(ValueError, match="cannot be averaged to 5"):
        problems.sample(config.DataSpec("digits", 50, columns=25), quick=True)
    made = problems.sample(config.DataSpec("many-classes", 50, 200, 12, 6), quick=True)
    assert (made.data.X.shape, made.n_outputs) == ((200, 12), 6)


def test_tables_alone_need_no_runs(tmp_path, run):
    result = run("memory", "table1", "--out", tmp_path)
    assert result.exit_code == 0
    assert "38.19 TiB" in (tmp_path / "tables" / "memory.csv").read_text()
    assert not (tmp_path / "table.csv").exists()


# ---------------------------------------------------------------- methods and tuning


@pytest.fixture(scope="module")
def problem():
    experiment = config._build(config.Experiment, _plain(TINY), "tiny")
    rows = problems.sample(experiment.datasets[0], quick=True)
    return problems.build(experiment, experiment.datasets[0], experiment.variants[0], rows)


def _plain(text):
    import yaml

    return yaml.safe_load(text)


@pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.tuned_as == name])
def test_a_factor_scales_the_curvature_of_theory(problem, name):
    _, theory = methods.start(name, problem, 50, Setting())
    _, longer = methods.start(name, problem, 50, Setting(factor=0.25))
    assert longer.curvature == pytest.approx(0.25 * theory.curvature)
    assert theory.curvature >= (1 - 1e-9) * problem.f2.lipschitz_max
    assert theory.n_inner == methods.n_inner(400, 50)


def test_every_method_is_tuned_by_as_many_trials(problem, monkeypatch):
    calls = []

    def trial(name, problem, batch, setting, passes, workspace):
        calls.append((name, setting))
        return abs(np.log(setting.beta / 10)) + abs(setting.factor - 0.5), passes

    monkeypatch.setattr(tuning, "trial", trial)
    plan = config.Tuning(5, [1.0, 0.5], [10.0, 100.0], [1.1], [1000.0])
    for name in ("acc-sadmm", "svrg-admm"):
        calls.clear()
        tuned = tuning.tune(name, problem, 50, plan)
        assert len(calls) == tuned.n_trials == 5
        assert (tuned.setting.factor, tuned.setting.beta) == (0.5, 10.0)
        assert tuning.Tuned.from_plain(json.loads(json.dumps(tuned.plain()))) == tuned


def test_a_diverging_trial_is_never_chosen(problem):
    value, _ = tuning.trial("svrg-admm", problem, 50, Setting(factor=1e-9, beta=1e-9), 10)
    assert value == np.inf


# ---------------------------------------------------------------- claims


def curve(rate, floor=1e-12, scale=1.0, status="passes", start=1.0):
    passes = np.arange(0.0, 42.0, 2.0)
    gap = np.maximum(start * 10.0 ** (-rate * passes), floor)
    return Curve(passes, passes / 10, gap, gap, gap, floor, scale, status)


def made(**rates):
    """Return figure-1 curves on one data set: two seeds per method."""
    curves = Curves()
    for name, rate in rates.items():
        method, point = name.replace("_", "-"), "last"
        if method.endswith("-mean"):
            method, point = method.removesuffix("-mean"), "ergodic"
        key = ("fig1", "theory", "toy", method, point)
        curves.runs[key] = {0: curve(rate), 1: curve(1.01 * rate)}
    return curves


def decided(curves):
    return {c.name: c.verdict for c in claims.decide_all(curves, {})}


def test_an_advantage_is_counted_in_powers_of_ten():
    fast, slow = curve(0.2), curve(0.1)
    assert advantage(fast, slow) == pytest.approx(0.1 * 21, rel=0.01)
    assert advantage(slow, fast) == pytest.approx(-advantage(fast, slow))
    assert advantage(fast, slow, at_end=True) == pytest.approx(0.1 * 40)
    assert advantage(fast, fast) == 0
    diverged = Curve(*(np.array(a) for a in ([0, 2], [0, 1], [1, np.inf], [0, 0], [0, 0])),
                     1e-12, 1.0, "diverged")  # fmt: skip
    assert advantage(fast, diverged) > 1


def test_a_speed_up_is_the_ratio_of_the_passes_to_the_same_gap():
    fast, slow = curve(0.2), curve(0.1)
    # from 10^-0.4 on: the slower one needs twice as long, or to the end where it does not arrive
    assert 1.3 < speed_up(fast, slow) < 2.0
    assert speed_up(slow, fast) == pytest.approx(1 / speed_up(fast, slow))
    assert speed_up(fast, fast) == pytest.approx(1.0)
    shallow = curve(0.2, floor=10**-4.0), curve(0.1, floor=10**-4.0)
    assert speed_up(*shallow) == pytest.approx(2.0, rel=0.01)
    lost = curve(0.1, status="diverged")
    assert speed_up(fast, lost) > 1 > speed_up(lost, fast)
    assert np.isnan(speed_up(lost, lost))
    assert np.isnan(speed_up(curve(0.2, floor=np.inf), slow))


def test_measures_that_differ_decide_nothing():
    passes = np.arange(0.0, 42.0, 2.0)

    def drawn(powers):
        gap = 10.0 ** -np.interp(passes, *powers)
        return {s: Curve(passes, passes, gap, gap, gap, 1e-12, 1.0) for s in (0, 1)}

    # slower to every gap that both reach, and far below in the end
    late, early = drawn(([0, 20, 40], [0, 1, 9])), drawn(([0, 2, 4, 40], [0, 0.5, 3, 3.1]))
    found = verdicts.compare(late, early, "toy", "early")
    assert {found.by_gap, found.by_speed} != {claims.HOLDS}
    assert found.verdict == verdicts.agreed(found.by_gap, found.by_speed)
    assert verdicts.compare(late, early, "toy", "early", at_end=True).verdict == claims.HOLDS


def test_gaps_below_a_certificate_are_equal():
    a, b = curve(0.2, floor=0.9), curve(0.1, floor=0.9)
    assert abs(advantage(a, b)) < np.log10(verdicts.MARGIN.ratio)
    assert not np.isfinite(advantage(curve(0.2, floor=np.inf), curve(0.1, floor=np.inf)))


def test_a_faster_method_is_told_from_a_slower_one():
    rivals = {name.replace("-", "_"): 0.1 for name in methods.RIVALS}
    assert decided(made(acc_sadmm=0.2, **rivals))["lasso"] == claims.HOLDS
    assert decided(made(acc_sadmm=0.05, **rivals))["lasso"] == claims.FAILS
    assert decided(made(acc_sadmm=0.1, **rivals))["lasso"] == claims.OPEN
    assert decided(made(acc_sadmm=0.2))["lasso"] == claims.OPEN
    assert decided(made(acc_sadmm=0.2, **rivals))["lasso-end"] == claims.HOLDS
    # faster than three of four is not faster than all
    assert decided(made(acc_sadmm=0.2, **(rivals | {"svrg_admm": 0.4})))["lasso"] == claims.FAILS


def test_some_and_all_are_told_apart():
    assert verdicts.everywhere(["holds", "does not hold"]) == claims.FAILS
    assert verdicts.somewhere(["holds", "does not hold"]) == claims.HOLDS
    assert verdicts.everywhere([]) == verdicts.somewhere([]) == claims.OPEN
    found = decided(made(stoc_admm=0.2, svrg_admm=0.1, svrg_admm_mean=0.05))
    assert found["slow-svrg"] == claims.HOLDS
    assert found["non-ergodic"] == claims.HOLDS
    assert decided(made(stoc_admm=0.1, svrg_admm=0.2))["slow-svrg"] == claims.FAILS


def test_a_growing_penalty_does_no_harm_when_it_is_as_fast():
    assert decided(made(acc_sadmm=0.1, acc_sadmm_reset=0.1))["growth"] == claims.HOLDS
    assert decided(made(acc_sadmm=0.1, acc_sadmm_reset=0.3))["growth"] == claims.FAILS


def test_where_auto_stands_is_told_by_time():
    assert decided(made(auto=1.0, acc_sadmm=0.2))["auto"] == claims.HOLDS
    assert decided(made(auto=0.01, acc_sadmm=0.2))["auto"] == claims.FAILS


def test_memory_is_compared_with_the_stated_figures():
    claim = next(c for c in claims.decide_all(Curves(), tables.memory()) if c.name == "memory")
    found = {e.where: e.verdict for e in claim.evidence}
    assert found["SAG-ADMM"] == found["SDCA-ADMM"] == found["SVRG-ADMM"] == claims.HOLDS
    assert found["ACC-SADMM"] == claims.FAILS
