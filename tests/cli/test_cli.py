"""The command line: exit codes, one-line errors, JSON for programs."""

import json

import pytest
from typer.testing import CliRunner

from stochadmm.cli.main import app


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def assert_one_line(result, *parts):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("stochadmm: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr


def test_without_arguments_the_commands_are_shown(run):
    result = run()
    assert result.exit_code == 0
    for command in ("demo", "info", "fit"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ["demo", "info"])
def test_every_command_has_help(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "--help" in result.stdout


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("nope", ["nope", "stochadmm --help"]),
        ("info --nope", ["--nope", "info --help"]),
        ("demo --rows many", ["--rows", "demo --help"]),
        ("demo --rows 1", ["--rows", "100"]),
    ],
)
def test_bad_usage_is_one_line_and_code_2(run, command, parts):
    assert_one_line(run(*command.split()), *parts)


def test_a_demo_that_cannot_write_says_so_before_it_works(run, tmp_path):
    (tmp_path / "file").touch()
    assert_one_line(run("demo", "--out", tmp_path / "file" / "out"), "cannot write to", "--out")


def test_the_demo_reports_every_method_and_draws_both_problems(run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("stochadmm.cli.demo.METHODS", ("acc-sadmm",))
    monkeypatch.setattr("stochadmm.cli.demo.MAX_SECONDS", 0.2)
    result = run("demo", "--rows", 500, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert list(report) == ["digits", "generated"]
    for (row,) in report.values():
        assert row["method"] == "acc-sadmm"
        assert row["relative_gap"] >= 0.0
    assert len(list((tmp_path / "out").glob("*.png"))) == 4


def test_the_demo_ends_with_a_picture_and_what_to_see(run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("stochadmm.cli.demo.METHODS", ("auto",))
    last = run("demo", "--rows", 500, "--out", tmp_path).stdout.strip().splitlines()[-1]
    assert str(tmp_path / "digits-coefficients.png") in last and "neighbouring pixels" in last
    assert (tmp_path / "digits-coefficients.png").exists()


def test_info_tells_versions_and_threads(run):
    result = run("info", "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["versions"]["stochadmm"]
    assert facts["threads"]["cores"] >= 1
    assert "numpy" in run("info").stdout


def test_an_error_that_is_no_fault_of_the_user_is_not_hidden(run, monkeypatch):
    def broken():
        raise KeyError("a bug")

    monkeypatch.setattr("stochadmm.cli.info.collect", broken)
    result = run("info")
    assert isinstance(result.exception, KeyError)
