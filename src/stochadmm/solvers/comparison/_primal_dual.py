"""What the primal-dual methods share: the step of the multiplier.

H(v) = min h1(x1)  s.t.  A1 x1 + v = b        lambda+ = prox_{sigma H*}(lambda + sigma A2 x2)
"""

from __future__ import annotations

from ...base.protocols import Array
from ...base.validation import is_number
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._steps import solve_x1


def dual_step(
    problem: Problem, x2: Array, dual: Array, sigma: float, workspace: Workspace | None = None
) -> tuple[Array, Array]:
    """Return x1 and lambda+ = prox_{sigma H*}(lambda + sigma A2 x2).

    By Moreau's identity this is the x1 step and the multiplier step of ADMM with penalty sigma.
    """
    x1 = solve_x1(problem, x2, dual, sigma, workspace)
    return x1, dual + sigma * problem.constraint(Pair(x1, x2))


def pull_back(problem: Problem, dual: Array) -> Array | float:
    """Return A2' lambda, 0 without a constraint."""
    return 0.0 if problem.A2 is None else problem.A2.rmatvec(dual)


def check_positive(name: str, value: float | str, *words: str) -> None:
    """Raise unless ``value`` is one of the words or a finite number > 0."""
    if value in words or (is_number(value) and 0 < value < float("inf")):
        return
    choices = "".join(f"{word!r} or " for word in words)
    raise ValueError(f"{name} is {value!r}, expected {choices}a number > 0")
