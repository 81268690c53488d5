"""Data of one's own: files that an experiment names, and what is wrong with them in one line."""

import csv
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from reproduction.tests.tiny import assert_one_line
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import stochadmm as sa
from stochadmm_reproduction import config, own, problems

yaml = pytest.importorskip("yaml")
OWN = """
problem: fused
mu: 1.0e-3
passes: 10
seeds: [0, 1]
methods: [svrg-admm, acc-sadmm]
datasets:
  - {name: mine, path: rows.libsvm, batch: 20, edges: edges.csv}
tuning: {points: 2, kept: [1, 1], seeds: [101, 102], most: 1}
"""


@pytest.fixture(scope="module")
def data():
    return sa.datasets.make_graph_fused(250, 6, n_levels=3, random_state=0)


@pytest.fixture
def folder(tmp_path, data):
    dump_svmlight_file(data.X, data.y, str(tmp_path / "rows.libsvm"))
    np.savez(tmp_path / "rows.npz", X=data.X, labels=data.y)
    names = [f"c{k}" for k in range(6)]
    with (tmp_path / "rows.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow([*names, "bought"])
        table.writerows(
            [*x, "yes" if t > 0 else "no"] for x, t in zip(data.X, data.y, strict=True)
        )
    (tmp_path / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in data.graph))
    (tmp_path / "named.csv").write_text("".join(f"c{a},c{b}\n" for a, b in data.graph))
    (tmp_path / "mine.yaml").write_text(OWN)
    return tmp_path


def spec_of(folder, **fields):
    spec = config.DataSpec("mine", 20, **fields)
    own.check(spec, "mine.yaml")
    return spec


def test_every_format_gives_the_same_rows_targets_and_edges(folder, data):
    specs = [
        spec_of(folder, path=f"{folder}/rows.libsvm", edges=f"{folder}/edges.csv"),
        spec_of(folder, path=f"{folder}/rows.npz", target="labels", edges=f"{folder}/edges.csv"),
        spec_of(folder, path=f"{folder}/rows.csv", target="bought", edges=f"{folder}/named.csv"),
    ]
    for spec in specs:
        found = own.load(spec, "fused")
        X = found.X.toarray() if sparse.issparse(found.X) else found.X
        np.testing.assert_allclose(X, data.X, rtol=1e-12)
        np.testing.assert_array_equal(found.y, data.y)
        np.testing.assert_array_equal(found.graph, data.graph)
    classes = own.load(specs[2], "multitask").y
    assert classes.dtype == np.int64 and set(classes) == {0, 1}
    np.testing.assert_array_equal(own.load(specs[0], "lasso").y, data.y)


def test_chains_grids_and_scalings(folder, data):
    spec = spec_of(folder, path=f"{folder}/rows.libsvm", graph="chain", scaling="none")
    rows = problems.sample(spec, False, problem="fused")
    assert rows.data.X.shape[0] == 200 and rows.data.X_test.shape[0] == 50
    norms = np.linalg.norm(rows.data.X, axis=1)
    assert norms.std() > 0.1  # as they are in the file
    assert problems.differences(spec, rows.data).shape == (5, 6)
    unit = problems.sample(dataclasses.replace(spec, scaling="raw"), False, problem="fused")
    np.testing.assert_allclose(np.linalg.norm(unit.data.X, axis=1), 1.0)
    grid = dataclasses.replace(spec, graph="2x3")
    assert problems.differences(grid, own.load(grid, "fused")).shape == (7, 6)


def test_an_experiment_on_a_file_is_run_and_judged(folder, run, no_figures):
    out = folder / "out"
    result = run(folder / "mine.yaml", "--out", out)
    assert result.exit_code == 0, result.stderr
    claims = json.loads((out / "claims.json").read_text())
    assert [c["name"] for c in claims[:2]] == ["mine-tuned", "mine-tuned-end"]
    assert {e["against"] for e in claims[0]["evidence"]} == {"SVRG-ADMM"}
    optima = (out / "tables" / "optima.csv").read_text()
    assert "mine" in optima
    # another file under the same name is another problem: nothing of the first is used
    other = sa.datasets.make_graph_fused(250, 6, n_levels=3, random_state=1)
    piece = next((out / "full" / "optima").rglob("*.json"))
    before = json.loads(piece.read_text())
    dump_svmlight_file(other.X, other.y, str(folder / "rows.libsvm"))
    assert run(folder / "mine.yaml", "--stages", "optima", "--out", out).exit_code == 0
    assert json.loads(piece.read_text())["value"] != before["value"]


def test_the_example_of_the_documentation_runs(folder, run, no_figures):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "compare-methods.md"
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    experiment = yaml.safe_load(text)
    experiment |= {
        "passes": 6,
        "seeds": [0, 1],
        "tuning": {"points": 1, "kept": [1, 1], "most": 1},
    }
    (folder / "rows.libsvm").rename(folder / "mine.libsvm")
    (folder / "mine.yaml").write_text(yaml.safe_dump(experiment))
    result = run(folder / "mine.yaml", "--out", folder / "out")
    assert result.exit_code == 0, result.stderr
    assert (folder / "out" / "report.html").stat().st_size > 1000


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("path: rows.libsvm", "path: raws.libsvm", ["there is no file", "raws.libsvm"]),
        ("path: rows.libsvm, ", "", ["no data set 'mine'", "have a path"]),
        ("path: rows.libsvm", "path: rows.csv", ["mine needs a target"]),
        ("path: rows.libsvm", "path: rows.csv, target: bougt", ["'bougt'", "mean bought"]),
        ("path: rows.libsvm", "path: rows.npz", ["no array 'y'", "labels"]),
        ("path: rows.libsvm", "path: rows.csv, format: libsvm", ["cannot be read as libsvm"]),
        ("path: rows.libsvm", "path: edges.csv, format: odd", ["'odd'", "libsvm, csv"]),
        ("path: rows.libsvm", "path: mine.yaml", ["not told by its ending", "format:"]),
        ("path: rows.libsvm", "path: rows.csv, target: c0", ["'bought'", "not of numbers"]),
        ("batch: 20", "batch: 20, target: y", ["leave out target"]),
        ("batch: 20", "batch: 20, graph: chain", ["edges and a graph"]),
        ("edges: edges.csv", "graph: given", ["names no edges"]),
        ("name: mine, path: rows.libsvm", "name: protein, target: y", ["protein has no path"]),
        ("edges: edges.csv", "edges: edgs.csv", ["edges: there is no file"]),
        ("edges: edges.csv", "edges: named.csv", ["named.csv, line 1", "columns are numbers"]),
        ("edges: edges.csv", "graph: 3x3", ["'3x3'", "6 columns"]),
        ("edges: edges.csv", "graph: ring", ["'ring'", "'chain'"]),
        ("edges: edges.csv", "scaling: rows", ["'rows'", "columns, raw, none"]),
        ("acc-sadmm]", "acc-sdmm]", ["'acc-sdmm'", "did you mean acc-sadmm"]),
        ("problem: fused", "problem: overlap", ["needs groups"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(folder, run, old, new, parts):
    text = OWN.replace(old, new)
    assert text != OWN
    (folder / "mine.yaml").write_text(text)
    result = run(folder / "mine.yaml", "--stages", "sizes", "--out", folder / "out")
    assert_one_line(result, *parts)
