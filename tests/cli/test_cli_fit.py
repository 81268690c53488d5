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
        for k, (x, r, lab, a) in enumerate(zip(X, region, label, amount.tolist(), strict=True))
    ]
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
        "a",
        "b",
        "c",
        "region=east",
        "region=north",
        "region=west",
    ]
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
        "fit",
        "train.csv",
        "--target",
        "amount",
        "--drop",
        "label",
        "--weight",
        "w",
        "--groups",
        "groups.csv",
        "--alpha",
        "0.05",
        "--tol",
        "1e-8",
        "--json",
    )
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
    if case == "names of rows":
        lines = "".join(f"id{k},{k % 7},{k % 5}\n" for k in range(60))
        file.write_text("name,x,y\n" + lines)
        return ["fit", "bad.csv", "--loss", "squared"], [
            "'name'",
            "60 different texts in 60 rows",
            "--drop",
        ]
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
    "missing file",
    "wrong column",
    "text in a number",
    "empty value",
    "empty file",
    "no rows",
    "ragged",
    "not utf-8",
    "unknown ending",
    "damaged parquet",
    "names of rows",
    "two structures",
    "unknown edge",
    "bad weight of an edge",
    "bad grid",
    "bad loss",
    "folder exists",
    "foreign folder",
    "no model",
]


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


def test_a_model_whose_plain_values_were_changed_is_refused(run, table, tmp_path):
    run("fit", "train.csv", *LABEL, "--alpha", "0.05")
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace('"region"', '"label"'))
    done = run("predict", "model", "train.csv")
    assert done.exit_code == 2 and "model.json was changed since" in done.stderr


def test_names_are_texts_to_spreadsheets_and_terminals(run, tmp_path):
    rng = np.random.default_rng(0)
    names = ["=1+1", "@SUM(A1)", "-x", "-5", "a\x1b[2J"]
    rows = rng.standard_normal((40, 6)).tolist()
    write(tmp_path / "train.csv", [*names, "y"], rows)
    done = run("fit", "train.csv", "--target", "y", "--alpha", "0.01")
    assert done.exit_code == 0, done.stderr
    found = [row["column"] for row in read("model/coefficients.csv")][1:]
    assert found == ["'=1+1", "'@SUM(A1)", "'-x", "-5", "a[2J"]
    assert "\x1b" not in (tmp_path / "model" / "report.html").read_text()
    assert run("predict", "model", "train.csv").exit_code == 0


def test_an_unwritable_place_is_told_before_nothing_is_lost(run, table, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("fit", "train.csv", *LABEL, "--alpha", "0.05", "--out", "file/model")
    assert done.exit_code == 2 and "cannot write" in done.stderr


def test_version(run):
    assert run("--version").stdout.strip() == f"stochadmm {sa.__version__}"


# ---------------------------------------------------------------- every command, every bad input


COMMANDS = {
    "fit": ["fit", "{file}", "--target", "label", "--drop", "amount,w", "--alpha", "0.05"],
    "path": ["path", "{file}", "--target", "label", "--drop", "amount,w", "--alphas", "3"],
    "bench": [
        "bench",
        "{file}",
        "--target",
        "label",
        "--drop",
        "amount,w",
        "--methods",
        "auto",
    ],
    "predict": ["predict", "model", "{file}"],
    "info": ["info", "{file}"],
}
"""Commands that read a table, with the arguments that make them succeed on train.csv."""


def arguments(command, file, *more):
    return [part.format(file=file) for part in COMMANDS[command]] + list(more)


def one_line(done, *parts):
    assert done.exit_code == 2 and done.stdout == "", done.output
    assert done.stderr.startswith("stochadmm: ") and done.stderr.count("\n") == 1
    for part in parts:
        assert part in done.stderr


@pytest.fixture
def fitted(run, table):
    done = run("fit", "train.csv", *LABEL, "--alpha", "0.05")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("command", ["path", "bench", "predict", "info"])
def test_commands_that_read_a_table_succeed_and_speak_json(run, fitted, command):
    assert run(*arguments(command, "train.csv")).exit_code == 0
    done = run(*arguments(command, "train.csv", "--json"))
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_missing_file(run, fitted, command):
    more = ["--out", "other"] if command == "fit" else []
    one_line(run(*arguments(command, "no.csv", *more)), "no.csv is not a file")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_an_empty_file(run, fitted, tmp_path, command):
    (tmp_path / "bad.csv").write_text("")
    more = ["--out", "other"] if command == "fit" else []
    one_line(run(*arguments(command, "bad.csv", *more)), "bad.csv is empty")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_file_that_is_not_utf_8(run, fitted, tmp_path, command):
    (tmp_path / "bad.csv").write_bytes("a,b,größe\n1,2,3\n".encode("latin-1"))
    more = ["--out", "other"] if command == "fit" else []
    one_line(run(*arguments(command, "bad.csv", *more)), "not UTF-8", "iconv")


@pytest.mark.parametrize("command", ["fit", "path", "bench", "predict"])
def test_a_wrong_column(run, fitted, tmp_path, command):
    text = (tmp_path / "train.csv").read_text()
    wrong = (
        text.replace("label", "lable", 1) if command != "predict" else text.replace("b", "bb", 1)
    )
    (tmp_path / "bad.csv").write_text(wrong)
    more = ["--out", "other"] if command == "fit" else []
    parts = ("'b'", "bb") if command == "predict" else ("'label'", "did you mean lable")
    one_line(run(*arguments(command, "bad.csv", *more)), *parts)


@pytest.mark.parametrize("command", ["fit", "path", "bench", "predict"])
def test_text_in_a_numeric_column(run, table, tmp_path, command):
    options = ["--target", "amount", "--drop", "label,w"]
    assert run("fit", "train.csv", *options, "--alpha", "0.05").exit_code == 0
    lines = (tmp_path / "train.csv").read_text().splitlines()
    cells = lines[5].split(",")
    place = 0 if command == "predict" else 5
    cells[place] = "much"
    (tmp_path / "bad.csv").write_text("\n".join([*lines[:5], ",".join(cells), *lines[6:]]) + "\n")
    if command == "predict":
        done = run("predict", "model", "bad.csv")
    else:
        more = ["--out", "other", "--alpha", "0.05"] if command == "fit" else []
        done = run(command, "bad.csv", *options, "--loss", "squared", *more)
    one_line(done, "'much'", "row 5", "needs numbers")


def test_info_says_which_columns_are_text(run, table):
    facts = json.loads(run("info", "train.csv", "--json").stdout)
    assert facts["file"] == {"path": "train.csv", "rows": 200, "columns": 7}
    assert facts["columns"]["region"] == "text, 3 levels: east, north, west"
    assert facts["columns"]["w"] == "number, 1 to 2"


def test_info_of_a_model(run, fitted):
    facts = json.loads(run("info", "model", "--json").stdout)["model"]
    assert facts["estimator"] == "SparseLogisticClassifier" and facts["loss"] == "logistic"
    assert "SparseLogisticClassifier" in run("info", "model").stdout


@pytest.mark.parametrize("command", [["predict", "model", "train.csv"], ["info", "model"]])
def test_a_model_of_a_newer_version_is_refused_everywhere(run, fitted, tmp_path, command):
    path = tmp_path / "model" / "model.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    one_line(run(*command), "format 99", "upgrade")


@pytest.mark.parametrize("command", ["path", "bench", "predict"])
def test_an_output_that_cannot_be_written(run, fitted, tmp_path, command):
    (tmp_path / "file").write_text("")
    one_line(run(*arguments(command, "train.csv", "--out", "file/out.csv")), "cannot write")


def test_bench_names_every_method_and_writes_csv(run, table):
    options = ["--drop", "amount,w", "--methods", "auto,admm", "--out", "bench.csv", "--json"]
    done = run("bench", "train.csv", "--target", "label", *options)
    found = json.loads(done.stdout)
    assert [row["method"] for row in found["methods"]] == ["auto", "admm"]
    values = [row["objective"] for row in found["methods"]]
    assert values[0] == pytest.approx(values[1], rel=1e-3)
    assert [row["method"] for row in read("bench.csv")] == ["auto", "admm"]
    one_line(run("bench", "train.csv", "--target", "label", "--methods", "admn"), "admn", "admm")


def test_bench_has_a_problem_of_its_own(run):
    done = run("bench", "--methods", "auto")
    assert done.exit_code == 0 and "GraphFusedClassifier" in done.stdout, done.stderr


def test_a_masked_grid_comes_from_a_file(run, tmp_path):
    rng = np.random.default_rng(1)
    mask = np.ones((3, 4), dtype=bool)
    mask[0, 0] = mask[2, 3] = False
    X = rng.standard_normal((150, 10))
    np.savez(tmp_path / "images.npz", X=X, y=X[:, :4].sum(axis=1))
    np.save(tmp_path / "mask.npy", mask)
    done = run("fit", "images.npz", "--grid", "mask.npy", "--alpha", "0.05", "--json")
    assert done.exit_code == 0, done.stderr
    own = sa.GraphFusedRegressor(graph=sa.Grid(mask.shape, mask=mask), alpha=0.05)
    own.fit(X, X[:, :4].sum(axis=1))
    with np.load("model/model.npz") as file:
        np.testing.assert_allclose(file["coef"][0], own.coef_, rtol=1e-9, atol=1e-12)
    assert "<svg" in (tmp_path / "model" / "report.html").read_text()


# ---------------------------------------------------------------- larger than the memory limit


@pytest.fixture
def numeric(table, tmp_path):
    """The table with labels 0 and 1, its rows forty times, so that it is beyond 4 MiB."""
    text = (tmp_path / "train.csv").read_text().replace(",yes,", ",1,").replace(",no,", ",0,")
    head, _, rows = text.partition("\n")
    (tmp_path / "big.csv").write_text(head + "\n" + 40 * rows)
    assert 12 * (tmp_path / "big.csv").stat().st_size > 1 << 22


@pytest.mark.parametrize(
    ("structure", "heading"),
    [("edges", "from,to"), ("edges", "from,to,weight"), ("groups", "name,of")],
)
def test_a_heading_of_edges_or_groups_is_left_out(run, table, tmp_path, structure, heading):
    file = tmp_path / f"{structure}.csv"
    fit = ("fit", "train.csv", *LABEL, f"--{structure}", file.name, "--alpha", "0.02")
    assert run(*fit, "--out", "plain").exit_code == 0
    plain = file.read_text()
    file.write_text(f"{heading}\n{plain}")
    done = run(*fit, "--out", "headed")
    assert done.exit_code == 0 and "is taken as a heading" in done.stderr
    same_models(tmp_path / "plain", tmp_path / "headed")
    file.write_text(f"{heading}\n{plain}p,q\n")  # two wrong lines are mistakes, not a heading
    assert run(*fit, "--out", "wrong").exit_code != 0


def same_models(first, second):
    with np.load(f"{first}/model.npz") as a, np.load(f"{second}/model.npz") as b:
        for name in ("coef", "intercept"):
            np.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("structure", [[], ["--edges", "edges.csv"], ["--groups", "groups.csv"]])
@pytest.mark.parametrize("target", ["label", "amount"])
def test_a_file_beyond_the_memory_limit_is_streamed(run, numeric, structure, target):
    pytest.importorskip("pyarrow")
    other = {"label": "amount", "amount": "label"}[target]
    loss = {"label": "logistic", "amount": "squared"}[target]
    options = ["big.csv", "--target", target, "--drop", f"{other},w", "--loss", loss, "--alpha"]
    options += ["0.02", "--tol", "1e-8", *structure]
    done = run("fit", *options, "--memory", "4MiB", "--out", "streamed", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["rows"] == 8000 and facts["relative_gap"] <= 1e-8
    assert facts["notes"][0] == "rows were read block by block"
    assert run("fit", *options, "--out", "whole").exit_code == 0
    same_models("streamed", "whole")
    predicted = run("predict", "streamed", "big.csv")
    assert predicted.exit_code == 0 and predicted.stdout.count("\n") == 8001


@pytest.mark.parametrize("more", [["--alpha", "0.02"], ["--cv", "2"]])
def test_texts_and_more_than_two_are_labels_of_streamed_rows_too(run, table, tmp_path, more):
    pytest.importorskip("pyarrow")
    lines = (tmp_path / "train.csv").read_text().splitlines()
    kinds = ["lower", "middle", "up"]  # of different lengths, none of the first in some blocks
    amount = np.array(
        [float(line.split(",")[lines[0].split(",").index("amount")]) for line in lines[1:]]
    )
    classes = np.digitize(amount, np.quantile(amount, [0.3, 0.7]))
    order = np.argsort(-classes, kind="stable")
    text = [f"{lines[1 + k]},{kinds[classes[k]]}" for k in order]
    (tmp_path / "t.csv").write_text("\n".join([lines[0] + ",kind", *text]) + "\n")
    options = ["--target", "kind", "--drop", "label,amount,w", "--tol", "1e-8", *more]
    for data, out in (("t.csv", "whole"), ("t[.]csv", "streamed")):
        done = run("fit", data, *options, "--out", out, "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["status"] == "CONVERGED"
    for data in ("t.csv", "t[.]csv"):
        options = ["--target", "kind", "--drop", "label,amount", "--offset", "w", "--alpha", "1"]
        one_line(run("fit", data, *options, "--out", "no"), "which 3 classes cannot share")
    shown = json.loads(run("predict", "streamed", "t.csv", "--json").stdout)
    assert set(shown["kind"]) <= set(kinds) and list(shown)[1:] == [f"p({kind})" for kind in kinds]
    if "--alpha" in more:  # rows are dealt to other folds in a search
        same_models("streamed", "whole")


def test_streamed_columns_are_scaled_targets_several_and_the_loss_chosen(run, numeric):
    pytest.importorskip("pyarrow")
    for options in (
        ["--target", "amount", "--standardize"],
        ["--target", "label"],
        ["--target", "amount,w"],
    ):
        taken = options[1].split(",")
        drop = ",".join({"amount", "label", "w"} - set(taken))
        done = ["fit", "big.csv", *options, "--drop", drop, "--alpha", "0.02", "--tol", "1e-8"]
        for memory, out in (("4MiB", "streamed"), ("half", "whole")):
            found = run(*done, "--memory", memory, "--out", out, "--overwrite")
            assert found.exit_code == 0, found.stderr
        same_models("streamed", "whole")
        assert (
            read("streamed/coefficients.csv")[0].keys() == read("whole/coefficients.csv")[0].keys()
        )


def test_a_path_of_streamed_rows_is_that_in_memory(run, table, tmp_path):
    pytest.importorskip("pyarrow")
    options = ["--target", "amount", "--drop", "label,w", "--alphas", "4", "--edges", "edges.csv"]
    whole, streamed = (
        run("path", data, *options, "--json") for data in ("train.csv", "train[.]csv")
    )
    assert streamed.exit_code == 0, streamed.stderr
    assert streamed.stderr == "Note: rows were read block by block\n"
    a, b = (json.loads(done.stdout) for done in (whole, streamed))
    assert a["columns"] == b["columns"]
    for one, other in zip(a["path"], b["path"], strict=True):
        np.testing.assert_allclose(one["alpha"], other["alpha"], rtol=1e-6)
        np.testing.assert_allclose(one["coef"], other["coef"], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--target", "lab"], ["'lab'", "label"]),
        (["--target", "amount"], ["100 different values"]),
        (["--target", "label", "--graph", "glasso"], ["glasso", "--memory"]),
        (["--target", "label", "--memory", "much"], ["'much'", "2GB"]),
    ],
)
def test_what_cannot_be_streamed_is_one_line(run, numeric, options, parts):
    pytest.importorskip("pyarrow")
    base = ["fit", "big.csv", "--loss", "logistic", "--alpha", "0.1", "--memory", "4MiB"]
    one_line(run(*base, *options), *parts)


def test_predictions_come_part_by_part_and_are_the_same(run, fitted, tmp_path, monkeypatch):
    whole = run("predict", "model", "train.csv").stdout
    from stochadmm.cli import _tables, predict

    monkeypatch.setattr(
        predict,
        "read_chunks",
        lambda path, expected, dialect: _tables.read_chunks(path, 7, expected, dialect),
    )
    assert run("predict", "model", "train.csv").stdout == whole


@pytest.mark.parametrize(
    "command",
    [
        "fit",
        "predict",
        "path",
        "bench",
        "info",
        "demo",
    ],
)
def test_help_of_every_command_fits_on_a_screen(run, command):
    done = run(*command.split(), "--help")
    assert done.exit_code == 0
    most = {"fit": 47, "path": 36}  # they have most options, one line each
    assert done.stdout.count("\n") < most.get(command, 30)


# ---------------------------------------------------------------- sources that are no single table


def test_npy_files_a_folder_of_csr_arrays_and_a_pattern_are_streamed(run, tmp_path):
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 4)) * (rng.random((300, 4)) < 0.5)
    y = X @ [1.0, 1.0, 0.0, -1.0] + 0.1 * rng.standard_normal(300)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "target.npy", y)
    folder = tmp_path / "csr"
    folder.mkdir()
    rows, columns = np.nonzero(X)
    np.save(folder / "data.npy", X[rows, columns])
    np.save(folder / "indices.npy", columns.astype(np.int32))
    np.save(folder / "indptr.npy", np.append(0, np.bincount(rows, minlength=300).cumsum()))
    np.save(folder / "y.npy", y)
    cells = np.column_stack([X, y])
    for k in range(2):
        part = cells[150 * k : 150 * (k + 1)].tolist()
        write(tmp_path / f"part{k}.csv", ["a", "b", "c", "d", "y"], part)
    own = sa.FusedLassoRegressor(alpha=0.02, tol=1e-8).fit(X, y)
    more = ["--graph", "chain", "--loss", "squared", "--alpha", "0.02", "--tol", "1e-8", "--json"]
    cases = {"X.npy": ["--target", "target.npy"], "csr": [], "part*.csv": []}
    for k, (data, target) in enumerate(cases.items()):
        done = run("fit", data, *target, *more, "--out", f"model{k}")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"] == 300
        with np.load(f"model{k}/model.npz") as file:
            np.testing.assert_allclose(file["coef"][0], own.coef_, rtol=1e-5, atol=1e-6)
        predicted = json.loads(run("predict", f"model{k}", data, "--json").stdout)
        np.testing.assert_allclose(next(iter(predicted.values())), own.predict(X), atol=1e-5)


def test_a_pattern_without_files_and_a_missing_target_are_one_line(run, tmp_path):
    one_line(run("fit", "no*.csv", "--alpha", "1", "--loss", "squared"), "no file matches no*.csv")
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    one_line(run("fit", "X.npy", "--loss", "squared"), "target is missing", ".npy file")


@pytest.mark.parametrize("command", ["fit", "path", "bench"])
def test_a_text_among_numbers_is_no_category(run, table, tmp_path, command):
    lines = (tmp_path / "train.csv").read_text().splitlines()
    lines[7] = "n/a" + lines[7][lines[7].index(",") :]
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    done = run(*arguments(command, "bad.csv"))
    one_line(done, "column 'a'", "'n/a' in row 7 among numbers", "--drop")


def test_few_numbers_beside_texts_are_categories(run, table, tmp_path):
    lines = (tmp_path / "train.csv").read_text().splitlines()
    kinds = ["1", "2", "3", "4+"]
    changed = [
        lines[0] + ",rooms",
        *(f"{line},{kinds[k % 4]}" for k, line in enumerate(lines[1:])),
    ]
    (tmp_path / "train.csv").write_text("\n".join(changed) + "\n")
    assert run("fit", "train.csv", *LABEL, "--alpha", "0.01", "--json").exit_code == 0
    assert "rooms=4+" in [row["column"] for row in read("model/coefficients.csv")]


def test_the_report_of_a_search_shows_scores_path_and_convergence(run, table, tmp_path):
    pytest.importorskip("matplotlib")
    done = run(
        "fit",
        "train.csv",
        *LABEL,
        "--weight",
        "w",
        "--drop",
        "amount",
        "--edges",
        "edges.csv",
        "--cv",
        "3",
    )
    assert done.exit_code == 0, done.stderr
    assert "alpha chosen among 50 by 3 folds: held-out mean loss" in done.stdout
    page = (tmp_path / "model" / "report.html").read_text()
    for heading in (
        "Coefficients on the graph",
        "Cross-validation",
        "Coefficients by strength",
        "Convergence",
    ):
        assert f"<h2>{heading}</h2><figure><svg" in page


def test_info_shows_few_digits_and_a_dash_for_nothing(run, fitted):
    shown = dict(line.split(maxsplit=1) for line in run("info", "model").stdout.splitlines()[1:])
    assert shown["notes"].strip() == "-"
    assert len(shown["relative_gap"].strip()) <= len("1.23457e-05")
