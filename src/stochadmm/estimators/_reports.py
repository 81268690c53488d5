"""What a fit says about itself: information criteria and a summary in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..linear_algebra.rank import rank_of_columns
from ..problem import Pair, Problem, objective_at_zero
from ..run.result import Result, Status
from ._data import Data
from .refit import Space


def criteria(data: Data, mean_loss: float, dof: int) -> tuple[float, float]:
    """Return AIC and BIC of a fit, NaN for losses that are no likelihood.

    Rows count one each, whatever their weights; the variance of the squared loss is estimated.
    """
    if not offers(data.loss, Has.LOG_LIKELIHOOD):
        return np.nan, np.nan
    n = data.n_rows
    deviance = -2.0 * data.log_likelihood(n * mean_loss)
    return float(deviance + 2 * dof), float(deviance + np.log(n) * dof)


def degrees(data: Any, space: Space) -> int:
    """Return the degrees of freedom: over the outputs, the sum of the ranks of their columns.

    Columns of one coefficient are merged, the intercept is one more, and rows that count nothing
    are left out. Columns that are read from files are counted, dependent or not.
    """
    if data.streamed:
        return int(space.used.sum() + data.intercept * space.used.shape[1])
    total = 0
    known: dict[Any, int] = {}
    for k, used in enumerate(space.used.T):
        weight = data.weight
        if weight is not None and weight.ndim == 2:
            weight = weight[:, k]
        counted = None if weight is None or (weight > 0).all() else weight > 0
        key = used.tobytes(), b"" if counted is None else counted.tobytes()
        if key not in known:
            basis = space.basis[:, np.flatnonzero(used)]
            X = data.X if counted is None else data.X[counted]
            known[key] = rank_of_columns(X, basis, data.intercept)
        total += known[key]
    return total


def is_answer(result: Result) -> bool:
    """Say whether a point is converged, or as good as rounding allows with a certified gap."""
    stalled = result.status is Status.STALLED and "beyond_range" not in result.info
    certified = result.gap is not None and bool(np.isfinite(result.gap))
    return result.status is Status.CONVERGED or (stalled and certified)


def describe(
    model: Any, fitting: Any, problem: Problem, result: Result, x2: Array, workspace: Workspace
) -> None:
    """Set what is said of the structure that was found: levels or rank, degrees, criteria."""
    unknown = model.warm_start or fitting.data.streamed  # F at zero would be another read
    model._at_start = None if unknown else objective_at_zero(problem, workspace)
    model._inspect(fitting, problem, result)
    model.dof_ = model._degrees(fitting, result)
    model.aic_ = model.bic_ = np.nan
    if is_answer(result):
        penalty = problem.penalty(problem.feasible(Pair(problem.zeros().x1, x2)))
        value = result.objective - penalty
        model.aic_, model.bic_ = criteria(fitting.data, value, model.dof_)


_ENDS = {
    Status.CONVERGED: "Converged",
    Status.STALLED: "NOT converged, rounding or the problem allows no better certificate",
    Status.STOPPED: "Stopped by a callback",
    Status.MAX_PASSES: "NOT converged, out of passes",
    Status.MAX_TIME: "NOT converged, out of time",
    Status.MAX_EPOCHS: "NOT converged, out of epochs",
    Status.DIVERGED: "DIVERGED",
    Status.INTERRUPTED: "INTERRUPTED",
}


def _outputs(model: Any) -> str:
    """Say how many classes or labels a classifier tells apart."""
    if not is_classifier(model):
        return ""
    several = getattr(model, "multilabel_", False)
    return f" of {len(model.classes_)} {'labels' if several else 'classes'}"


def _score_name(model: Any) -> str:
    """Return what ``score`` is called elsewhere."""
    if is_classifier(model):
        return "Accuracy" + " (all labels right)" * getattr(model, "multilabel_", False)
    return "R2" if offers(model._loss, Has.SQUARE) else "Deviance explained (D2)"


def score_of_fit(model: Any, data: Any) -> float:
    """Return the score of the rows of the fit, with their weights; NaN for rows in files."""
    if data.streamed or data.n_rows < 2 or not np.isfinite(model.coef_).all():
        return float("nan")
    z = model._flat(data.predictions(model.coef_.T, model.intercept_))
    with np.errstate(over="ignore", invalid="ignore"):  # far from the optimum
        return float(model._scored(data, z))


def summary(model: Any) -> str:
    """Return the fit in plain words."""
    result = model.result_
    ratio = f", l1_ratio = {model._ratio:g}" if has_members(model, "l1_ratio") else ""
    if model.l2_ratio:
        ratio += f", l2_ratio = {model.l2_ratio:g}"
    loss = (
        model.loss.replace("_", " ") if isinstance(model.loss, str) else type(model._loss).__name__
    )
    nonzero = int(np.count_nonzero(model.coef_))
    lines = [
        f"{type(model).__name__}{_outputs(model)} with {loss} loss, "
        f"alpha = {model._last_strength:g}{ratio}"
    ]
    if np.isfinite(model._fit_score):
        lines.append(f"{_score_name(model)} {model._fit_score:.4g} on the training rows")
    lines.append(
        f"{nonzero} of {model.coef_.size} coefficients are not zero, "
        f"{model.dof_} degrees of freedom"
    )
    lines += model._found()
    lines.append(
        f"{_ENDS[result.status]}: {result.message}, after {result.n_passes:.0f} passes and "
        f"{result.seconds:.2g} s by {result.info.get('solver', 'the solver')}"
    )
    if np.isfinite(model.aic_):
        lines.append(f"AIC {model.aic_:.6g}, BIC {model.bic_:.6g}")
    return "\n".join(lines)
