"""A little of every attack of the night, and the failures of past nights."""

import json

import numpy as np
import pytest
from nightly import faults, fuzz, interrupts, piece

TRIALS = {"fuzz": fuzz.trial, "faults": faults.trial, "interrupts": interrupts.trial}


@pytest.mark.parametrize("kept", json.loads(piece.SEEDS.read_text(encoding="utf-8")), ids=str)
def test_what_failed_in_a_night_does_not_fail_again(kept):
    rng = np.random.default_rng([kept["seed"], kept["number"]])
    assert TRIALS[kept["piece"]](rng) is None


@pytest.mark.parametrize(("name", "count"), [("fuzz", 250), ("faults", 40), ("interrupts", 3)])
def test_a_little_of_the_attacks_of_the_night(name, count, capsys):
    asked = piece.argparse.Namespace(count=count, seed=1, first=0)
    assert piece.run(name, TRIALS[name], asked, memory=6e9) == 0, capsys.readouterr().out


def test_a_piece_tells_crashes_endless_loops_and_wrong_answers():
    import os

    def trial(rng):
        kind = int(rng.integers(4))
        if kind == 0:
            os.abort()
        if kind == 1:
            raise KeyError("an error")
        if kind == 2:
            return "a wrong answer"
        while True:
            pass

    kinds = [int(np.random.default_rng([5, k]).integers(4)) for k in range(12)]
    assert set(kinds) == {0, 1, 2, 3}
    found = []
    first = 0
    while first < 12:
        done = piece._batch(trial, 5, first, 12, 0.2, 8e9)
        found += done
        first = done[-1][0] + 1
    words = {0: "SIGABRT", 1: "raised KeyError", 2: "a wrong answer", 3: "processor time"}
    assert [number for number, _ in found] == list(range(12))
    for kind, (_, wrong) in zip(kinds, found, strict=True):
        assert words[kind] in wrong


def test_the_page_says_what_the_last_nights_counted():
    from nightly.publish import rows

    part = {"trials": 1500, "failures": [], "seconds": 600.0, "code": 0}
    first = {"begun": "2026-01-01 10:00 UTC", "parts": {"fuzz-0": part, "fuzz-1": part}}
    later = {"begun": "2026-01-02 10:00 UTC", "parts": {"kills-0": part | {"failures": [{}]}}}
    lines = rows([first, later])
    assert any("| 3,000 | 0 | 20 | 2026-01-01 | `--only fuzz` |" in line for line in lines)
    assert any("| 1,500 | 1 | 10 | 2026-01-02 | `--only kills` |" in line for line in lines)
    assert any("| not run |" in line and "soak" in line for line in lines)
