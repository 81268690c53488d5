"""The report page of a fit: every output is drawn and named, odd names included."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from stochadmm.cli import _report
from stochadmm.cli.main import app

pytest.importorskip("matplotlib")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def page(tmp_path):
    return (tmp_path / "model" / "report.html").read_text()


def texts(page, heading):
    """Return what is written in the picture below a heading; matplotlib notes it in comments."""
    picture = page.split(f"<h2>{heading}</h2>")[1].split("</figure>")[0]
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", picture)]


def several(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40 * n_classes, 6))
    kinds = np.arange(len(X)) % n_classes
    X[np.arange(len(X)), kinds % 6] += 2.0
    np.savez(tmp_path / "t.npz", X=X, y=np.array([f"kind {k}" for k in kinds]))


@pytest.mark.parametrize(
    ("structure", "heading"),
    [
        ([], None),
        (["--grid", "2x3"], "Coefficients on the grid"),
        (["--grid", "6"], "Coefficients on the grid"),
        (["--edges", "edges.csv"], "Coefficients on the graph"),
    ],
)
def test_every_class_has_a_drawing_with_its_name(run, tmp_path, structure, heading):
    several(tmp_path, 3)
    (tmp_path / "edges.csv").write_text("x0,x1\nx2,x3\n")
    done = run("fit", "t.npz", "--alpha", "0.01", *structure)
    assert done.exit_code == 0, done.output
    for name in filter(None, ("Largest coefficients", heading)):
        written = texts(page(tmp_path), name)
        assert [text for text in written if text.startswith("kind")] == [
            "kind 0",
            "kind 1",
            "kind 2",
        ]


def test_bars_are_those_of_their_own_class(run, tmp_path):
    several(tmp_path, 3)
    assert run("fit", "t.npz", "--alpha", "0.05").exit_code == 0
    with np.load("model/model.npz") as file:
        coef = file["coef"]
    written = texts(page(tmp_path), "Largest coefficients")
    drawn = " ".join(written).split("kind")[:-1]
    for k, row in enumerate(coef):
        own = {text for text in drawn[k].split() if re.fullmatch(r"x\d", text)}
        assert own == {f"x{j}" for j in np.flatnonzero(row)}


def test_many_classes_are_not_all_drawn_and_the_page_says_so(run, tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "MOST_OUTPUTS", 2)
    several(tmp_path, 3)
    assert run("fit", "t.npz", "--alpha", "0.01").exit_code == 0
    written = texts(page(tmp_path), "Largest coefficients")
    assert [text for text in written if text.startswith("kind")] == ["kind 0", "kind 1"]
    assert "first 2 outputs are drawn; those of the other 1 are in" in page(tmp_path)


@pytest.mark.parametrize("structure", [[], ["--edges", "s.csv"], ["--groups", "s.csv"]])
def test_dollar_signs_in_names_are_no_mathematics(run, tmp_path, structure):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    names = ["cost_$_in_$^", "<b>$x_$"]
    np.savez(tmp_path / "t.npz", X=X, y=X.sum(axis=1), names=names)
    (tmp_path / "s.csv").write_text(f"{names[0]},{names[1]}\n")
    done = run("fit", "t.npz", "--loss", "squared", "--cv", "3", *structure)
    assert done.exit_code == 0, done.output
    assert names[0] in texts(page(tmp_path), "Largest coefficients")
    assert "<b>$x_$" not in re.sub("<!--.*?-->", "", page(tmp_path))


@pytest.mark.parametrize("rows", [1, 30])
def test_a_constant_target_has_a_page(run, tmp_path, rows):
    X = np.random.default_rng(0).standard_normal((rows, 2))
    np.savez(tmp_path / "t.npz", X=X, y=np.ones(rows))
    done = run("fit", "t.npz", "--loss", "squared", "--alpha", "0.1")
    assert done.exit_code == 0, done.output


def test_letters_that_the_font_lacks_are_no_warning(run, tmp_path, recwarn):
    X = np.random.default_rng(0).standard_normal((30, 2))
    np.savez(tmp_path / "t.npz", X=X, y=X.sum(axis=1), names=["面积", "价格"])
    assert run("fit", "t.npz", "--loss", "squared", "--alpha", "0.1").exit_code == 0
    assert not [warning for warning in recwarn if "Glyph" in str(warning.message)]


def test_long_names_are_cut_in_pictures(run, tmp_path, recwarn):
    X = np.random.default_rng(0).standard_normal((30, 2))
    np.savez(tmp_path / "t.npz", X=X, y=X.sum(axis=1), names=["a" * 10_000, "b"])
    assert run("fit", "t.npz", "--loss", "squared", "--alpha", "0.1").exit_code == 0
    assert "a" * 39 + "…" in texts(page(tmp_path), "Largest coefficients")
    assert not [warning for warning in recwarn if "layout" in str(warning.message)]
