"""How estimators call the solvers: budget, accuracy, and what is said of the outcome."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..base.capabilities import fact
from ..base.fingerprint import fingerprint
from ..base.workspace import Workspace
from ..problem import Problem
from ..risk import StreamedSum
from ..run.loop import Limits
from ..run.minimize import Request
from ..run.minimize import solve as solve_in
from ..run.result import Record, Result, Status
from ..run.stopping import Gap, Polished, Rule
from ._data import Data
from .prediction_range import in_range

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
            limits=Limits(passes, budget.max_seconds),
            start=start if before is None else (before.pair, before.dual),
            callback=callback,
            random_state=random_state,
            verbose=verbose,
            resumable=False,
            checkpoint=file,
            resume=file is not None,
        )
        return solve_in(problem, solver, asked, workspace)

    return in_range(problem, once, workspace)


def warn_unless_converged(name: str, result: Result, data: Data, tol: float, scaled: bool) -> None:
    """Warn with both numbers and the one knob most likely to help."""
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


def warn_each(name: str, notices: list[str]) -> None:
    """Warn of what is probably not meant."""
    for notice in notices:
        warnings.warn(f"{name}: {notice}", UserWarning, stacklevel=3)


def warn_out_of_time(name: str, what: str, done: int, asked: int) -> None:
    """Warn that a grid was cut short."""
    warnings.warn(
        f"{name} out of time: {done} of {asked} alphas were {what}, from the largest down; raise "
        "max_seconds, or ask for fewer alphas",
        ConvergenceWarning,
        stacklevel=3,
    )


def raise_if_interrupted(name: str, result: Result) -> None:
    """Pass an interrupt on, so that loops around a fit end too; the fit itself is complete."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt(
            f"{name} interrupted: {result.message}, after {result.n_passes:.0f} passes; the "
            "estimator holds this point, fit again with warm_start=True to go on"
        )
