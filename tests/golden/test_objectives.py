"""Optimal values and routes of the shared problems, recorded before the solvers were rebuilt.

The values are those of one minimizer, whatever leads to it; the route says what ``auto`` chooses,
and the reads how fast. Where a change of the methods changes reads on purpose, record them anew:
``python -m tests.golden.test_objectives``.
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
    # rounding of another processor may add or save a step
    reads = known["reads"][method]
    assert reads / 1.4 - 2 <= found.n_passes <= 1.4 * reads + 2
    outside = sa.certify(problem, found.pair, found.dual)
    assert outside.bound <= known["objective"] + tol * scale


def record():
    """Write the reads of today."""
    for name, known in KNOWN.items():
        problem = problems.make(name)
        tol = 1e-6 if problem.dtype.itemsize == 4 else 1e-9
        methods = ("auto", *known["methods"])
        known["reads"] = {m: round(sa.minimize(problem, m, stop=tol).n_passes, 1) for m in methods}
    path = Path(__file__).parent / "objectives.json"
    path.write_text(json.dumps(KNOWN, indent=1) + "\n")


if __name__ == "__main__":
    record()
