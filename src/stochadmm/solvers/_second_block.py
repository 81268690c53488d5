"""The exact x2 step of ADMM.

    argmin h2(u) + f2(u) + (beta / 2)|A2 u + target|^2,      target = A1 x1 - b + dual / beta

With a quadratic f2 it is a solve with a factor that is kept, or with h2 a small quadratic problem
that reads no rows; otherwise Newton's method with damping.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._newton import backtrack, is_quadratic, rounding
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.dense_step import structure_gram
from ..linear_algebra import cholesky
from ..operators import Identity
from ..problem import Problem
from ..quadratic import QuadraticModel, QuadraticOptions, minimize_quadratic
from ..risk import FiniteSum
from ..risk.curvature import RowSample, SampledHessian, is_implicit, shares_curvature

SMALL_TOL = 1e-12
"""Relative residual of small problems: all that float64 gives, one step more than 1e-8."""
Step2 = Callable[[Array, Array], Array]
"""From x2 and the target to the new x2."""


def exact_step2(problem: Problem, state: Any) -> Step2:
    """Return the x2 step for the present penalty; what it reads is counted in the state.

    ``state`` keeps ``gram``, ``factor`` and ``factor_beta`` for quadratic losses.
    """
    if is_quadratic(problem):
        return _quadratic_step(problem, state)
    return partial(_newton_step, problem, state)


def _quadratic_step(p: Problem, s: Any) -> Step2:
    """Return the x2 step on the Hessian at hand; the gradient is read anew in every epoch."""
    f2: Any = p.f2
    at = f2.evaluate(s.x.x2)
    s.n_passes += 1
    s.n_gradients += 1
    if s.gram is None:
        s.gram, reads = full_hessian(f2, at.predictions)
        s.n_passes += reads
    gram, pull = s.gram, structure_gram(p, s.workspace)
    H = gram + s.beta * cholesky.widen(pull, gram)
    base, gradient = at.x.astype(np.float64), at.gradient.astype(np.float64)
    minimizer: Callable[[Array, Array], Array]
    if p.h2 is not None:
        minimizer = SmallProblem(H, p.h2, p.shape2, s.deadline)
    else:
        if s.factor is None or s.factor_beta != s.beta:
            s.factor, s.factor_beta = cholesky.factor(H), s.beta
        minimizer = partial(_solved, s.factor)

    def step(u: Array, target: Array) -> Array:
        derivative = gradient + cholesky.apply(gram, u - base)
        if p.A2 is not None:
            derivative = derivative + s.beta * p.A2.rmatvec(p.A2.matvec(u) + target)
        return minimizer(u, derivative).astype(p.dtype)

    return step


def _solved(factor: Array, at: Array, derivative: Array) -> Array:
    return at - cholesky.solve(factor, derivative)


class SmallProblem:
    """Minimizes <g, u - at> + 1/2 <u - at, H (u - at)> + h(u) for one H and many gradients g."""

    def __init__(
        self, H: Array, h: Any, shape: tuple[int, ...], deadline: Deadline = NEVER
    ) -> None:
        self.deadline = deadline
        self.H = H
        options = QuadraticOptions(anchored=True)
        self.model = QuadraticModel(Identity(shape[0]), h, None, shape, options=options)
        self.warm: dict[str, Any] = {}

    def __call__(self, at: Array, derivative: Array) -> Array:
        start = at.astype(np.float64)
        found = self.model.minimize(
            self.H, derivative, start, tol=SMALL_TOL, deadline=self.deadline, **self.warm
        )
        self.warm = {"dual": found.dual, "penalty": found.penalty}
        return found.z


def _newton_step(p: Problem, s: Any, u: Array, target: Array) -> Array:
    """Minimize by Newton's method."""
    found, reads, models = solve_x2(p, u, target, s.beta, s.workspace, s.deadline)
    s.n_passes += reads
    s.n_gradients += models
    return found


def solve_x2(
    problem: Problem,
    start: Array,
    target: Array,
    beta: float,
    workspace: Workspace | None = None,
    deadline: Deadline = NEVER,
) -> tuple[Array, int, int]:
    """Return argmin h2(u) + f2(u) + (beta / 2)|A2 u + target|^2, reads of the rows, models.

    Newton's method with the safeguards of this module; it ends where the values of the data's type
    can tell no more, or after 50 models: damped ones may need some tens far from the minimum.
    """
    f2: Any = problem.f2
    relative = rounding(problem.dtype)
    # A share of the curvature bound is added to H: at first enough to keep the first step of a
    # flat loss in sight; at one the model is above f2, so that a larger share ends in descent.
    u, share, reads = start.astype(np.float64), 1e-3, 1
    gram = beta * structure_gram(problem, workspace)
    z = f2.predict(start)

    def value(w: Array, predictions: Array) -> float:
        pull = 0.0 if problem.A2 is None else float(np.sum((problem.A2.matvec(w) + target) ** 2))
        rest = 0.0 if problem.h2 is None else float(problem.h2.value(w))
        return f2.value_at(predictions) + 0.5 * beta * pull + rest  # type: ignore[no-any-return]

    for models in range(1, 51):  # noqa: B007
        gradient = f2.pull_back(f2.derivatives(z)) / f2.n_terms
        if problem.A2 is not None:
            gradient = gradient + beta * problem.A2.rmatvec(problem.A2.matvec(u) + target)
        H, looked = full_hessian(f2, z, share)
        H = H + cholesky.widen(gram, H)
        move, decrease = _minimizer(problem, H, gradient, u, deadline)
        reads += looked + 1
        now = value(u, z)
        if -decrease <= relative * abs(now):  # values tell no more: the last step is taken
            u = u + move
            break
        ahead = f2.predict((u + move).astype(f2.dtype))
        reads += 1
        along = partial(_along, value, u, move, z, ahead - z)
        t = backtrack(along, now, 1e-3 * min(decrease, 0.0), relative * abs(now))
        if t == 0 and share == 1:  # not even the upper model descends: rounding decides
            break
        if t > 0:
            u, z = u + t * move, z + t * (ahead - z)
        if deadline.passed():
            break
        share = max(1e-7, share / 10) if t == 1 else min(1.0, 10 * share)
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


def _minimizer(
    problem: Problem, H: Array, gradient: Array, u: Array, deadline: Deadline
) -> tuple[Array, float]:
    """Return the step to the model's minimizer and the decrease that it promises."""
    derivative = gradient.astype(np.float64)
    if problem.h2 is None:
        move = -cholesky.solve(cholesky.factor(H), derivative)
        return move, float(np.sum(derivative * move))
    w = minimize_quadratic(
        H, derivative, u, Identity(len(u)), problem.h2, tol=SMALL_TOL, deadline=deadline
    ).z
    move = w - u
    rise = float(problem.h2.value(w)) - float(problem.h2.value(u))
    return move, float(np.sum(derivative * move)) + (rise if np.isfinite(rise) else 0.0)


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
