"""What results say about themselves is true, whatever the units, the type and the method.

Problems and judgement are those of ``benchmarks/soundness.py``, which goes on to thousands.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.soundness import judge

PER_BLOCK = 10


@pytest.mark.parametrize("block", range(30))
def test_no_result_claims_more_or_less_than_is_true(block):
    for number in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        wrong = [row for row in judge(number, conic=number % 50 == 0) if row.wrong]
        assert not wrong, wrong


@pytest.mark.parametrize("number", [509])
def test_steps_beyond_the_numbers_of_float32_are_not_made(number):
    """The minimizer of a second-order model overflows there; the method stays where it is."""
    rows = judge(number, conic=False)
    assert len(rows) == 2 and not any(row.wrong for row in rows)
    assert all(np.isfinite(row.objective) for row in rows)
