"""What results say about themselves is true, whatever the units, the type and the method.

Problems and judgement are those of ``benchmarks/soundness.py``, which goes on to thousands.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.soundness import judge, judge_terms

import stochadmm as sa

PER_BLOCK = 10


@pytest.mark.parametrize("block", range(30))
def test_no_result_claims_more_or_less_than_is_true(block):
    for number in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        wrong = [row for row in judge(number, conic=number % 50 == 0) if row.wrong]
        assert not wrong, wrong


@pytest.mark.parametrize("block", range(3))
def test_no_fit_of_terms_claims_more_or_less_than_is_true(block):
    for number in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        wrong = [row for row in judge_terms(number, conic=number % 50 == 0) if row.wrong]
        assert not wrong, wrong


@pytest.mark.parametrize("number", [509])
def test_steps_beyond_the_numbers_of_float32_are_not_made(number):
    """The minimizer of a second-order model overflows there; the method stays where it is."""
    rows = judge(number, conic=False)
    assert len(rows) == 2 and not any(row.wrong for row in rows)
    assert all(np.isfinite(row.objective) for row in rows)


def test_a_method_that_cannot_have_better_units_keeps_those_of_the_data():
    """Scaled columns make a total variation of coefficients one behind a constraint."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) * 10.0 ** np.array([0, 3, -1, 2, -2, 0])
    y = rng.standard_normal(60)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.TotalVariation1D(0.1))
    result = sa.minimize(problem, "katyusha", max_passes=20)
    best = sa.minimize(problem, stop=1e-9)
    assert best.converged
    assert result.objective - result.gap <= best.objective * (1 + 1e-9)
