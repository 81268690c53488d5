"""A tiny experiment for the tests, its problem and command, reports without figures."""

import pytest
from tests.experiments.tiny import TINY, from_text
from typer.testing import CliRunner

from stochadmm.cli.main import app
from stochadmm.experiments import config, problems, report


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(report, "_figures", lambda *arguments: [])


@pytest.fixture(scope="module")
def problem():
    experiment = config._build(config.Experiment, from_text(TINY), "tiny")
    rows = problems.sample(experiment.datasets[0], quick=True)
    return problems.build(experiment, experiment.datasets[0], experiment.variants[0], rows)
