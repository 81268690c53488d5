"""How estimators call the solvers: budget, accuracy, and what is said of the outcome."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..base.capabilities import Has, fact, offers
from ..base.fingerprint import fingerprint
from ..base.workspace import Workspace
from ..problem import Problem
from ..risk import StreamedSum
from ..run.loop import Request
from ..run.minimize import solve as solve_in
from ..run.null_model import null_model
from ..run.path import alpha_max
from ..run.prediction_range import ROUNDING as ROUNDED
from ..run.prediction_range import beyond_range, wider
from ..run.result import Record, Result, Status
from ..run.stopping import Gap, Polished, Rule
from ._data import Data

ROUNDING = {"float64": 1e-14, "float32": 1e-7}  # relative gaps that small problems aim at


SHORTEST = 1e-3
"""Seconds of a fit whose time is over before it begins."""


@dataclass(frozen=True)
class Budget:
    """When a fit, or a search of many fits, should have ended.

    The moment is one of the wall clock, which the processes of a search share.
    """

    moment: float = math.inf

    @classmethod
    def after(cls, seconds: float | None) -> Budget:
        """Return the moment so many seconds from now; None is no limit."""
        return cls() if seconds is None else cls(time.time() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.moment - time.time()

    def parts(self, count: int) -> list[Budget]:
        """Return the ends of so many equal parts of the time that is left."""
        if self.moment == math.inf:
            return [self] * count
        part = self.left / count
        return [Budget(self.moment - part * (count - 1 - k)) for k in range(count)]

    @property
    def max_seconds(self) -> float | None:
        """What ``minimize`` is given."""
        return None if self.moment == math.inf else max(self.left, SHORTEST)


def solve(
    problem: Problem,
    *,
    solver: Any,
    tol: float,
    max_passes: float | None,
    budget: Budget,
    start: Any,
    workspace: Workspace,
    random_state: Any,
    verbose: bool,
    callback: Callable[[Record, Any], Any] | None,
    last_digits: bool = True,
    checkpoint: Any = None,
) -> Result:
    """Solve to the tolerance, and small problems to rounding error unless ``tol`` is loose.

    Without ``last_digits`` small problems are solved well enough to compare strengths. A callback
    has every epoch measured, so there is none unless somebody watches. A run goes on from its
    ``checkpoint`` where that exists. Losses that are exact in a range of predictions only are
    given a wider one where the answer lies beyond.
    """
    # multiplications of a pass or of a square matrix: below 200,000 the last digits cost less than
    # a second, and passes next to nothing
    (rows, *outputs), n = problem.shape2, problem.f2.n_terms
    work = max(n, rows) * rows * math.prod(outputs)
    small = work <= 200_000 and not isinstance(problem.f2, StreamedSum)
    stop: Rule = Gap(tol)
    if small and tol <= 1e-4:  # the default; a looser one is taken at its word
        aim = max(ROUNDING[problem.dtype.name], 0.0 if last_digits else 1e-9)
        stop = Polished(tol, aim) if aim < tol else stop
    passes = (1000.0 if small else 500.0) if max_passes is None else max_passes
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(np.iinfo(np.int32).max))

    def once(problem: Problem, before: Result | None) -> Result:
        file = checkpoint
        if checkpoint is not None and before is not None:  # of another problem than the first
            file = f"{checkpoint}.{fingerprint(fact(problem.f2, 'loss'))[:8]}"
        asked = Request(
            stop=stop,
            max_passes=passes,
            max_seconds=budget.max_seconds,
            start=start if before is None else (before.pair, before.dual),
            callback=callback,
            random_state=random_state,
            verbose=verbose,
            resumable=False,
            checkpoint=file,
            resume=file is not None,
        )
        return solve_in(problem, solver, asked, workspace)

    if offers(fact(problem.f2, "loss"), Has.BEYOND):
        return in_range(problem, once, workspace)
    return once(problem, None)


def judge(name: str, result: Result, data: Data, tol: float, scaled: bool) -> None:
    """Pass an interrupt on; warn of what did not converge, with the one knob likely to help."""
    if result.status is Status.INTERRUPTED:
        raise interrupted(name.removeprefix("refit of "), result)
    if result.status in (Status.CONVERGED, Status.STOPPED):
        return
    spread, dtype = 0.0 if scaled else data.spread_of_columns(), data.dtype
    reason = "not converged"
    if result.status is Status.STALLED:
        reason, advice = "stalled", result.info["limited_by"]
    elif result.status is Status.DIVERGED:
        reason, advice = "diverged", "set standardize=True"
    elif tol < ROUNDING[dtype.name]:
        advice = f"raise tol: rounding in {dtype} leaves about {ROUNDING[dtype.name]:.0e}"
    elif spread > 3:
        advice = f"set standardize=True: the norms of the columns span {spread:.0f} powers of ten"
    elif result.status is Status.MAX_TIME:
        reason, advice = "out of time", "raise max_seconds"
    else:
        advice = "raise max_passes"
    said = result.message.removesuffix(f"; {advice}")
    warnings.warn(
        f"{name} {reason}: {said}, after {result.n_passes:.0f} passes; {advice}",
        ConvergenceWarning,
        stacklevel=3,
    )


def warn_out_of_time(name: str, what: str, done: int, asked: int) -> None:
    """Warn that a grid was cut short."""
    warnings.warn(
        f"{name} out of time: {done} of {asked} alphas were {what}, from the largest down; raise "
        "max_seconds, or ask for fewer alphas",
        ConvergenceWarning,
        stacklevel=3,
    )


def interrupted(name: str, result: Result) -> KeyboardInterrupt:
    """Return what ends the loops around a fit too; the fit itself is complete."""
    return KeyboardInterrupt(
        f"{name} interrupted: {result.message}, after {result.n_passes:.0f} passes; the "
        "estimator holds this point, fit again with warm_start=True to go on"
    )


# ---------------------------------------------------------------- losses exact in a range


# Such a loss, as that of counts, goes on as a parabola beyond its range, which bounds its
# curvature. A narrow range is fast; the answer is that of the model where no prediction of it lies
# beyond. The range follows the fit.

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
        if beyond <= ROUNDED:
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
