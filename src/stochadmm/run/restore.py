"""Starts and results on their way between the units of the user and those of the solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from ..base.protocols import Array
from ..forms.equilibrate import Units
from ..forms.summary import Summarized, checked_against_rows
from ..problem import Pair
from ..risk.finite_sum import FiniteSum
from ..solvers import start_point
from ..streaming import StreamedSum
from .answer import split_off
from .limits import Habits
from .measured import infeasibility
from .monitor import final_status
from .result import Result, Status, point_and_dual
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
    coef, intercept = split_off(problem, whole)
    found = replace(
        found,
        coef=coef,
        intercept=intercept,
        x1=pair.x1,
        x2=pair.x2,
        dual=units.back_dual(found.dual),
        output=units.back(found.output),
        ergodic=None if found.ergodic is None else units.back(found.ergodic),
        info=found.info | {"units": units.describe()},
    )
    if units.rows is not None:
        found = replace(found, feasibility=infeasibility(problem, pair)[1])
        found = _renewed(found, found.objective, rule)
    exact = units.shift is None and np.array_equal(units.into(Pair(pair.x1, whole)).x2, inside.x2)
    return found if exact else _appraised(units, found, whole, rule)


def _appraised(units: Units, found: Result, x2: Array, rule: Rule) -> Result:
    """Return a result whose point was rounded on its way back, with its numbers renewed."""
    # in the units of the solver the intercept and what is shifted against it do not cancel
    problem, inside = units.problem, units.into(Pair(found.x1, x2.astype(np.float64)))
    point = problem.feasible(Pair(inside.x1.astype(np.float64), inside.x2))
    at = cast(FiniteSum, problem.f2).evaluate_exactly(point.x2)
    return _renewed(found, at.value + problem.penalty(point), rule)


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
    if objective < bound - Habits.disproved * (1.0 + abs(bound)):
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
