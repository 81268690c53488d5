"""A dozen draws of ``benchmarks/map.py``: every one is certified."""

import numpy as np
import pytest
from benchmarks.map import draw, is_certified, line, solve

SMALL = 2e5  # stored numbers of the rows, so that a draw takes a fraction of a second


def draws(count, seed=20):
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < count:
        c = draw(rng)
        share = 1.0 if c["storage"] == "dense" else min(1.0, 20 / c["d"])
        if c["n"] * c["d"] * share <= SMALL and c["d"] * c["outputs"] <= 1000:
            found.append(c)
    return found


@pytest.mark.parametrize("c", draws(12), ids=lambda c: str(c["seed"]))
def test_a_random_problem_is_certified(c):
    found = solve(c, 10.0)
    assert is_certified(found), line(found)
