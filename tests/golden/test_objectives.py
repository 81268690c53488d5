"""Optimal values and routes of the shared problems, recorded before the solvers were rebuilt.

The values are those of one minimizer, whatever leads to it; the route says what ``auto`` chooses.
"""

import json
from pathlib import Path

import pytest
from tests import problems

import stochadmm as sa

KNOWN = json.loads((Path(__file__).parent / "objectives.json").read_text())


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, method) for name in problems.NAMES for method in ("auto", *KNOWN[name]["methods"])],
)
def test_the_optimal_value_is_the_recorded_one(name, method):
    problem, known = problems.make(name), KNOWN[name]
    # a gap in float32 is a matter of the rounding of the data's type
    tol = 1e-6 if problem.dtype.itemsize == 4 else 1e-9
    found = sa.minimize(problem, method, stop=tol)
    assert found.status is sa.Status.CONVERGED
    assert found.relative_gap <= tol
    scale = max(found.gap / max(found.relative_gap, 1e-300), abs(known["objective"]))
    assert abs(found.objective - known["objective"]) <= tol * scale
    if method == "auto":
        assert found.info["route"] == known["route"]
    outside = sa.certify(problem, found.pair, found.dual)
    assert outside.bound <= known["objective"] + tol * scale
