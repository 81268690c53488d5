"""Fits of losses that are exact in a range of predictions only: the range follows the fit.

Such a loss, as that of counts, goes on as a parabola beyond its range, which bounds its curvature.
A narrow range is fast; the answer is that of the model where no prediction of it lies beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..base.capabilities import Has, fact, offers
from ..base.workspace import Workspace
from ..problem import Problem
from ..run.null_model import null_model
from ..run.path import alpha_max
from ..run.prediction_range import ROUNDING, beyond_range, wider
from ..run.result import Result

MOST_ROUNDS = 8
"""Each goes twice as far as the one before: the last to the end of what numbers hold."""


class Widest:
    """The data term with the widest range that fits on the same rows have needed so far."""

    def __init__(self, f2: Any) -> None:
        self.f2 = f2


def in_range(
    problem: Problem, solve: Callable[[Problem, Result | None], Result], workspace: Workspace
) -> Result:
    """Return the answer of ``solve(problem, result before)`` for the loss of the model itself.

    An answer beyond the range of its loss is the start of another run with a wider one.
    """
    if not offers(fact(problem.f2, "loss"), Has.BEYOND):
        return solve(problem, None)
    widest = workspace.rows.once(Widest, problem.f2)  # other strengths need about the same
    if widest.f2 is not problem.f2:
        problem = replace(problem, f2=widest.f2)
    result = solve(problem, None)
    for round_ in range(MOST_ROUNDS):
        beyond = result.info.get("beyond_range")
        if beyond is None:
            return result
        widest.f2 = _widened(widest.f2, beyond, round_)
        problem = replace(problem, f2=widest.f2)
        result = _after(result, solve(problem, result))
    return result


def largest_strength(unit: Problem, workspace: Workspace) -> float:
    """Return the smallest strength at which the null model is optimal, for the loss itself."""
    if not offers(fact(unit.f2, "loss"), Has.BEYOND):
        return alpha_max(unit, workspace)
    for round_ in range(MOST_ROUNDS):
        x, gradient = null_model(unit, workspace)
        beyond = beyond_range(unit.f2, x)
        if beyond <= ROUNDING:
            break
        unit = replace(unit, f2=_widened(unit.f2, beyond, round_))
    return alpha_max(unit, workspace, (x, gradient))


def _widened(f2: Any, beyond: float, round_: int) -> Any:
    """Return the data term with a wider range."""
    return f2.with_loss(wider(f2.loss, beyond, 2.0**round_))


def _after(first: Result, second: Result) -> Result:
    """Return the second of two runs with the work of both."""
    epochs, passes, gradients = first.n_epochs, first.n_passes, first.n_gradients
    seconds = first.history[-1].seconds if first.history else 0.0
    measuring = first.history[-1].seconds_measuring if first.history else 0.0
    later = [
        replace(
            record,
            epoch=epochs + record.epoch,
            passes=passes + record.passes,
            gradients=gradients + record.gradients,
            seconds=seconds + record.seconds,
            seconds_measuring=measuring + record.seconds_measuring,
        )
        for record in second.history
    ]
    return replace(
        second,
        n_epochs=epochs + second.n_epochs,
        n_passes=passes + second.n_passes,
        n_gradients=gradients + second.n_gradients,
        seconds=first.seconds + second.seconds,
        history=first.history + later,
    )
