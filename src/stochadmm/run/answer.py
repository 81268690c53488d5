"""From the best point of a run to its result, in the units of the user."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..base.capabilities import fact
from ..base.clock import NEVER
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates.repair import pulled_inside
from ..exact import as_pair, candidates
from ..forms.equilibrate import Units
from ..forms.summary import Summarized, checked_against_rows
from ..problem import Pair, Problem
from ..risk.finite_sum import FiniteSum
from ..risk.streamed import StreamedSum
from ..solvers import State, start_point
from .monitor import DISPROVED, Measured, Memory, Monitor, final_status, infeasibility
from .result import Record, Result, Status, point_and_dual
from .stopping import Rule


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
    free = costs <= DISPROVED * (1.0 + abs(F)) and found.meets >= best.meets
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


def start_in(units: Units, start: Any) -> Any:
    """Return what a run may start from in the units of the solver."""
    point, dual = point_and_dual(start)
    if point is None:
        return None
    pair, multiplier = start_point(units.original, point, dual)
    return units.into(pair), None if dual is None else units.into_dual(multiplier)


def start_without_rows(whole: Summarized, start: Any) -> Any:
    """Return what a run may start from in the coordinates of the problem without rows."""
    point, dual = point_and_dual(start)
    if point is None:
        return None
    pair, multiplier = start_point(whole.original, point, dual)
    return whole.into(pair), None if dual is None else multiplier


def result_of(units: Units, found: Result, rule: Rule) -> Result:
    """Return a result in the units of the user, with what is true of its arrays there."""
    problem, pair = units.original, units.back(found.pair)
    coef, intercept = found.coef, found.intercept
    if problem.intercept:
        coef = np.concatenate([coef, np.reshape(intercept, (1, *coef.shape[1:]))])
    inside = Pair(found.x1, coef.astype(found.x2.dtype))
    whole = units.back(inside).x2 + 0
    coef, intercept = split_off(problem, whole)
    found = replace(
        found,
        coef=coef,
        intercept=intercept,
        x1=pair.x1 if units.ties is None else units.within(pair).x1,
        x2=pair.x2,
        dual=units.back_dual(found.dual),
        output=units.back(found.output),
        ergodic=None if found.ergodic is None else units.back(found.ergodic),
        info=found.info | {"units": units.describe()},
    )
    if units.rows is not None and units.ties is None:
        found = replace(found, feasibility=infeasibility(problem, pair)[1])
        found = _renewed(found, found.objective, rule)
    limited = units.limited(Pair(pair.x1, whole))
    if units.ties is not None:
        found = _renewed(found, found.objective + limited, rule)
    exact = units.shift is None and np.array_equal(units.into(Pair(pair.x1, whole)).x2, inside.x2)
    if exact:
        return found
    # The point was rounded on its way back. Its F is computed in the units of the solver, where
    # the intercept and what is shifted against it do not cancel.
    scaled, moved = units.problem, units.into(Pair(found.x1, whole.astype(np.float64)))
    point = scaled.feasible(Pair(moved.x1.astype(np.float64), moved.x2))
    at = cast(FiniteSum, scaled.f2).evaluate_exactly(point.x2)
    return _renewed(found, at.value + scaled.penalty(point) + limited, rule)


def summary_result(whole: Summarized, found: Result, rule: Rule, reads: float) -> Result:
    """Return the result of a problem without rows, with F of its arrays read off the rows.

    ``reads`` is what the problem without rows took; strengths of a path share it.
    """
    problem = whole.original
    x2, objective = checked_against_rows(whole, found.coef.astype(np.float64))
    coef, intercept = split_off(problem, x2 + 0)
    ergodic = None if found.ergodic is None else whole.back(found.ergodic)
    route = found.info.get("route", found.info["solver"])
    why = "a squared loss: sums of products make the rows superfluous"
    found = replace(
        found,
        coef=coef,
        intercept=intercept,
        x2=whole.back(found.pair).x2,
        output=whole.back(found.output),
        ergodic=ergodic,
        # the read that F is checked by comes after all steps
        n_passes=reads + 1.0,
        n_gradients=reads + 1.0,
        history=[replace(record, passes=reads, gradients=reads) for record in found.history],
        info=found.info
        | {
            "route": "streamed-gram",
            "inner_route": route,
            "reason": why,
            "data": list(cast(StreamedSum, problem.f2).notes),
        },
    )
    # sums of products are those of rows that differ from the user's by rounding
    return _renewed(found, objective, rule, whole.rounding.most(objective))


def _renewed(found: Result, objective: float, rule: Rule, slack: float = 0.0) -> Result:
    """Return a result with another objective, and the gap and verdict that follow from it.

    ``slack`` is how much lower than the bound of the run the optimum may be.
    """
    if found.gap is None or not found.history:
        return replace(found, objective=objective)
    bound = found.objective - found.gap - slack
    # an objective that is lower by rounding proves nothing that the bound did not
    gap = max(objective - bound, found.gap + slack) if np.isfinite(objective) else np.inf
    if objective < bound - DISPROVED * (1.0 + abs(bound)):
        gap = np.inf  # a bound that a feasible point refutes
    size = found.gap / found.relative_gap if found.relative_gap else abs(found.objective)
    relative = gap / size if size > 0 else (0.0 if gap == 0 else np.inf)
    record = replace(
        found.history[-1],
        objective=objective,
        gap=gap,
        relative_gap=relative,
        feasibility=found.feasibility,
    )
    wanted = rule.wanted_gap()
    accepted = rule.accepts(record) and "beyond_range" not in found.info
    accepted = accepted and (wanted is None or found.feasibility <= wanted.tol)
    status, message, info = final_status(found.status, accepted), rule.describe(record), found.info
    if found.feasibility:
        message = f"{message}; feasibility {found.feasibility:.2e}"
    if status is Status.STALLED or "beyond_range" in info:
        words = "rounding of the returned arrays allows no smaller gap"
        info = {"limited_by": words} | info
        message = f"{message}; {info['limited_by']}"
    return replace(
        found,
        objective=objective,
        gap=gap,
        relative_gap=relative,
        status=status,
        message=message,
        info=info,
    )
