"""Constraints that leave no choice: F at the only pair is the optimal value."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.elimination import only_pair
from ..problem import Pair, Problem
from ..risk import Evaluation
from ..risk.finite_sum import as_finite_sum
from .repair import is_rounding

SHORT = 1e-6
"""A step, relative to a point: penalties are about straight along it, rounding still small."""


class OnlyPoint(NamedTuple):
    """The only feasible pair, and what is known there."""

    pair: Pair
    at: Evaluation
    objective: float
    slack: float
    """How much lower F may be at the exact pair, which rounding has moved."""
    dual: Array
    """A multiplier of the constraint: minus a subgradient of F is ``A'`` times it,"""
    kkt_residual: float
    """up to so much, relative to the subgradient."""


def only_point(problem: Problem, workspace: Workspace) -> OnlyPoint | None:
    """Return the only pair of a constraint, None where there are several or it is outside."""
    found = only_pair(problem, workspace)
    if found is None:
        return None
    x, off = found
    if not np.isfinite(problem.penalty(x)):
        x = problem.inside(x)
    penalty = problem.penalty(x)
    if not np.isfinite(penalty) or not is_rounding(problem, x, problem.constraint(x)):
        return None
    at = as_finite_sum(problem.f2).evaluate_exactly(x.x2)
    beside = [
        Pair(x.x1 + t * np.copysign(off.x1, x.x1), x.x2 + t * np.copysign(off.x2, x.x2))
        for t in (1.0, -1.0)
    ]
    slack = max(abs(problem.penalty(problem.inside(pair)) - penalty) for pair in beside)
    slack += float(np.vdot(np.abs(at.gradient), off.x2))
    first = _pull(problem.h1, x.x1)
    if problem.f1 is not None:
        first = first + np.asarray(problem.f1.gradient(x.x1))
    pull = np.concatenate([first, at.gradient + _pull(problem.h2, x.x2)])
    affine, force = problem.affine_set(workspace), float(np.linalg.norm(pull))
    dual = affine.multiplier(-pull)
    left = float(np.linalg.norm(affine.matrix.T @ dual + pull)) / force if force > 0 else 0.0
    return OnlyPoint(x, at, penalty + at.value, slack, dual, left)


def _pull(penalty: Any, x: Array) -> Array:
    """Return a subgradient of a penalty next to x, from a short step to lower values."""
    if penalty is None:
        return np.zeros_like(x)
    step = SHORT * max(float(np.abs(x).max(initial=0.0)), SHORT)
    return np.asarray((x - penalty.prox(x, step)) / step)
