"""Files of experiments, names and places: what is wrong is told in one line."""

import socket

import numpy as np
import pytest
from reproduction.tests.tiny import TINY, assert_one_line

import stochadmm_reproduction as experiments
from stochadmm_reproduction import config, memory, problems, rates, recipes
from stochadmm_reproduction.pieces import pieces

pytest.importorskip("yaml")


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
        ("kept: [2, 1]", "kept: [2]", ["keeps [2]", "one share more"]),
        ("seeds: [101, 102]", "seeds: [101]", ["one seed", "two at least"]),
        ("most: 2", "steps: best", ["steps is 'best'", "theory"]),
        ("{name: theory}", "{name: theory, scaling: rows}", ["no scaling 'rows'", "raw"]),
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


def test_wrong_names_and_places_are_one_line(tiny, tmp_path, run, monkeypatch):
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.delenv("STOCHADMM_DATA_URL", raising=False)
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    out = ("--out", tmp_path / "out")
    assert_one_line(run(), "TARGET", "--help")
    assert_one_line(run("nowhere.yaml", *out), "cannot read nowhere.yaml")
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
    assert {"acc-sadmm", "auto"} <= set(experiment.methods)
    assert not set(experiment.seeds) & set(experiment.tuning.seeds)
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
        norms = np.asarray(
            (rows.data.X.power(2) if hasattr(rows.data.X, "power") else rows.data.X**2).sum(axis=1)
        )
        np.testing.assert_allclose(norms, 1.0, rtol=1e-5)


def test_a_variant_is_run_on_its_data_sets_only(tiny):
    only = TINY.replace("factor: 0.5}", "factor: 0.5, datasets: [digits], without: [auto]}")
    tiny.write_text(only)
    assert {piece.variant.name for piece in pieces(config.load(tiny))} == {"theory"}
    tiny.write_text(only.replace("[digits]", "[generated]"))
    work = [piece for piece in pieces(config.load(tiny)) if piece.variant.name == "step-1.5"]
    every = set(config.load(tiny).methods)
    assert {piece.method for piece in work if piece.kind == "runs"} == every - {"auto"}
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


def test_tables_alone_need_no_runs(tmp_path, run, monkeypatch):
    shape = memory.Shape(rows=200, features=150, classes=10, batch=100)
    monkeypatch.setattr(memory, "sizes", lambda quick, label: [shape])
    monkeypatch.setattr(rates, "OPTIONS", rates.RateOptions(first=20, quick=120, points=5))
    result = run("memory", "table1", "--quick", "--out", tmp_path)
    assert result.exit_code == 0
    # a point per row in single precision, half of what the paper counts in double
    assert "19.1 TiB,38.2 TB" in (tmp_path / "tables" / "memory.csv").read_text()
    assert not (tmp_path / "table.csv").exists()


def test_a_download_without_network_is_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    # nothing listens on a port that was free a moment ago
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("STOCHADMM_DATA_URL", f"http://localhost:{port}")
    result = run("fig1", "--datasets", "protein", "--out", tmp_path / "out")
    assert_one_line(result, "protein/", "STOCHADMM_DATA")
