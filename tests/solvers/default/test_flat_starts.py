"""Second-order steps from points where every row is flat."""

from __future__ import annotations

import numpy as np
import pytest

import stochadmm as sa


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_a_right_hand_side_that_takes_every_row_into_saturation_ends_with_a_result(size):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5))
    y = np.where(X @ rng.standard_normal(5) + rng.standard_normal(80) > 0, 1.0, -1.0)
    A2, A1, b = (rng.standard_normal(s) for s in ((4, 5), (4, 5), 4))
    problem = sa.Problem(
        sa.FiniteSum(sa.Logistic(), X, y), h1=sa.L1(0.05), h2=sa.L1(0.01), A1=A1, A2=A2, b=size * b
    )
    result = sa.minimize(problem)
    assert np.isfinite(result.gap)
    assert result.feasibility <= 1e-12
    better = sa.minimize(problem, "acc-sadmm", max_passes=300)
    assert better.objective - better.gap <= result.objective
    assert result.objective - result.gap <= better.objective
