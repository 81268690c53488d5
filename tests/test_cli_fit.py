"""``stochadmm fit``, ``predict`` and ``path``: from a table to a model folder and back."""

import csv
import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import stochadmm as sa
from stochadmm.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *arguments, **more: CliRunner().invoke(app, [str(a) for a in arguments], **more)


def write(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def table(tmp_path):
    """A table of three numbers, a text column, labels, counts and a weight."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)).round(6)
    region = rng.choice(["east", "north", "west"], 200)
    score = X @ [1.0, 1.0, 0.0] + (region == "north")
    label = np.where(score + rng.logistic(size=200) > 0, "yes", "no")
    amount = (score + 0.1 * rng.standard_normal(200)).round(6)
    rows = [
        [*map(repr, x.tolist()), r, lab, repr(a), 1 + k % 2]
        for k, (x, r, lab, a) in enumerate(
            zip(X, region, label, amount.tolist(), strict=True)
        )
    ]  # fmt: skip
    write(tmp_path / "train.csv", ["a", "b", "c", "region", "label", "amount", "w"], rows)
    (tmp_path / "edges.csv").write_text("a,b\nregion=east,region=west,0.5\n")
    (tmp_path / "groups.csv").write_text("numbers,a,b,c\nplaces,region=east\nplaces,region=west\n")
    onehot = np.column_stack([region == kind for kind in ("east", "north", "west")])
    return np.hstack([X, onehot]).astype(float), label, amount, 1 + np.arange(200) % 2


LABEL = ["--target", "label", "--drop", "amount,w"]


def test_a_model_is_the_estimator_s_and_predicts_the_same(run, table, tmp_path):
    X, label, *_ = table
    done = run("fit", "train.csv", *LABEL, "--edges", "edges.csv", "--alpha", "0.02")
    assert done.exit_code == 0, done.stderr
    assert "GraphFusedClassifier" in done.stdout and "Wrote model" in done.stdout
    own = sa.GraphFusedClassifier(graph=[(0, 1, 1.0), (3, 5, 0.5)], alpha=0.02).fit(X, label)
    rows = read("model/coefficients.csv")
    assert [row["column"] for row in rows[1:]] == [
        "a", "b", "c", "region=east", "region=north", "region=west",
    ]  # fmt: skip
    np.testing.assert_allclose([float(row["yes"]) for row in rows[1:]], own.coef_[0], rtol=1e-12)
    done = run("predict", "model", "train.csv", "--out", "out.csv")
    assert done.exit_code == 0, done.stderr
    found = read("out.csv")
    assert [row["label"] for row in found] == own.predict(X).tolist()
    np.testing.assert_allclose(
        [float(row["p(yes)"]) for row in found], own.predict_proba(X)[:, 1], rtol=1e-12
    )
    assert "<svg" in (tmp_path / "model" / "report.html").read_text()


def test_json_is_for_programs_and_nothing_else_is_printed(run, table):
    done = run("fit", "train.csv", *LABEL, "--alpha", "0.05", "--json")
    facts = json.loads(done.stdout)
    assert facts["status"] == "CONVERGED" and facts["relative_gap"] <= 1e-4
    assert facts["estimator"] == "SparseLogisticClassifier" and facts["rows"] == 200
    predicted = json.loads(run("predict", "model", "train.csv", "--json").stdout)
    assert set(predicted) == {"label", "p(no)", "p(yes)"} and len(predicted["label"]) == 200
    path = json.loads(run("path", "train.csv", *LABEL, "--alphas", "3", "--json").stdout)
    assert len(path["path"]) == 3 and not any(path["path"][0]["coef"])


def test_weights_and_groups_reach_the_estimator(run, table):
    X, _, amount, weight = table
    done = run(
        "fit", "train.csv", "--target", "amount", "--drop", "label", "--weight", "w", "--groups",
        "groups.csv", "--alpha", "0.05", "--tol", "1e-8", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    groups = {"numbers": [0, 1, 2], "places": [3, 5]}
    own = sa.OverlappingGroupRegressor(groups=groups, alpha=0.05, tol=1e-8, unpenalized=[4])
    own.fit(X, amount, sample_weight=weight)
    with np.load("model/model.npz") as file:
        np.testing.assert_allclose(file["coef"][0], own.coef_, rtol=1e-6, atol=1e-9)


def test_the_strength_is_chosen_by_cross_validation_when_not_given(run, table):
    done = run(
        "fit", "train.csv", "--target", "amount", "--drop", "label,w", "--cv", "3", "--json"
    )
    facts = json.loads(done.stdout)
    assert facts["estimator"] == "LassoRegressorCV" and facts["alpha"] > 0


def test_standard_input_and_output(run, table, tmp_path):
    text = (tmp_path / "train.csv").read_text()
    done = run("fit", "-", *LABEL, "--alpha", "0.05", "--json", input=text)
    assert done.exit_code == 0, done.stderr
    done = run("predict", "model", "-", input=text)
    assert len(list(csv.reader(io.StringIO(done.stdout)))) == 201


def test_a_grid_from_an_npz_matrix(run, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 12))
    y = X.reshape(-1, 3, 4)[:, :2, :2].sum(axis=(1, 2))
    np.savez(tmp_path / "images.npz", X=X, y=y)
    done = run("fit", "images.npz", "--grid", "3x4", "--alpha", "0.05", "--json")
    assert done.exit_code == 0, done.stderr
    own = sa.GraphFusedRegressor(graph=(3, 4), alpha=0.05).fit(X, y)
    with np.load("model/model.npz") as file:
        np.testing.assert_allclose(file["coef"][0], own.coef_, rtol=1e-9, atol=1e-12)


def test_parquet_and_csv_give_the_same_model(run, table, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.read_csv(tmp_path / "train.csv").to_parquet(tmp_path / "train.parquet")
    options = (*LABEL, "--alpha", "0.05", "--json")
    first = json.loads(run("fit", "train.csv", *options).stdout)
    second = json.loads(run("fit", "train.parquet", *options, "--out", "other").stdout)
    for name in ("data", "model", "seconds"):
        first.pop(name), second.pop(name)
    assert first == second


def test_levels_that_the_model_has_not_seen_are_told(run, table, tmp_path):
    run("fit", "train.csv", *LABEL, "--alpha", "0.05")
    write(tmp_path / "new.csv", ["a", "b", "c", "region"], [[0, 0, 0, "south"], [1, 0, 0, "west"]])
    done = run("predict", "model", "new.csv")
    assert done.exit_code == 0 and "1 rows have a level of 'region'" in done.stderr


def _bad(tmp_path, case):
    """Make a bad input; return the arguments and what the one line must say."""
    base = ["fit", "train.csv", *LABEL, "--alpha", "0.05"]
    file = tmp_path / "bad.csv"
    if case == "missing file":
        return ["fit", "no.csv"], ["no.csv is not a file"]
    if case == "wrong column":
        return ["fit", "train.csv", "--target", "labl"], ["no column 'labl'", "did you mean label"]
    if case == "text in a number":
        file.write_text("x,y\n1,2\n2,oops\n3,4\n")
        return ["fit", "bad.csv", "--loss", "squared", "--alpha", "1"], ["'oops'", "row 2"]
    if case == "empty value":
        file.write_text("x,y\n1,2\n,3\n3,4\n")
        return ["fit", "bad.csv", "--loss", "squared", "--alpha", "1"], ["1 empty", "row 2"]
    if case == "empty file":
        file.write_text("")
        return ["fit", "bad.csv"], ["bad.csv is empty"]
    if case == "no rows":
        file.write_text("x,y\n")
        return ["fit", "bad.csv"], ["no rows"]
    if case == "ragged":
        file.write_text("x,y\n1,2\n1\n")
        return ["fit", "bad.csv"], ["line 3", "1 fields, expected 2"]
    if case == "not utf-8":
        file.write_bytes(b"x,y\n\xff\xfe,2\n")
        return ["fit", "bad.csv"], ["not UTF-8"]
    if case == "unknown ending":
        (tmp_path / "bad.xlsx").write_text("x")
        return ["fit", "bad.xlsx"], ["'.xlsx'", ".parquet"]
    if case == "damaged parquet":
        (tmp_path / "bad.parquet").write_text("x")
        return ["fit", "bad.parquet"], ["bad.parquet cannot be read"]
    if case == "two structures":
        return [*base, "--edges", "edges.csv", "--grid", "2x3"], ["exclude each other"]
    if case == "unknown edge":
        (tmp_path / "edges.csv").write_text("a,zz\n")
        return [*base, "--edges", "edges.csv"], ["'zz'", "no column"]
    if case == "bad weight of an edge":
        (tmp_path / "edges.csv").write_text("a,b,much\n")
        return [*base, "--edges", "edges.csv"], ["'much'", "line 1"]
    if case == "bad grid":
        return [*base, "--grid", "8by8"], ["'8by8'", "28x28"]
    if case == "bad loss":
        return [*base, "--loss", "hinge"], ["'hinge'", "squared_hinge"]
    if case == "folder exists":
        (tmp_path / "model").mkdir()
        return base, ["model exists", "--overwrite"]
    if case == "foreign folder":
        (tmp_path / "model").mkdir()
        return [*base, "--overwrite"], ["is no model"]
    if case == "no model":
        return ["predict", "nowhere", "train.csv"], ["nowhere is not a model"]
    raise AssertionError(case)


CASES = [
    "missing file", "wrong column", "text in a number", "empty value", "empty file", "no rows",
    "ragged", "not utf-8", "unknown ending", "damaged parquet", "two structures", "unknown edge",
    "bad weight of an edge", "bad grid", "bad loss", "folder exists", "foreign folder", "no model",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_code_2(run, table, tmp_path, case):
    if case == "damaged parquet":
        pytest.importorskip("pyarrow")
    arguments, parts = _bad(tmp_path, case)
    done = run(*arguments)
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr.startswith("stochadmm: ") and done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr
    assert not (tmp_path / "model" / "model.json").exists()


def test_a_model_of_a_newer_version_is_refused(run, table, tmp_path):
    run("fit", "train.csv", *LABEL, "--alpha", "0.05")
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    done = run("predict", "model", "train.csv")
    assert done.exit_code == 2 and "format 99" in done.stderr and "upgrade" in done.stderr


def test_an_unwritable_place_is_told_before_nothing_is_lost(run, table, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("fit", "train.csv", *LABEL, "--alpha", "0.05", "--out", "file/model")
    assert done.exit_code == 2 and "cannot write" in done.stderr


@pytest.mark.parametrize("command", ["fit", "predict", "path", "info", "demo", "reproduce"])
def test_help_fits_on_a_screen(run, command):
    done = run(command, "--help")
    assert done.exit_code == 0 and done.stdout.count("\n") < 30


def test_version(run):
    assert run("--version").stdout.strip() == f"stochadmm {sa.__version__}"
