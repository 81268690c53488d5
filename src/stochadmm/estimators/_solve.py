"""How estimators call the solvers: method, budget, accuracy, and what is said of the outcome."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import solvers
from ..driver import minimize
from ..losses import Squared
from ..metrics import LARGEST_DENSE
from ..problem import Problem
from ..result import Record, Result, Status
from ..stopping import Gap

SMALL = 200_000  # multiplications of a step: below, the last digits cost less than a second
SMALL_PASSES, MANY_PASSES = 1000.0, 500.0
ROUNDING = {"float64": 1e-14, "float32": 1e-7}  # relative gaps that small problems aim at
ENOUGH_TO_CHOOSE = 1e-9  # the same in cross-validation, whose fits are compared and thrown away
PATIENCE = 3  # epochs without progress after which rounding is what is left


def default_solver(problem: Problem) -> str:
    """Return the name of the method for ``solver="auto"``."""
    if "auto" in solvers.names():
        return "auto"
    if problem.shape2[0] > LARGEST_DENSE:
        return "acc-sadmm"
    return "gram" if isinstance(getattr(problem.f2, "loss", None), Squared) else "prox-newton"


class Polish:
    """Goes on to rounding error on small problems, then stops.

    Small problems are cheap, and an answer that does not depend on the tolerance is easier to
    compare and to trust. The run ends when the gap, which has met the tolerance, and the objective
    have not improved for some epochs.
    """

    def __init__(self, tol: float) -> None:
        self.tol = tol
        self.best = math.inf
        self.value = math.inf
        self.idle = 0

    def __call__(self, record: Record, state: Any) -> bool:
        """Say whether to stop."""
        reached = record.relative_gap if record.gap is not None else record.kkt_residual
        reached = math.inf if reached is None else reached
        slack = 1e-15 * abs(record.objective)
        better = reached < 0.5 * self.best or record.objective < self.value - slack
        self.idle = 0 if better else self.idle + 1
        self.best, self.value = min(self.best, reached), min(self.value, record.objective)
        return self.best <= self.tol and self.idle >= PATIENCE


def solve(
    problem: Problem,
    *,
    solver: Any,
    tol: float,
    max_passes: float | None,
    max_seconds: float | None,
    start: Any,
    random_state: Any,
    verbose: bool,
    callback: Callable[[Record, Any], Any] | None,
    last_digits: bool = True,
) -> Result:
    """Solve to the tolerance, and small problems to rounding error if ``last_digits``."""
    automatic = isinstance(solver, str) and solver == "auto"
    method = solvers.as_solver(default_solver(problem) if automatic else solver)
    name = getattr(method, "name", type(method).__name__)
    small = _work(problem) <= SMALL
    polish = Polish(tol) if small and last_digits else None
    rounding = ROUNDING[problem.dtype.name]
    aim = rounding if last_digits else max(rounding, ENOUGH_TO_CHOOSE)
    passes = max_passes if max_passes is not None else SMALL_PASSES if small else MANY_PASSES

    beta = 1.0

    def after(record: Record, state: Any) -> bool:
        nonlocal beta
        beta = float(state.beta)
        asked = callback is not None and bool(callback(record, state))
        return asked or (polish is not None and polish(record, state))

    result = minimize(
        problem,
        method,
        stop=Gap(min(tol, aim) if small else tol),
        max_passes=passes,
        max_seconds=max_seconds,
        start=start,
        callback=after,
        random_state=_generator(random_state),
        verbose=verbose,
        resumable=False,
    )
    return _judged(result, tol, {"beta": beta} | result.info | {"solver": name})


def _work(problem: Problem) -> int:
    """Return the multiplications of a pass or of a square matrix, whichever are more."""
    rows, outputs = problem.f2.n_terms, math.prod(problem.shape2[1:])
    return max(rows, problem.shape2[0]) * problem.shape2[0] * outputs


def _judged(result: Result, tol: float, info: dict[str, Any]) -> Result:
    """Return the result without its state, judged by the tolerance that the user asked for."""
    reached = result.relative_gap if result.gap is not None else result.kkt_residual
    ended = (Status.STOPPED, Status.MAX_PASSES, Status.MAX_TIME)
    met = result.status in ended and reached is not None and reached <= tol
    what = "duality gap" if result.gap is not None else "KKT residual"
    shown = "not available" if reached is None else f"{reached:.2e}"
    return dataclasses.replace(
        result,
        status=Status.CONVERGED if met else result.status,
        message=f"relative {what} {shown}, asked for {tol:.2e}",
        info=info,
        state=None,
    )


def _generator(random_state: Any) -> Any:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state


def warn_unless_converged(name: str, result: Result, X: Any, standardize: bool) -> None:
    """Warn with both numbers and the one knob most likely to help."""
    if result.status in (Status.CONVERGED, Status.STOPPED):
        return
    spread = 0.0 if standardize else _spread_of_columns(X)
    if result.status is Status.DIVERGED:
        reason, advice = "diverged", "set standardize=True, or solver='prox-newton'"
    elif result.status is Status.INTERRUPTED:
        reason, advice = "interrupted", "fit again with warm_start=True to go on"
    elif spread > 3:
        reason = "not converged"
        advice = f"set standardize=True: the norms of the columns span {spread:.0f} powers of ten"
    elif result.status is Status.MAX_TIME:
        reason, advice = "out of time", "raise max_seconds"
    else:
        reason, advice = "not converged", "raise max_passes"
    warnings.warn(
        f"{name} {reason}: {result.message}, after {result.n_passes:.0f} passes; {advice}",
        ConvergenceWarning,
        stacklevel=3,
    )


def _spread_of_columns(X: Any) -> float:
    """Return the powers of ten between the largest and the smallest norm of a column."""
    squares = np.square(X, dtype=np.float64) if isinstance(X, np.ndarray) else X.multiply(X)
    sums = np.asarray(squares.sum(axis=0)).ravel()
    sums = sums[sums > 0]
    return 0.5 * float(np.log10(sums.max() / sums.min())) if sums.size else 0.0
