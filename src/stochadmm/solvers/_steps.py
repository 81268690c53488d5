"""What the methods are made of: block steps, step lengths, averages, penalty schedules.

min  h1(x1) + f1(x1) + h2(x2) + f2(x2)     s.t.  A1 x1 + A2 x2 = b

"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.validation import Unsuitable, is_number, is_whole
from ..base.workspace import Workspace
from ..operators import identity_scale, squared_norm
from ..problem import Pair, Problem
from . import defaults

# ---------------------------------------------------------------- block steps


def step1(
    problem: Problem, center: Array, multiplier: Array, step: float, at: Array | None = None
) -> Array:
    """Return argmin h1(x) + <grad f1(at) + A1' multiplier, x> + |x - center|^2 / (2 step).

    f1 is linearized at the center unless ``at`` says where.
    """
    if problem.A1 is None:
        return center
    gradient = problem.A1.rmatvec(multiplier)
    if problem.f1 is not None:
        gradient = gradient + problem.f1.gradient(center if at is None else at)
    x1 = center - step * gradient
    return x1 if problem.h1 is None else problem.h1.prox(x1, step)


def step2(
    problem: Problem, center: Array, multiplier: Array, gradient: Array, step: float
) -> Array:
    """Return argmin h2(x) + <gradient + A2' multiplier, x> + |x - center|^2 / (2 step)."""
    if problem.A2 is not None:
        gradient = gradient + problem.A2.rmatvec(multiplier)
    x2 = center - step * gradient
    return x2 if problem.h2 is None else problem.h2.prox(x2, step)


def lengths(
    problem: Problem, curvature: float, pull: float, share: float = 1.0, *, workspace: Workspace
) -> tuple[float, float]:
    """Return the safe steps of both blocks: 1 / (L1 + pull |A1|^2), 1 / (curvature + pull |A2|^2).

    ``curvature`` is the weight of the x2 step that is due to the loss, ``pull`` the penalty of the
    constraint, ``share`` a factor of L1. A block without any curvature gets the step 1.
    """
    smooth = 0.0 if problem.f1 is None else share * float(problem.f1.lipschitz)
    a1, a2 = (squared_norm(A, workspace) for A in (problem.A1, problem.A2))
    first, second = smooth + pull * a1, curvature + pull * a2
    return 1 / first if first > 0 else 1.0, 1 / second if second > 0 else 1.0


def tightness(problem: Problem, workspace: Workspace | None = None) -> float | None:
    """Return s when A1' A1 = s I with s > 0, ``None`` otherwise or without a constraint."""
    return (workspace or Workspace()).shared.once(_tightness, problem.A1)


def _tightness(A1: Any) -> float | None:
    scale = identity_scale(A1)
    if scale is not None:
        return scale**2
    if A1 is None or not offers(A1, Has.SPARSE):
        return None
    matrix = sparse.csr_array(A1.tosparse(), dtype=np.float64)
    gram = sparse.csr_array(matrix.T @ matrix)
    s = float(gram.diagonal().mean())
    rest = gram - s * sparse.eye_array(gram.shape[0], format="csr")
    return s if s > 0 and abs(rest).max() <= 1e-12 * s else None


def solve_x1(
    problem: Problem, x2: Array, dual: Array, beta: float, workspace: Workspace | None = None
) -> Array:
    """Return argmin h1(x1) + <dual, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2, exactly.

    One prox where A1' A1 is a multiple of the identity and f1 is absent; a method that calls this
    says so with `check_exact_x1`.
    """
    if problem.A1 is None or problem.A2 is None:
        return problem.zeros().x1
    workspace = workspace or Workspace()
    check_exact_x1(problem, "the exact x1 step", workspace)
    s = tightness(problem, workspace) or 1.0
    rest = problem.A2.matvec(x2) + dual / beta
    if problem.b is not None:
        rest = rest - problem.b
    x1 = problem.A1.rmatvec(rest) / -s
    return x1 if problem.h1 is None else problem.h1.prox(x1, 1 / (beta * s))


def update_x1(problem: Problem, x: Pair, dual: Array, beta: float, workspace: Workspace) -> Array:
    """Return the x1 step of ADMM from x: exact where it is a prox, linearized at x1 otherwise.

    With A1' A1 = s I and f1 absent the linearized step with its safe length is the exact one.
    """
    step, _ = lengths(problem, 0.0, beta, workspace=workspace)
    return step1(problem, x.x1, dual + beta * problem.constraint(x), step)


def dual_step(
    problem: Problem, x2: Array, dual: Array, sigma: float, workspace: Workspace | None = None
) -> tuple[Array, Array]:
    """Return x1 and lambda+ = prox_{sigma H*}(lambda + sigma A2 x2).

    H(v) is the least h1(x1) with A1 x1 + v = b. By Moreau's identity these are the x1 step and the
    multiplier step of ADMM with penalty sigma.
    """
    x1 = solve_x1(problem, x2, dual, sigma, workspace)
    return x1, dual + sigma * problem.constraint(Pair(x1, x2))


def pull_back(problem: Problem, dual: Array) -> Array | float:
    """Return A2' lambda, 0 without a constraint."""
    return 0.0 if problem.A2 is None else problem.A2.rmatvec(dual)


def check_exact_x1(problem: Problem, name: str, workspace: Workspace | None = None) -> None:
    """Raise unless the exact x1 step is a prox of h1."""
    if problem.A1 is None:
        return
    if problem.f1 is not None:
        raise Unsuitable(f"{name} needs f1 absent; use 'linearized-admm', which steps along f1")
    if tightness(problem, workspace) is None:
        raise Unsuitable(
            f"{name} needs A1 with A1'A1 = s I, such as Identity(p, scale=-1.0); use "
            "'linearized-admm', which takes any A1"
        )


# ---------------------------------------------------------------- averages


@dataclass(frozen=True)
class Average:
    """Weighted mean of pairs; adding gives a new average.

    Examples
    --------
    >>> import numpy as np
    >>> mean = Average.empty()
    >>> for value in (1.0, 4.0):
    ...     mean = mean.add(Pair(np.zeros(0), np.array([value])), weight=value)
    >>> mean.weight, mean.value.x2
    (5.0, array([3.4]))
    """

    value: Pair | None
    weight: float

    @classmethod
    def empty(cls) -> Average:
        """Return the average of nothing."""
        return cls(None, 0.0)

    def add(self, x: Pair, weight: float = 1.0) -> Average:
        """Return the average with one more point of the given weight."""
        total = self.weight + weight
        if self.value is None or weight == total:
            return Average(x, total)
        return Average(self.value + weight / total * (x - self.value), total)

    def add_sum(self, total: Pair, count: float) -> Average:
        """Return the average with ``count`` more points of weight 1 whose sum is given."""
        return self.add(total / count, count)

    @property
    def point(self) -> Pair:
        """The mean of at least one point."""
        if self.value is None:
            raise ValueError("no point was added to the average; add one first")
        return self.value

    def copy(self) -> Average:
        """Return an average with arrays of its own."""
        return Average(None if self.value is None else self.value.copy(), self.weight)


# ---------------------------------------------------------------- the penalty of the constraint


@dataclass(frozen=True)
class Continuation:
    """A growing penalty parameter: beta_s = min(cap, rho^s beta_0) in epoch s.

    Pass it as ``beta`` to methods whose penalty parameter is constant inside an epoch. The dual
    variable is kept as it is when the penalty parameter changes.

    Parameters
    ----------
    beta0 : float or "auto"
        Penalty parameter of the first epoch; "auto" estimates it from the data.
    rho : float, default=1.5
        Factor from one epoch to the next, at least 1.
    cap : float, default=10
        Largest penalty parameter.

    Examples
    --------
    >>> [Continuation(0.5, rho=2.0).at(s) for s in (0, 1, 2, 100)]
    [0.5, 1.0, 2.0, 10.0]
    """

    beta0: float | str = "auto"
    rho: float = 1.5
    cap: float = 10.0

    def __post_init__(self) -> None:
        if not (self.rho >= 1 and math.isfinite(self.rho)):
            raise ValueError(f"rho is {self.rho!r}, expected a number >= 1")
        if not self.cap > 0:
            raise ValueError(f"cap is {self.cap!r}, expected a number > 0")

    def at(self, s: int) -> float:
        """Return the penalty of epoch s."""
        beta = float(self.beta0)
        if s * math.log(self.rho) >= math.log(self.cap / beta):
            return self.cap
        return beta * self.rho**s

    def following(self, beta: float) -> float:
        """Return the penalty of the next epoch."""
        return min(self.cap, self.rho * beta)


Beta = float | str | Continuation
"""A number, "auto", or a schedule."""


def as_schedule(requested: Beta) -> Continuation:
    """Return a penalty as a schedule; a number, or "auto", stays as it is."""
    if isinstance(requested, Continuation):
        return requested
    return Continuation(requested, rho=1.0, cap=math.inf)


def first_beta(problem: Problem, requested: Beta, workspace: Workspace | None = None) -> float:
    """Return the penalty of the first epoch."""
    schedule = as_schedule(requested)
    return min(schedule.cap, defaults.beta(problem, schedule.beta0, workspace))


def next_beta(requested: Beta, beta: float) -> float:
    """Return the penalty of the epoch after one with ``beta``."""
    return as_schedule(requested).following(beta)


def balanced_beta(problem: Problem, x: Pair, before2: Array, dual: Array, beta: float) -> float:
    """Return the penalty that makes primal and dual residual of ADMM equal, both relative.

    The residuals are r = A1 x1 + A2 x2 - b and beta A2 (x2 - before2). As in OSQP the penalty
    changes only by a factor of at least 5, here also by at most 10.
    """
    if problem.A1 is None or problem.A2 is None:
        return beta
    primal = _ratio(problem.constraint(x), *images(problem, x))
    moved = _ratio(beta * problem.A2.matvec(x.x2 - before2), dual)
    if primal == 0 or moved == 0:
        return beta
    factor = min(10.0, max(0.1, math.sqrt(primal / moved)))
    return beta * factor if factor >= 5 or factor <= 0.2 else beta


def images(problem: Problem, x: Pair) -> tuple[Array, ...]:
    """Return A1 x1, A2 x2 and b, the sizes that an infeasibility is relative to."""
    if problem.A1 is None or problem.A2 is None:
        return (problem.zeros_dual(),)
    found = (problem.A1.matvec(x.x1), problem.A2.matvec(x.x2))
    return found if problem.b is None else (*found, problem.b)


def adapted_beta(
    requested: Beta,
    problem: Problem,
    n_epochs: int,
    x: Pair,
    before2: Array,
    dual: Array,
    beta: float,
    balanced: int = 30,
) -> float:
    """Return the penalty of the epoch after ``n_epochs``, for methods that may change it.

    A schedule is followed, a number kept, and "auto" balanced for the first ``balanced`` epochs:
    finitely many changes leave every proof intact.
    """
    if requested == "auto" and n_epochs <= balanced:
        return balanced_beta(problem, x, before2, dual, beta)
    return next_beta(requested, beta)


def _ratio(part: Array, *whole: Array) -> float:
    size = max(float(np.linalg.norm(w)) for w in whole)
    return float(np.linalg.norm(part)) / size if size > 0 else 0.0


# ---------------------------------------------------------------- parameters


RETURNS = ("last", "ergodic")


def check_returns(returns: str) -> None:
    """Raise unless ``returns`` is a known choice of the output."""
    if returns not in RETURNS:
        raise ValueError(f"returns is {returns!r}, expected 'last' or 'ergodic'")


def check_slack(slack: float) -> None:
    """Raise unless two blocks in parallel have room."""
    if not slack > 2:
        raise ValueError(f"slack is {slack!r}, expected a number > 2, the number of blocks")


def check_positive(name: str, value: float | str, *words: str) -> None:
    """Raise unless ``value`` is one of the words or a finite number > 0."""
    if value in words or (is_number(value) and 0 < value < float("inf")):
        return
    choices = "".join(f"{word!r} or " for word in words)
    raise ValueError(f"{name} is {value!r}, expected {choices}a number > 0")


def check_count(name: str, value: int) -> None:
    """Raise unless ``value`` is a whole number >= 1."""
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} is {value!r}, expected an integer >= 1")


def slowed_down(values: list[float]) -> bool:
    """Say whether the last decrease is less than half of the best one of this cycle."""
    known = [v for v in values if np.isfinite(v)]
    if len(known) < 3:
        return False
    drops = -np.diff(known)
    return bool(drops[-1] < 0.5 * drops.max())
