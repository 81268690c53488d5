"""The Hessian of all rows as a matrix, and problems in which it can be used.

Damping adds a share of the curvature bound: at share one the model is an upper bound of f2, so
that raising the share always ends in descent, and losses with flat pieces need no other safeguard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.capabilities import Has
from ..base.protocols import Array
from ..base.validation import Unsuitable
from ..problem import Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.curvature import LIMITS, RowSample, SampledHessian, is_implicit, shares_curvature

NEEDS = ("gram", "predict", "derivatives", "pull_back", "value_at", "curvature", "curvature_apply")
"""What f2 must offer."""


@dataclass(frozen=True)
class Damping:
    """How the share of the curvature bound follows the steps."""

    first: float = 1e-3
    """At the start: enough to keep the first step of a flat loss in sight."""
    least: float = 1e-7
    """After many full steps: far below what a Hessian of some digits is worth."""

    def after(self, share: float, t: float) -> float:
        """Return the share after a step of length t along the model's minimizer."""
        return max(self.least, share / 10) if t == 1 else min(1.0, 10 * share)


def full_hessian(f2: FiniteSum, predictions: Array, share: float = 0.0) -> tuple[Array, int]:
    """Return H for the variable (d,) or (d, C), and how often the rows were read.

    A (d, d) matrix serves all outputs alike; otherwise it has all entries in row-major order.
    Coupled outputs with too many entries get the curvature bound's, which is alike for all.
    """
    bound = float(f2.loss.curvature_bound)
    shared = shares_curvature(f2, predictions)
    if is_implicit(f2, shared):
        return bound * f2.gram(), 1
    sample = RowSample(f2, predictions, f2.loss.derivative(predictions, f2.y))
    damping = share * bound if np.isfinite(bound) else 0.0
    H = SampledHessian(sample, shared, damping).matrix
    outputs = 1 if shared else f2.n_outputs or 1
    return np.asarray(H), outputs * (outputs + 1) // 2 if sample.coupled else outputs


def is_quadratic(problem: Problem) -> bool:
    """Say whether f2 is a quadratic function."""
    return loss_of_rows(problem.f2, Has.SQUARE) is not None


def check_dense(problem: Problem, name: str) -> None:
    """Raise when a d x d matrix would be too large."""
    d = problem.shape2[0]
    if d > LIMITS.columns:
        raise Unsuitable(
            f"{name} works with {d} x {d} matrices; use 'acc-sadmm' above {LIMITS.columns} columns"
        )
