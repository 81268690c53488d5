"""A tiny experiment for the tests, its problem and command, reports without figures."""

import pytest
from reproduction.tests.tiny import TINY, called, from_text

from stochadmm_reproduction import config, problems, report
from stochadmm_reproduction.__main__ import main


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: called(main, *arguments)


@pytest.fixture
def no_figures(monkeypatch):
    monkeypatch.setattr(report, "_figures", lambda *arguments: [])
    monkeypatch.setattr(report, "_headline", lambda *arguments: None)


@pytest.fixture(scope="module")
def problem():
    experiment = config._build(config.Experiment, from_text(TINY), "tiny")
    rows = problems.sample(experiment.datasets[0], quick=True)
    return problems.build(experiment, experiment.datasets[0], experiment.variants[0], rows)
