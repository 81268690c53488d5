"""The exact x2 step of ADMM.

    argmin h2(u) + f2(u) + (beta / 2)|A2 u + target|^2,      target = A1 x1 - b + dual / beta

With a quadratic f2 and without h2 it is a solve with a factor that is kept; otherwise Newton's
method with the safeguards of ``_newton``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..metrics import structure_gram
from ..operators import Identity
from ..problem import Problem
from ..protocols import Array
from ..quadratic import minimize_quadratic
from . import _newton

MOST_MODELS = 50
Step2 = Callable[[Array, Array], Array]
"""From x2 and the target to the new x2."""


def exact_step2(problem: Problem, state: Any) -> Step2:
    """Return the x2 step for the present penalty; what it reads is counted in the state.

    ``state`` keeps ``gram``, ``factor`` and ``factor_beta`` for quadratic losses.
    """
    if _newton.is_quadratic(problem) and problem.h2 is None:
        return _quadratic_step(problem, state)
    return partial(_newton_step, problem, state)


def _quadratic_step(p: Problem, s: Any) -> Step2:
    """Return the x2 step by a factor; the gradient is read anew in every epoch."""
    f2: Any = p.f2
    at = f2.snapshot(s.x.x2)
    s.n_passes += 1
    s.n_gradients += 1
    if s.gram is None:
        s.gram, reads = _newton.hessian(f2, at.predictions)
        s.n_passes += reads
    gram, pull = s.gram, structure_gram(p)
    if s.factor is None or s.factor_beta != s.beta:
        s.factor = _newton.factor(gram + s.beta * _newton.widen(pull, gram))
        s.factor_beta = s.beta
    base, gradient, factor = at.x.astype(np.float64), at.gradient.astype(np.float64), s.factor

    def step(u: Array, target: Array) -> Array:
        slope = gradient + _newton.apply(gram, u - base)
        if p.A2 is not None:
            slope = slope + s.beta * p.A2.rmatvec(p.A2.matvec(u) + target)
        return (u - _newton.solve(factor, slope)).astype(p.dtype)

    return step


def _newton_step(p: Problem, s: Any, u: Array, target: Array) -> Array:
    """Minimize by Newton's method."""
    found, reads, models = solve_x2(p, u, target, s.beta)
    s.n_passes += reads
    s.n_gradients += models
    return found


def solve_x2(problem: Problem, start: Array, target: Array, beta: float) -> tuple[Array, int, int]:
    """Return argmin h2(u) + f2(u) + (beta / 2)|A2 u + target|^2, reads of the rows, models.

    Newton's method with the safeguards of this module; it ends where the values of the data's type
    can tell no more, or after ``MOST_MODELS`` models.
    """
    f2: Any = problem.f2
    relative = _newton.rounding(problem.dtype)
    u, share, reads = start.astype(np.float64), _newton.FIRST_SHARE, 1
    gram = beta * structure_gram(problem)
    z = f2.predict(start)

    def value(w: Array, predictions: Array) -> float:
        pull = 0.0 if problem.A2 is None else float(np.sum((problem.A2.matvec(w) + target) ** 2))
        rest = 0.0 if problem.h2 is None else float(problem.h2.value(w))
        return f2.value_at(predictions) + 0.5 * beta * pull + rest  # type: ignore[no-any-return]

    for models in range(1, MOST_MODELS + 1):  # noqa: B007
        gradient = f2.pull_back(f2.slopes(z)) / f2.n_terms
        if problem.A2 is not None:
            gradient = gradient + beta * problem.A2.rmatvec(problem.A2.matvec(u) + target)
        H, looked = _newton.hessian(f2, z, share)
        H = H + _newton.widen(gram, H)
        move, decrease = _minimizer(problem, H, gradient, u)
        reads += looked + 1
        now = value(u, z)
        if -decrease <= relative * abs(now):  # values tell no more: the last step is taken
            u = u + move
            break
        ahead = f2.predict((u + move).astype(f2.dtype))
        reads += 1
        along = partial(_along, value, u, move, z, ahead - z)
        t = _newton.line_search(along, now, decrease, relative)
        if t == 0 and share == 1:  # not even the upper model descends: rounding decides
            break
        u, z, share = u + t * move, z + t * (ahead - z), _newton.next_share(share, t)
    return u.astype(problem.dtype), reads, models


def _along(
    value: Callable[[Array, Array], float],
    u: Array,
    move: Array,
    z: Array,
    change: Array,
    t: float,
) -> float:
    return value(u + t * move, z + t * change)


def _minimizer(problem: Problem, H: Array, gradient: Array, u: Array) -> tuple[Array, float]:
    """Return the step to the model's minimizer and the decrease that it promises."""
    slope = gradient.astype(np.float64)
    if problem.h2 is None:
        move = -_newton.solve(_newton.factor(H), slope)
        return move, float(np.sum(slope * move))
    w = minimize_quadratic(H, slope, u, Identity(len(u)), problem.h2, tol=1e-12).z
    move = w - u
    rise = float(problem.h2.value(w)) - float(problem.h2.value(u))
    return move, float(np.sum(slope * move)) + (rise if np.isfinite(rise) else 0.0)
