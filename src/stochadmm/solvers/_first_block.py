"""The x1 step of ADMM.

    argmin h1(u) + f1(u) + (beta / 2)|A1 u + target|^2,      target = A2 x2 - b + dual / beta

It is one prox where A1'A1 = s I and f1 is absent. Otherwise "exact" minimizes the quadratic and h1
together, with f1, of which only gradients are known, replaced by its quadratic upper bound at
accelerated points until these stand still; "linearized" takes one prox step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._newton import rounding
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.validation import Unsuitable
from ..base.workspace import Workspace
from ..forms.dense_step import LARGEST_DENSE, gram_of
from ..linear_algebra import cholesky
from ..problem import Problem
from ._second_block import SmallProblem
from ._steps import lengths, step1, tightness

FORMS = ("auto", "exact", "linearized")
Step1 = Callable[[Array, Array], Array]
"""From x1 and the target to the new x1."""


def check_form(requested: str) -> None:
    """Raise unless ``requested`` is a known form of the x1 step."""
    if requested not in FORMS:
        raise ValueError(f"first_block is {requested!r}, expected 'auto', 'exact' or 'linearized'")


def is_prox(problem: Problem) -> bool:
    """Say whether the exact step is one prox of h1, or there is no x1."""
    return problem.A1 is None or (problem.f1 is None and tightness(problem) is not None)


def chosen_form(problem: Problem, requested: str, affordable: int = 500) -> str:
    """Return "prox", "exact" or "linearized".

    Up to so many ``affordable`` rows of x1, "auto" is exact: a system costs less than passes over
    most data.
    """
    if is_prox(problem):
        return "prox"
    if requested == "auto":
        return "exact" if problem.shape1[0] <= affordable else "linearized"
    return requested


def check_first_block(problem: Problem, requested: str, name: str) -> None:
    """Raise where the exact step would need too large a matrix."""
    p = problem.shape1[0]
    if chosen_form(problem, requested) == "exact" and p > LARGEST_DENSE:
        raise Unsuitable(
            f"{name} with first_block='exact' works with {p} x {p} matrices; use "
            f"first_block='linearized' above {LARGEST_DENSE} columns of A1"
        )


def first_step(
    problem: Problem,
    beta: float,
    requested: str,
    most: int,
    relaxation: float = 1.0,
    *,
    workspace: Workspace,
    deadline: Deadline = NEVER,
) -> Step1:
    """Return the x1 step for one penalty; ``most`` bounds the inner steps that f1 needs.

    Over-relaxed methods shorten a step along the gradient of f1: with the weight L1 / (2 - alpha)
    it stays as far from its limit as the relaxation is from 2.
    """
    form = chosen_form(problem, requested)
    if form == "exact":
        return _Exact(problem, beta, most, deadline)
    extra = max(1.0, 1 / (2 - relaxation))
    step, _ = lengths(problem, 0.0, beta, workspace=workspace)
    if problem.f1 is not None:
        step = 1 / (1 / step + (extra - 1) * float(problem.f1.lipschitz))

    def one_prox(x1: Array, target: Array) -> Array:
        if problem.A1 is None:
            return x1
        return step1(problem, x1, beta * (problem.A1.matvec(x1) + target), step)

    return one_prox


class _Exact:
    """Minimizes h1 + f1 + (beta / 2)|A1 u + target|^2 to the rounding of the problem's type."""

    def __init__(self, problem: Problem, beta: float, most: int, deadline: Deadline) -> None:
        self.problem, self.beta, self.most, self.deadline = problem, beta, most, deadline
        smooth = 0.0 if problem.f1 is None else float(problem.f1.lipschitz)
        self.H = beta * gram_of(problem.A1, problem.shape1[0])
        self.H.flat[:: len(self.H) + 1] += smooth
        self.small: Callable[[Array, Array], Array]
        if problem.h1 is None:
            factor = cholesky.factor(self.H)
            self.small = lambda at, derivative: at - cholesky.solve(factor, derivative)
        else:
            self.small = SmallProblem(self.H, problem.h1, problem.shape1, deadline)

    def __call__(self, x1: Array, target: Array) -> Array:
        start, aim = x1.astype(np.float64), target.astype(np.float64)
        if self.problem.f1 is None:
            found = self.small(start, self._pull(start, aim))
        else:
            found = self._with_f1(start, aim, self.problem.f1)
        return found.astype(self.problem.dtype)

    def _pull(self, at: Array, target: Array) -> Array:
        A1: Any = self.problem.A1
        return np.asarray(self.beta * A1.rmatvec(A1.matvec(at) + target))

    def _with_f1(self, start: Array, target: Array, f1: Any) -> Array:
        x = y = start
        momentum, least = 1.0, rounding(self.problem.dtype)
        for _ in range(self.most):
            ahead = self.small(y, f1.gradient(y) + self._pull(y, target))
            moved, step = ahead - y, ahead - x
            x = ahead
            still = np.abs(moved).max(initial=0.0) <= least * np.abs(x).max(initial=0.0)
            if still or self.deadline.passed():
                break
            if np.vdot(moved, step) < 0:  # overshot: momentum begins anew
                momentum, y = 1.0, x
                continue
            following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            y, momentum = x + (momentum - 1) / following * step, following
        return x
