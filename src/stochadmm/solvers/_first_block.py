"""The x1 step of ADMM.

    argmin h1(u) + f1(u) + (beta / 2)|A1 u + target|^2,      target = A2 x2 - b + dual / beta

It is one prox where A1'A1 = s I and f1 is absent. Otherwise "exact" is a small quadratic problem,
or with f1, of which only gradients are known, accelerated prox steps until these stand still;
"linearized" takes one prox step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..metrics import LARGEST_DENSE, gram_of
from ..problem import Problem
from ..protocols import Array
from . import _newton
from ._second_block import SmallProblem, solved
from ._steps import lengths, step1, tightness

FORMS = ("auto", "exact", "linearized")
AFFORDABLE = 500
"""Rows of x1 up to which "auto" is exact: a system costs less than passes over most data."""
Step1 = Callable[[Array, Array], Array]
"""From x1 and the target to the new x1."""


def check_form(requested: str) -> None:
    """Raise unless ``requested`` is a known form of the x1 step."""
    if requested not in FORMS:
        raise ValueError(f"first_block is {requested!r}, expected 'auto', 'exact' or 'linearized'")


def is_prox(problem: Problem) -> bool:
    """Say whether the exact step is one prox of h1, or there is no x1."""
    return problem.A1 is None or (problem.f1 is None and tightness(problem) is not None)


def chosen_form(problem: Problem, requested: str) -> str:
    """Return "prox", "exact" or "linearized"."""
    if is_prox(problem):
        return "prox"
    if requested == "auto":
        cheap = problem.f1 is None and problem.shape1[0] <= AFFORDABLE
        return "exact" if cheap else "linearized"
    return requested


def check_first_block(problem: Problem, requested: str, name: str) -> None:
    """Raise where the exact step would need too large a matrix."""
    p = problem.shape1[0]
    if matrix_size(problem, requested) and p > LARGEST_DENSE:
        raise ValueError(
            f"{name} with first_block='exact' works with {p} x {p} matrices; use "
            f"first_block='linearized' above {LARGEST_DENSE} columns of A1"
        )


def matrix_size(problem: Problem, requested: str) -> int:
    """Return the numbers in the matrices of the exact step."""
    needed = problem.f1 is None and chosen_form(problem, requested) == "exact"
    return 4 * problem.shape1[0] ** 2 if needed else 0


def first_step(
    problem: Problem, beta: float, requested: str, most: int, relaxation: float = 1.0
) -> Step1:
    """Return the x1 step for one penalty; ``most`` bounds the inner steps that f1 needs.

    Over-relaxed methods shorten a step along the gradient of f1: with the weight L1 / (2 - alpha)
    it stays as far from its limit as the relaxation is from 2.
    """
    form = chosen_form(problem, requested)
    if form == "exact" and problem.f1 is None:
        return _small_problem(problem, beta)
    step, _ = lengths(problem, 0.0, beta)
    if form == "linearized" and problem.f1 is not None:
        extra = max(1.0, 1 / (2 - relaxation))
        step = 1 / (1 / step + (extra - 1) * float(problem.f1.lipschitz))

    def one_prox(x1: Array, target: Array) -> Array:
        if problem.A1 is None:
            return x1
        return step1(problem, x1, beta * (problem.A1.matvec(x1) + target), step)

    if form != "exact":
        return one_prox
    least = _newton.rounding(problem.dtype)
    return lambda x1, target: _accelerated(partial(one_prox, target=target), x1, least, most)


def _small_problem(problem: Problem, beta: float) -> Step1:
    """Return the step without f1, on the dense matrix beta A1'A1."""
    A1: Any = problem.A1
    H = beta * gram_of(A1, problem.shape1[0])
    if problem.h1 is None:
        minimizer: Step1 = partial(solved, _newton.factor(H))
    else:
        minimizer = SmallProblem(H, problem.h1, problem.shape1)

    def step(x1: Array, target: Array) -> Array:
        at = x1.astype(np.float64)
        slope = beta * A1.rmatvec(A1.matvec(at) + target.astype(np.float64))
        return minimizer(at, slope).astype(problem.dtype)

    return step


def _accelerated(prox_step: Callable[[Array], Array], x: Array, least: float, most: int) -> Array:
    """Repeat a prox step with momentum until it moves by no more than rounding."""
    y, momentum = x, 1.0
    for _ in range(most):
        ahead = prox_step(y)
        moved, step = ahead - y, ahead - x
        x = ahead
        if np.abs(moved).max(initial=0.0) <= least * np.abs(x).max(initial=0.0):
            break
        if np.vdot(moved, step) < 0:  # overshot: momentum begins anew
            momentum, y = 1.0, x
            continue
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        y, momentum = x + (momentum - 1) / following * step, following
    return x
