"""The command line: exit codes, one-line errors, JSON for programs."""

import json
import socket

import pytest
from typer.testing import CliRunner

from stochadmm import datasets
from stochadmm.cli.demo import DemoOptions
from stochadmm.cli.main import app


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("STOCHADMM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("STOCHADMM_DATA", raising=False)
    monkeypatch.delenv("STOCHADMM_DATA_URL", raising=False)
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
    for command in ("demo", "info", "data"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ["demo", "info", "data", "data list", "data fetch"])
def test_every_command_has_help(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "--help" in result.stdout


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("nope", ["nope", "stochadmm --help"]),
        ("info --nope", ["--nope", "info --help"]),
        ("data", ["Missing command", "data --help"]),
        ("data info", ["Missing argument", "data info --help"]),
        ("data info covtyp", ["covtyp", "did you mean covtype"]),
        ("data fetch", ["--all"]),
        ("data fetch usps nope", ["'nope'"]),
        ("data fetch usps", ["usps/zip.test.csv.gz is not in", "STOCHADMM_DATA"]),
        ("demo --rows many", ["--rows", "demo --help"]),
        ("demo --rows 1", ["--rows", "100"]),
    ],
)
def test_bad_usage_is_one_line_and_code_2(run, command, parts):
    assert_one_line(run(*command.split()), *parts)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("reproduce", ["Missing argument", "reproduce --help"]),
        ("reproduce fig11", ["'fig11'", "did you mean fig1"]),
        ("reproduce fig1 --datasets covertyp", ["'covertyp'", "did you mean covertype"]),
        ("reproduce nowhere.yaml", ["cannot read nowhere.yaml"]),
        ("reproduce fig1 --datasets mnist", ["mnist/", "STOCHADMM_DATA"]),
    ],
)
def test_reproduce_tells_wrong_names_and_missing_files_in_one_line(run, tmp_path, command, parts):
    result = run(*command.split(), *(("--out", tmp_path / "out") if "fig" in command else ()))
    assert_one_line(result, *parts)
    assert "Traceback" not in result.output


def test_reproduce_without_network_is_one_line(run, tmp_path, monkeypatch):
    # nothing listens on a port that was free a moment ago
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    monkeypatch.setenv("STOCHADMM_DATA_URL", f"http://localhost:{port}")
    result = run("reproduce", "fig1", "--datasets", "protein", "--out", tmp_path / "out")
    assert_one_line(result, "protein/", "STOCHADMM_DATA")
    assert "Traceback" not in result.output


def test_a_demo_that_cannot_write_says_so_before_it_works(run, tmp_path):
    (tmp_path / "file").touch()
    assert_one_line(run("demo", "--out", tmp_path / "file" / "out"), "cannot write to", "--out")


def test_the_demo_reports_every_method_and_draws_both_problems(run, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("stochadmm.cli.demo.METHODS", ("acc-sadmm",))
    monkeypatch.setattr("stochadmm.cli.demo.OPTIONS", DemoOptions(max_seconds=0.2))
    result = run("demo", "--rows", 500, "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert list(report) == ["digits", "generated"]
    for (row,) in report.values():
        assert row["method"] == "acc-sadmm"
        assert row["relative_gap"] >= 0.0
    assert len(list((tmp_path / "out").glob("*.png"))) == 4


def test_info_tells_versions_threads_and_folders(run, tmp_path):
    result = run("info", "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert facts["versions"]["stochadmm"]
    assert facts["threads"]["cores"] >= 1
    assert facts["folders"]["cache"] == str(tmp_path / "cache")
    assert facts["folders"]["data"] is None
    assert "numpy" in run("info").stdout


def test_data_list_names_every_set(run):
    listed = json.loads(run("data", "list", "--json").stdout)
    assert [entry["name"] for entry in listed] == datasets.names()
    assert not any(entry["here"] for entry in listed)
    shown = run("data", "list").stdout
    assert all(name in shown for name in datasets.names())


def test_data_info_tells_options_and_missing_files(run):
    facts = json.loads(run("data", "info", "covtype", "--json").stdout)
    assert facts["options"] == ["binary", "split", "standardize", "seed"]
    assert facts["files"] == {"covtype/covtype.csv.xz": None}
    assert "(missing)" in run("data", "info", "covtype").stdout


def test_every_data_set_says_where_it_can_be_had(run):
    listed = json.loads(run("data", "list", "--json").stdout)
    for entry in listed:
        assert len(entry["where"]) > 10 and "://" not in entry["where"]
    assert "MALSAR" in run("data", "info", "school").stdout


@pytest.mark.data
def test_data_fetch_finds_and_verifies_files(tmp_path):
    folder = datasets.data_folder()
    if folder is None or not folder.is_dir():
        pytest.skip("STOCHADMM_DATA does not name a folder")
    result = CliRunner().invoke(app, ["data", "fetch", "usps", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        path: str(folder / path) for path in datasets.describe("usps").files
    }


def test_an_error_that_is_no_fault_of_the_user_is_not_hidden(run, monkeypatch):
    def broken():
        raise KeyError("a bug")

    monkeypatch.setattr("stochadmm.datasets.names", broken)
    result = run("data", "list")
    assert isinstance(result.exception, KeyError)
