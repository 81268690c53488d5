"""``stochadmm fit`` with a structure per column, and ``predict`` with its folder."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import stochadmm as sa
from stochadmm.cli.main import app

T = sa.terms


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def frame(tmp_path):
    """A table of claims with factors of all kinds, a map, and the frame that pandas reads."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 26, n),
            "brand": rng.choice(list("abcd"), n),
            "zone": rng.choice([1, 2, 3, 4], n),
            "fuel": rng.choice(["diesel", "petrol"], n),
            "power": rng.uniform(40, 200, n).round(3),
            "flag": rng.random(n) < 0.5,
            "years": rng.uniform(0.2, 1.0, n).round(3),
        }
    )
    z = -0.5 + 0.8 * (frame["age"] < 21) + 0.5 * (frame["brand"] == "a")
    frame["claims"] = rng.poisson(np.exp(z) * frame["years"])
    frame.to_csv(tmp_path / "claims.csv", index=False)
    (tmp_path / "edges.csv").write_text("one,other\n1,2\n2,3\n3,4\n3,9\n")
    return frame


CLAIMS = ["claims.csv", "--target", "claims", "--loss", "poisson", "--exposure", "years"]
OPTIONS = ["--ordered", "age", "--nominal", "brand", "--map", "zone=edges.csv", "--free", "power"]
MAP = T.Map([(1, 2), (2, 3), (3, 4), (3, 9)])
TERMS = {"age": T.Ordered(), "brand": T.Nominal(), "zone": MAP, "power": T.Free()}


def predicted(run, *arguments):
    done = run("predict", *arguments, "--out", "out.csv")
    assert done.exit_code == 0, done.stderr
    with open("out.csv", newline="") as file:
        return list(csv.DictReader(file)), done.stderr


def test_the_folder_predicts_what_the_estimator_predicts(run, frame, tmp_path):
    done = run("fit", *CLAIMS, *OPTIONS, "--alpha", "3e-3", "--out", "tariff")
    assert done.exit_code == 0, done.stderr
    assert "age: 8 levels in" in done.stdout
    model = sa.StructuredRegressor(3e-3, terms=TERMS, loss="poisson", tol=1e-4)
    model.fit(frame, "claims", exposure="years")
    rows, notes = predicted(run, "tariff", "claims.csv")
    own = [float(row["claims"]) for row in rows]
    np.testing.assert_allclose(own, model.predict(frame), rtol=1e-12)
    assert "one unit of 'years'" in notes
    table = pd.read_csv(tmp_path / "tariff" / "table.csv")
    assert table["class"].astype(str).tolist() == model.table_["class"].astype(str).tolist()
    assert "Terms</h2>" in (tmp_path / "tariff" / "report.html").read_text()
    # a level that only the map has, in a file whose other columns are all of one value
    new = frame.iloc[[0]].assign(zone=9)
    new.to_csv(tmp_path / "new.csv", index=False)
    rows, _ = predicted(run, "tariff", "new.csv")
    assert float(rows[0]["claims"]) == pytest.approx(model.predict(new)[0], rel=1e-12)


KINDS = {
    "age": {"ordered": {"decreasing": True, "upper": 24}},
    "brand": "sparse",
    "zone": {"map": {"edges": "edges.csv", "base": 2}},
    "power": {"smooth": {"knots": 5}},
    "fuel": {"group": {"name": "car"}},
    "age, brand": "grid",
}


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_a_file_of_terms_is_the_terms_of_the_estimator(run, frame, tmp_path, kind):
    if kind == "yaml":
        text = pytest.importorskip("yaml").safe_dump(KINDS)
    else:
        text = json.dumps(KINDS)
    (tmp_path / f"terms.{kind}").write_text(text)
    terms = {
        "age": T.Ordered(decreasing=True, upper=24),
        "brand": T.Sparse(),
        "zone": T.Map(MAP.edges, base=2),
        "power": T.Smooth(knots=5),
        "fuel": T.Group("car"),
        ("age", "brand"): T.Grid(),
    }
    done = run("fit", *CLAIMS, "--terms", f"terms.{kind}", "--alpha", "3e-3")
    assert done.exit_code == 0, done.stderr
    model = sa.StructuredRegressor(3e-3, terms=terms, loss="poisson", tol=1e-4)
    model.fit(frame, "claims", exposure="years")
    rows, _ = predicted(run, "model", "claims.csv")
    own = [float(row["claims"]) for row in rows]
    np.testing.assert_allclose(own, model.predict(frame), rtol=1e-12)


def test_folds_choose_the_strength_of_terms_as_the_estimator_does(run, frame, tmp_path):
    chosen = []
    for rule in (["--choose", "simplest"], []):
        done = run("fit", *CLAIMS, *OPTIONS, "--cv", "3", "--tol", "1e-3", *rule, "--overwrite")
        assert done.exit_code == 0, done.stderr
        facts = json.loads((tmp_path / "model" / "model.json").read_text())["facts"]
        assert facts["estimator"] == "StructuredRegressorCV" and facts["exposure"] == "years"
        assert ("the largest within one standard error" in done.stdout) == bool(rule)
        chosen.append(facts["alpha"])
    assert chosen[0] >= chosen[1] > 0


def test_labels_take_terms_too(run, frame):
    frame.assign(label=np.where(frame["claims"] > 0, "yes", "no")).to_csv("l.csv", index=False)
    drop = ["--drop", "claims,years"]
    done = run("fit", "l.csv", "--target", "label", *drop, *OPTIONS, "--alpha", "0.01")
    assert done.exit_code == 0, done.stderr
    model = sa.StructuredClassifier(0.01, terms=TERMS, tol=1e-4)
    X = frame.drop(columns=["claims", "years"])
    model.fit(X, np.where(frame["claims"] > 0, "yes", "no"))
    rows, _ = predicted(run, "model", "l.csv")
    own = [float(row["p(yes)"]) for row in rows]
    np.testing.assert_allclose(own, model.predict_proba(X)[:, 1], rtol=1e-9)


def test_exposure_works_without_terms(run, frame):
    done = run("fit", *CLAIMS, "--drop", "brand,fuel,flag", "--alpha", "1e-3")
    assert done.exit_code == 0, done.stderr
    X = frame[["age", "zone", "power"]].to_numpy(float)
    model = sa.LassoRegressor(1e-3, loss="poisson", tol=1e-4)
    model.fit(X, frame["claims"], exposure=frame["years"])
    rows, _ = predicted(run, "model", "claims.csv")
    own = [float(row["claims"]) for row in rows]
    np.testing.assert_allclose(own, model.predict(X), rtol=1e-12)


def test_gaps_and_new_levels_follow_the_rules(run, frame, tmp_path):
    gaps = frame.copy()
    gaps.loc[::9, "brand"] = None
    gaps.to_csv("gaps.csv", index=False)
    fit = ["fit", "gaps.csv", *CLAIMS[1:], *OPTIONS, "--alpha", "3e-3"]
    one_line(run(*fit), "'brand' contains NaN or missing")
    done = run(*fit, "--missing", "level", "--unseen", "base")
    assert done.exit_code == 0, done.stderr
    gaps.iloc[:5].assign(brand="new").to_csv("new.csv", index=False)
    rows, notes = predicted(run, "model", "new.csv")
    assert len(rows) == 5 and "5 rows have a level of 'brand'" in notes
    rows, _ = predicted(run, "model", "gaps.csv")
    model = sa.StructuredRegressor(
        3e-3, terms=TERMS, loss="poisson", tol=1e-4, missing="level", unseen="base"
    ).fit(gaps, "claims", exposure="years")
    own = [float(row["claims"]) for row in rows]
    np.testing.assert_allclose(own, model.predict(gaps), rtol=1e-12)


def one_line(done, *words):
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.output
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ordered", "agee"], ["'agee'", "did you mean age?"]),
        (["--free", "claims"], ["'claims'", "target"]),
        (["--nominal", "age", "--free", "age"], ["--nominal", "--free"]),
        (["--map", "zone"], ["column=file"]),
        (["--map", "zone=none.csv"], ["none.csv is not a file"]),
        (["--map", "brand=edges.csv"], ["no pair of the map"]),
        (["--terms", "none.yaml"], ["none.yaml is not a file"]),
        (["--terms", "kind.json"], ["'order'", "did you mean ordered?"]),
        (["--terms", "option.json"], ["'increase'", "did you mean increasing?"]),
        (["--terms", "column.json"], ["'agee'", "did you mean age?"]),
        (["--terms", "broken.json"], ["cannot be read"]),
        (["--terms", "list.json"], ["has no terms"]),
        (["--ordered", "age", "--edges", "edges.csv"], ["--edges", "exclude"]),
        (["--ordered", "age", "--l1-ratio", "0.5"], ["--l1-ratio"]),
        (["--ordered", "age", "--weight", "years"], ["'years'", "--exposure", "--weight"]),
        (["--ordered", "age", "--missing", "guess"], ["missing is 'guess'"]),
        (["--missing", "level"], ["for models with terms"]),
    ],
)
def test_what_cannot_be_meant_is_told_in_one_line(run, frame, tmp_path, options, words):
    texts = {
        "kind": '{"age": "order"}',
        "option": '{"age": {"ordered": {"increase": true}}}',
        "column": '{"agee": "ordered"}',
        "broken": '{"age": ',
        "list": "[]",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_text(text)
    one_line(run("fit", *CLAIMS, *options, "--alpha", "0.01"), *words)


def test_terms_and_exposure_need_rows_in_memory(run, frame):
    one_line(run("fit", "c*.csv", *CLAIMS[1:], "--ordered", "age"), "terms need rows in memory")
    one_line(run("fit", "c*.csv", *CLAIMS[1:]), "--exposure needs rows in memory")


def test_help_shows_an_example_of_a_tariff(run):
    words = " ".join(run("fit", "--help").stdout.split())
    assert "stochadmm fit claims.csv --target claims" in words
    assert "--map zone=edges.csv" in words


def test_text_in_an_order_is_told(run, frame):
    done = run("fit", *CLAIMS, "--ordered", "brand", "--alpha", "0.01")
    assert done.exit_code == 0, done.stderr
    assert "levels of 'brand' are in the order of texts: a, b, c, d" in done.stdout
