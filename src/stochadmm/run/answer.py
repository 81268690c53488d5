"""A result in the units of the user, where the run had other units or no rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..forms.equilibrate import Units
from ..forms.summary import Summarized, checked_against_rows
from ..problem import Pair
from ..risk.finite_sum import FiniteSum
from ..risk.streamed import StreamedSum
from ..solvers import start_point
from .loop import point_and_dual
from .monitor import DISPROVED, infeasibility
from .result import Result, Status
from .stopping import Rule


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
    coef, intercept = problem.split(whole)
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
    coef, intercept = problem.split(x2 + 0)
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
    status, message, info = found.status, rule.describe(record), found.info
    if status is not Status.INTERRUPTED and accepted:
        status = Status.CONVERGED
    elif status is Status.CONVERGED:
        status = Status.STALLED
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
