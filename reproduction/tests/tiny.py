"""A tiny experiment, and what tests of experiments read and compare."""

import csv
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import SimpleNamespace

import numpy as np

from stochadmm_reproduction.curves import Curve

TINY = """
name: fig1
title: Tiny
problem: fused
mu: 1.0e-3
passes: 12
seconds: 5
seeds: [0, 1]
methods: [stoc-admm, svrg-admm, sag-admm, opt-sadmm, acc-sadmm, acc-sadmm-reset, sdca-admm, auto]
datasets:
  - {name: generated, batch: 50, rows: 400, graph: given}
variants:
  - {name: theory}
  - {name: step-1.5, factor: 0.5}
tuning: {points: 3, kept: [2, 1], seeds: [101, 102], rows: 200, most: 2}
"""


def rows_of(folder):
    with (folder / "table.csv").open() as stream:
        return list(csv.DictReader(stream))


def called(main, *arguments):
    """Return exit code and output of a command that is run in this process."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as error:
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as ended:  # of the parser
            code = ended.code
    texts = {"stdout": out.getvalue(), "stderr": error.getvalue()}
    return SimpleNamespace(exit_code=code, output="".join(texts.values()), **texts)


def assert_one_line(result, *parts):
    assert result.exit_code == 2, result.output
    assert result.stderr.strip().count("\n") == 0
    assert len(result.stderr) < 600
    for part in parts:
        assert part in result.stderr


def from_text(text):
    import yaml

    return yaml.safe_load(text)


def curve(rate, floor=1e-12, scale=1.0, status="passes", start=1.0):
    passes = np.arange(0.0, 42.0, 2.0)
    gap = np.maximum(start * 10.0 ** (-rate * passes), floor)
    return Curve(passes, passes / 10, gap, gap, gap, floor, scale, status)
