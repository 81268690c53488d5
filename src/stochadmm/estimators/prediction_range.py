"""Fits of losses that are exact in a range of predictions only: the range follows the fit.

Such a loss, as that of counts, goes on as a parabola beyond its range, which bounds its curvature.
A narrow range is fast; the answer is that of the model where no prediction of it lies beyond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import cluster
from ..base.capabilities import Has, fact, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..data import Shard
from ..problem import Problem
from ..risk import FiniteSum
from ..run.path import alpha_max, null_model
from ..run.result import Result, Status
from ..streaming import StreamedSum, loss_of_source


@dataclass(frozen=True)
class RangeOptions:
    """How a range is widened."""

    most_rounds: int = 8
    """Each goes twice as far as the one before: the last to the end of what numbers hold."""
    rounding: float = 1e-6
    """How far beyond is nothing: the parabola differs from the loss by a sixth of its cube."""


OPTIONS = RangeOptions()


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
    for wider in range(OPTIONS.most_rounds):
        excess = _excess(problem, result)
        if excess <= OPTIONS.rounding:
            return result
        widest.f2 = _widened(widest.f2, excess, wider)
        problem = replace(problem, f2=widest.f2)
        result = _after(result, solve(problem, result))
    if _excess(problem, result) <= OPTIONS.rounding:
        return result
    words = "predictions lie beyond all numbers that the loss is computed for"
    return replace(result, status=Status.DIVERGED, message=words)


def _excess(problem: Problem, result: Result) -> float:
    """Return how far an answer lies beyond the range; one cut short, as its status says, may."""
    return furthest(problem.f2, result.x2) if result.status is Status.CONVERGED else 0.0


def largest_strength(unit: Problem, workspace: Workspace) -> float:
    """Return the smallest strength at which the null model is optimal, for the loss itself."""
    if not offers(fact(unit.f2, "loss"), Has.BEYOND):
        return alpha_max(unit, workspace)
    for wider in range(OPTIONS.most_rounds):
        x, gradient = null_model(unit, workspace)
        excess = furthest(unit.f2, x)
        if excess <= OPTIONS.rounding:
            break
        unit = replace(unit, f2=_widened(unit.f2, excess, wider))
    return alpha_max(unit, workspace, (x, gradient))


def _widened(f2: Any, excess: float, wider: int) -> Any:
    """Return the data term with a wider range.

    The slope of the parabola at the excess is that of the exponential at its logarithm: the exact
    answer lies about there, and rarely further.
    """
    loss = f2.loss.wider(float(np.log1p(excess)) + 2.0**wider)
    source = loss_of_source(f2)
    if source is None:
        return FiniteSum(loss, f2.rows, f2.y, f2.weight, intercept=f2.intercept, offset=f2.offset)
    return StreamedSum(
        loss, source.source, intercept=source.intercept, memory=source.memory, seed=source.seed
    )


def furthest(f2: Any, x: Array) -> float:
    """Return how far a prediction of rows that count lies beyond the range of the loss."""
    source = loss_of_source(f2)
    if source is None:
        return _largest(f2.loss.beyond(f2.predict(x), f2.y), f2.weight)
    work = _Furthest(source, np.asarray(x, dtype=np.float64))
    return float(cluster.current(source.source).map_reduce(source.source.shards, work, max))


def _largest(excess: Array, weight: Array | None) -> float:
    if weight is not None:
        excess = excess[np.asarray(weight) > 0]
    return float(np.max(excess, initial=-np.inf))


@dataclass(frozen=True)
class _Furthest:
    """The same for a shard; travels to other processes."""

    f2: Any
    x: Array

    def __call__(self, shard: Shard) -> float:
        return max(map(self._block, shard.blocks(self.f2.block_bytes)))

    def _block(self, block: Any) -> float:
        z = block.rows.as_type(np.float64).matvec(self.x[: self.f2.n_features])
        z = z + self.x[-1] if self.f2.intercept else z
        z = z if block.offset is None else z + block.offset
        y = np.asarray(block.y, dtype=np.float64)
        return _largest(self.f2.loss.beyond(z, y), block.weight)


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
