"""From the best point of a run to its result."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ..base.capabilities import fact
from ..base.clock import NEVER
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates.repair import pulled_inside
from ..exact import as_pair, candidates
from ..problem import Problem
from ..solvers import State
from .measured import Measured, Memory
from .monitor import Monitor, final_status
from .result import Record, Result, Status


class Resumable(NamedTuple):
    """What a later run needs to go on as if there had been no end."""

    state: State
    generator: Any
    """State of the random generator."""
    best: Measured | None
    """The best point so far, None before the start was measured."""
    memory: Memory
    engine: str
    """The engine that was asked for."""
    seconds: tuple[float, float, float]
    """What the user has waited, of it for steps and for measuring."""
    history: list[Record]
    identity: str
    """Fingerprint of the problem and the method."""

    def alone(self) -> Resumable:
        """Return copies, without what can be computed again."""
        state = dataclasses.replace(self.state.copy(), workspace=Workspace(), deadline=NEVER)
        bare = None if self.best is None else dataclasses.replace(self.best, cache=None)
        return self._replace(state=state, best=bare, history=list(self.history))


class About(NamedTuple):
    """What a result says of a run beside the point."""

    history: list[Record]
    seconds: float
    info: dict[str, Any]


def finish(
    state: State,
    best: Measured,
    monitor: Monitor,
    status: Status,
    about: About,
    kept: Resumable | None,
    as_it_is: bool = False,
) -> Result:
    """Return the result: the best point, with exact structure where that costs nothing.

    ``as_it_is`` leaves out whatever takes time.
    """
    problem = monitor.problem
    if not as_it_is and monitor.could_know_more(best, state):
        best = monitor.certified(best, state)
    best = monitor.judged(best, state)
    best = best if as_it_is else inside(structured(best, monitor, state), monitor, state)
    coef, intercept = split_off(problem, best.point.x2)
    status = final_status(status, monitor.accepts(best, state))
    limited_by = monitor.limit(best) if status is Status.STALLED or not best.in_range else None
    # "beta" of the notes is where a method began; this one belongs to the multiplier
    details = {"engine": state.engine, **state.notes, "last_beta": float(best.beta), **about.info}
    notes = fact(problem.f2, "notes")
    if notes:
        details["data"] = list(notes)
    if not best.in_range:
        details["beyond_range"] = best.beyond
    message = monitor.message(best, state)
    if limited_by is not None:
        details["limited_by"], message = limited_by, f"{message}; {limited_by}"
    return Result(
        coef=coef,
        intercept=intercept,
        x1=best.point.x1,
        x2=best.point.x2,
        dual=best.dual,
        objective=best.objective,
        feasibility=best.feasibility,
        gap=best.gap,
        relative_gap=best.relative_gap,
        kkt_residual=best.kkt_residual,
        status=status,
        message=message,
        n_epochs=state.n_epochs,
        n_passes=state.n_passes,
        n_gradients=state.n_gradients,
        seconds=about.seconds,
        output=state.output.copy(),
        ergodic=state.ergodic,
        history=about.history,
        info=details,
        state=kept,
    )


def split_off(problem: Problem, x2: Array) -> tuple[Array, Any]:
    """Return copies of the coefficients and the intercept of x2, None without one."""
    if not problem.intercept:
        return x2.copy(), None
    intercept = x2[-1]
    return x2[:-1].copy(), float(intercept) if np.ndim(intercept) == 0 else intercept.copy()


def inside(best: Measured, monitor: Monitor, state: State) -> Measured:
    """Return the best point with what follows from it inside of every domain, to the last digit.

    The computed rows of a structure may be over an edge by their rounding; where the point can
    be pulled back at no cost that counts, F of the coefficients is a number for everybody.
    """
    problem, F = monitor.problem, best.objective
    exact = problem.is_model and problem.constrained and problem.dtype == np.float64
    if not exact or problem.h1 is None or not np.isfinite(F):
        return best
    pair = pulled_inside(problem, best.point.x2, monitor.workspace)
    if pair is None or np.array_equal(pair.x2, best.point.x2):
        return best
    found = monitor.appraise(state, pair, kkt=best.kkt_residual, dual=best.dual, cache=None)
    costs = found.objective - F
    free = costs <= monitor.habits.disproved * (1.0 + abs(F)) and found.meets >= best.meets
    return found if free else best


def structured(best: Measured, monitor: Monitor, state: State) -> Measured:
    """Return the best point with exact structure if it still meets what was reached before."""
    problem = monitor.problem
    if state.exact and np.array_equal(best.point.x2, state.output.x2):
        return best
    if not problem.is_model:
        return best
    gradient = None if best.cache is None else best.cache.gradient
    if gradient is None and problem.h2 is not None and np.isfinite(best.objective):
        gradient = problem.f2.gradient(best.point.x2)
        monitor.count(state, 1.0)
    allowed = best.objective
    if best.gap is not None and np.isfinite(best.gap) and monitor.tol is not None:
        target = monitor.tol * (best.scale if monitor.relative else 1.0)
        allowed = best.objective + max(0.0, 0.5 * (target - best.gap), 0.1 * best.gap)
    x2 = best.point.x2
    for candidate in candidates(problem, x2, best.dual, best.beta, gradient, monitor.workspace):
        if np.array_equal(candidate, x2):
            return best
        found = monitor.appraise(
            state,
            as_pair(problem, candidate.astype(np.float64)),
            kkt=best.kkt_residual,
            dual=best.dual,
            cache=None,
        )
        if found.objective <= allowed and found.meets >= best.meets:
            return found
    return best
