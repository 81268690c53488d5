"""Tables as people have them: each fits, or one line names the option that helps."""

import gzip

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import stochadmm as sa
from stochadmm.cli.main import app


def claims(n=120):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 26, n),
            "brand": rng.choice(list("abcd"), n),
            "power": rng.uniform(40, 200, n).round(2),
        }
    )
    frame["claims"] = rng.poisson(np.exp(-0.5 + 0.8 * (frame["age"] < 21)))
    return frame


def csv(change=lambda frame: frame, **options):
    """Return what writes the table after a change."""
    return lambda path: change(claims()).to_csv(path, **{"index": False} | options)


def text(change):
    """Return what writes the text of the table after a change."""
    return lambda path: path.write_bytes(change(claims().to_csv(index=False)))


def gap(name, value=np.nan, every=9):
    def change(frame):
        return frame.assign(
            **{name: frame[name].astype(object).where(frame.index % every > 0, value)}
        )

    return change


def packed(path):
    with gzip.open(path, "wt") as file:
        for age, power, count in claims()[["age", "power", "claims"]].to_numpy():
            file.write(f"{count:g} 1:{age:g} 2:{power}\n")


MANY = [f"town {k % 60}" for k in range(120)]
FITS, REFUSED = None, "refused"
TABLES = {
    # name: (file, how it is written, what the line says where it is refused, what then helps)
    "plain": ("t.csv", csv(), FITS, []),
    "a byte order mark": ("t.csv", csv(encoding="utf-8-sig"), FITS, []),
    "ends of lines of Windows": (
        "t.csv",
        text(lambda s: s.replace("\n", "\r\n").encode()),
        FITS,
        [],
    ),
    "spaces around names and cells": (
        "t.csv",
        text(lambda s: s.replace(",", " , ").encode()),
        FITS,
        [],
    ),
    "empty lines": ("t.csv", text(lambda s: s.replace("\n", "\n\n").encode()), FITS, []),
    "an index": ("t.csv", csv(index=True), FITS, []),
    "a gap in a text": ("t.csv", csv(gap("brand")), FITS, []),
    "a column of one value": ("t.csv", csv(lambda f: f.assign(k=7)), FITS, []),
    "a number for each row": ("t.csv", csv(lambda f: f.assign(k=range(len(f)))), FITS, []),
    "packed libsvm": ("t.svm.gz", packed, FITS, ["--target", "y"]),
    "semicolons": ("t.csv", csv(sep=";"), "--sep ';'", ["--sep", ";"]),
    "tabs": ("t.csv", csv(sep="\t"), "--sep tab", ["--sep", "tab"]),
    "commas in a .tsv": ("t.tsv", csv(), "--sep ','", ["--sep", ","]),
    "bars": ("t.csv", csv(sep="|"), "--sep '|'", ["--sep", "|"]),
    "decimal commas": (
        "t.csv",
        csv(decimal=",", quotechar='"'),
        "--decimal ,",
        ["--decimal", ","],
    ),
    "semicolons and decimal commas": (
        "t.csv",
        csv(sep=";", decimal=","),
        "--sep ';'",
        ["--sep", ";", "--decimal", ","],
    ),
    "latin letters": (
        "t.csv",
        csv(lambda f: f.replace("a", "\u00e4"), encoding="latin-1"),
        "--encoding latin-1",
        ["--encoding", "latin-1"],
    ),
    "two bytes a letter": (
        "t.csv",
        csv(encoding="utf-16"),
        "--encoding",
        ["--encoding", "utf-16"],
    ),
    "no end of the name": ("t", csv(), "--format", ["--format", "csv"]),
    "Parquet by another name": (
        "t.data",
        lambda path: claims().to_parquet(path),
        "--format",
        ["--format", "parquet"],
    ),
    "a gap in a number": ("t.csv", csv(gap("power")), "--missing drop", ["--missing", "drop"]),
    "a gap in the target": ("t.csv", csv(gap("claims")), "--missing drop", ["--missing", "drop"]),
    "NA for a gap": (
        "t.csv",
        csv(gap("power"), na_rep="NA"),
        "--missing drop",
        ["--missing", "drop"],
    ),
    "an infinite number": ("t.csv", csv(gap("power", np.inf)), "infinite", ["--drop", "power"]),
    "a unit among numbers": (
        "t.csv",
        csv(gap("power", "90 kW", 60)),
        "--drop",
        ["--drop", "power"],
    ),
    "thousands": (
        "t.csv",
        csv(lambda f: f.assign(power=[f"1 {k:03d}" for k in range(len(f))])),
        "'1 000'",
        ["--drop", "power"],
    ),
    "names of rows": (
        "t.csv",
        csv(lambda f: f.assign(name=[f"p{k}" for k in range(len(f))])),
        "--drop",
        ["--drop", "name"],
    ),
    "many levels beside terms": (
        "t.csv",
        csv(lambda f: f.assign(town=MANY)),
        "--nominal, --map",
        ["--drop", "town"],
    ),
    "two columns of one name": (
        "t.csv",
        text(lambda s: s.replace("brand", "age", 1).encode()),
        "two columns named 'age'",
        REFUSED,
    ),
    "a field too many": (
        "t.csv",
        text(lambda s: (s + "1,a,2,3,4\n").encode()),
        "has 5 fields, expected 4",
        REFUSED,
    ),
    "a quote that is not closed": (
        "t.csv",
        text(lambda s: (s + '1,"a,2,3\n').encode()),
        "is a quote not closed?",
        REFUSED,
    ),
    "nothing": ("t.csv", lambda path: path.write_text(""), "is empty", REFUSED),
    "a heading alone": ("t.csv", csv(lambda f: f[:0]), "has no rows", REFUSED),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_messy_table_fits_or_names_what_helps(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, write, says, helps = TABLES[name]
    write(tmp_path / file)

    def fit(*options):
        target = [] if "--target" in options else ["--target", "claims"]
        given = ["fit", file, *target, "--loss", "poisson", "--alpha", "0.01"]
        terms = ["--ordered", "age"] if "terms" in name else []
        return CliRunner().invoke(app, [*given, *terms, *options, "--overwrite"])

    if says is not FITS:
        done = fit()
        assert done.exit_code == 2 and done.stdout == "", done.output
        assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
        assert says in done.stderr
    if helps is REFUSED:
        return
    done = fit(*helps)
    assert done.exit_code == 0, done.output
    predict = [option for option in helps if option not in ("--missing", "drop")]
    predict = [] if {"--drop", "--target"} & set(helps) else predict
    if "--missing" not in helps:
        done = CliRunner().invoke(app, ["predict", "model", file, *predict, "--out", "out.csv"])
        assert done.exit_code == 0, done.output
        assert len(pd.read_csv("out.csv")) == 120


def test_odd_columns_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = claims().assign(number=range(120), one=7, price=["1,5", "2,5"] * 60)
    table.to_csv("t.csv", index=False)
    given = ["fit", "t.csv", "--target", "claims", "--loss", "poisson", "--alpha", "0.01"]
    said = CliRunner().invoke(app, given).stdout
    assert "'number' of t.csv numbers the rows, as an identifier" in said
    assert "'one' of t.csv has the value 7 in every row" in said
    assert "'price' of t.csv is text" in said and "--decimal ," in said


def test_signs_of_columns_are_those_of_the_estimator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = claims()
    table.to_csv("t.csv", index=False)
    given = ["fit", "t.csv", "--target", "claims", "--loss", "poisson", "--alpha", "0.001"]
    terms = {
        "age": sa.terms.Ordered(decreasing=True),
        "power": sa.terms.Free(bounds=(0, None)),
    }
    model = sa.StructuredRegressor(0.001, terms=terms, loss="poisson").fit(table, "claims")
    options = ["--ordered", "age", "--monotone", "age=decreasing,power", "--overwrite"]
    done = CliRunner().invoke(app, [*given, *options])
    assert done.exit_code == 0, done.output
    coef = pd.read_csv("model/coefficients.csv")
    np.testing.assert_allclose(coef.iloc[1:, -1], model.coef_, atol=1e-12)
    done = CliRunner().invoke(
        app, [*given, "--monotone", "power=decreasing", "--drop", "brand", "--overwrite"]
    )
    assert done.exit_code == 0, done.output
    plain = sa.LassoRegressor(0.001, loss="poisson", monotone={"power": -1})
    plain.fit(table[["age", "power"]], table["claims"])
    coef = pd.read_csv("model/coefficients.csv")
    np.testing.assert_allclose(coef.iloc[1:, -1], plain.coef_, atol=1e-12)
    for wrong, words in (("brand", "--ordered too"), ("power=down", "expected a column")):
        done = CliRunner().invoke(
            app, [*given, "--ordered", "age", "--monotone", wrong, "--overwrite"]
        )
        assert done.exit_code == 2 and words in done.stderr


def test_a_path_has_exposure_and_terms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = claims().assign(years=np.linspace(0.2, 1.0, 120).round(3))
    table.to_csv("t.csv", index=False)
    given = ["path", "t.csv", "--target", "claims", "--loss", "poisson", "--exposure", "years"]
    done = CliRunner().invoke(
        app, [*given, "--ordered", "age", "--alphas", "3", "--out", "path.csv"]
    )
    assert done.exit_code == 0, done.output
    model = sa.StructuredRegressor(terms={"age": sa.terms.Ordered()}, loss="poisson")
    own = model.path(table, "claims", exposure="years", alphas=3)
    found = pd.read_csv("path.csv")
    np.testing.assert_allclose(found["alpha"], own.alphas, rtol=1e-9)
    np.testing.assert_allclose(found.iloc[:, 2:], own.coefs, atol=1e-9)
