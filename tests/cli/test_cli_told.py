"""What commands print: answers, notes and progress, for people, pipes and programs."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import stochadmm as sa
from stochadmm.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def rows(tmp_path):
    """A table of four columns and an amount, as arrays and as ``t.csv``."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)).round(6)
    y = (X @ [1.0, 1.0, 0.0, 0.0] + 0.1 * rng.standard_normal(60)).round(6)
    np.savetxt(
        tmp_path / "t.csv", np.c_[X, y], delimiter=",", header="a,b,c,d,y", comments="", fmt="%.6f"
    )
    return X, y


@pytest.mark.parametrize("options", [["--alpha", "0.05"], ["--cv", "3"]])
def test_a_pipe_has_no_progress(run, rows, options):
    done = run("fit", "t.csv", *options)
    assert done.exit_code == 0 and done.stderr == ""
    assert done.stdout.startswith("LassoRegressor") and "━" not in done.stdout


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no such terminals")
def test_a_terminal_has_progress_beside_the_answer(run, rows):
    master, slave = os.openpty()
    command = [sys.executable, "-m", "stochadmm", "fit", "t.csv", "--cv", "3"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, check=True, text=True)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode(errors="replace")
    os.close(master)
    assert "150/150" in shown
    assert done.stdout.startswith("LassoRegressorCV with squared loss, alpha")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--cv", "3"], "--cv"),
        (["--choose", "best"], "--choose"),
    ],
)
def test_a_strength_is_given_or_chosen(run, rows, tmp_path, options, named):
    done = run("fit", "t.csv", "--alpha", "0.05", *options)
    assert done.exit_code == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert f"--alpha and {named} exclude each other" in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_path_has_the_strengths_of_the_estimator(run, rows):
    found = json.loads(run("path", "t.csv", "--alphas", "4", "--json").stdout)["path"]
    own = sa.LassoRegressor().path(*rows, alphas=4)
    np.testing.assert_allclose([point["alpha"] for point in found], own.alphas, rtol=1e-12)


def test_what_a_path_warns_of_is_a_note(run, rows, tmp_path, recwarn):
    (tmp_path / "groups.csv").write_text("first,a,b\n")
    done = run("path", "t.csv", "--groups", "groups.csv", "--alphas", "2")
    assert done.exit_code == 0 and not recwarn.list
    assert done.stderr.startswith("Note: OverlappingGroupRegressor: 2 columns are in no group")
    assert done.stderr.count("\n") == 1


def test_json_has_no_numbers_that_are_not_finite(run, rows, tmp_path):
    lines = "".join(f"{k % 3},{k % 3 + k % 2}\n" for k in range(24))
    (tmp_path / "counts.csv").write_text("x,y\n" + lines)
    assert run("fit", "counts.csv", "--loss", "poisson", "--alpha", "0.01").exit_code == 0
    (tmp_path / "far.csv").write_text("x\n1\n1e9\n-1e9\n")
    done = run("predict", "model", "far.csv", "--json")
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))["y"]
    assert found[0] > 0 and {found[1], found[2]} == {None, 0.0}


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes files")
def test_a_closed_output_is_one_line(run, rows):
    command = f"{sys.executable} -m stochadmm path t.csv --alphas 2 >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "stochadmm: standard output is closed; name a file with --out\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_full_disk_is_one_line(run, rows):
    assert run("fit", "t.csv", "--alpha", "0.05").exit_code == 0
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "stochadmm", "predict", "model", "t.csv"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "no space is left to write the answer; make room" in done.stderr
