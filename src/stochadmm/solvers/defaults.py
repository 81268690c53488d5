"""The one place where parameters that a user left open are chosen.

Every choice is a plain function of the problem; solvers call them in ``start``.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..base.capabilities import Has, fact, offers
from ..base.protocols import Array, Shape, SmoothSum
from ..base.validation import is_whole
from ..base.workspace import Workspace
from ..operators import squared_norm
from ..problem import Problem, loss_at_zero
from ..risk import StreamedSum
from ..risk.finite_sum import mean_row_curvature
from ..risk.sampling import Runs
from ..risk.streamed import opening_of
from ..risk.windows import WindowRuns


def lipschitz_mean(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return Lf, found once per workspace: it takes several reads of the rows."""
    workspace = workspace or Workspace()
    if isinstance(problem.f2, StreamedSum):
        return opening_of(problem.f2, workspace).constants.mean
    return workspace.rows.once(_lipschitz_mean, problem.f2)


def lipschitz_max(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return Lmax, found once per workspace."""
    workspace = workspace or Workspace()
    if isinstance(problem.f2, StreamedSum):
        return opening_of(problem.f2, workspace).constants.largest
    return workspace.rows.once(_lipschitz_max, problem.f2)


def _lipschitz_mean(f2: SmoothSum) -> float:
    return f2.lipschitz_mean


def _lipschitz_max(f2: SmoothSum) -> float:
    return f2.lipschitz_max


def _run_lipschitz(f2: Any, n_rows: int, n_runs: int, per_batch: int) -> float:
    return float(f2.run_lipschitz(Runs(n_rows, n_runs, per_batch)))


def gradient_at_zero(problem: Problem, workspace: Workspace | None = None) -> Array:
    """Return the gradient of f2 at 0, found once per workspace; not to be changed.

    Within a budget of memory it is not kept: with many outputs it is large.
    """
    workspace = workspace or Workspace()
    if isinstance(problem.f2, StreamedSum):
        return opening_of(problem.f2, workspace).at_zero.gradient
    f2, rows = problem.f2, workspace.rows
    if not fact(f2, "keeps_rows"):
        return _gradient_at_zero(f2, problem.shape2, problem.dtype)
    return rows.once(_gradient_at_zero, f2, problem.shape2, problem.dtype)


def _gradient_at_zero(f2: SmoothSum, shape: Shape, dtype: Any) -> Array:
    return f2.gradient(np.zeros(shape, dtype))


def batch_size(problem: Problem, requested: int | str, workspace: Workspace | None = None) -> int:
    """Return a batch size: as asked, or so large that its noise no longer limits a step.

    The step weight is Lf + 2 Lmax / b, so beyond b = 2 Lmax / Lf longer batches buy nothing; below
    about a hundred rows the work beside the data dominates.
    """
    n = problem.f2.n_terms
    if requested != "auto":
        if not is_whole(requested) or requested < 1:
            raise ValueError(f"batch_size is {requested!r}, expected 'auto' or an integer >= 1")
        return min(int(requested), n)
    workspace = workspace or Workspace()
    mean = max(lipschitz_mean(problem, workspace), 1e-300)
    useful = 2 * lipschitz_max(problem, workspace) / mean
    least = 100  # rows below which the work beside the data dominates a step
    # epochs of fewer than twenty steps a pass average too little
    return int(max(1, min(n // 20, max(least, min(useful, 10 * least)))))


def n_inner(n_rows: int, b: float, requested: int | None = None) -> int:
    """Return the inner steps of an epoch: as asked, or two passes over the data, at least 3."""
    steps = round(2 * n_rows / b) if requested is None else int(requested)
    if requested is not None and steps < 1:
        raise ValueError(f"n_inner is {requested}, expected an integer >= 1")
    return steps if requested is not None else max(3, steps)


def sampling(problem: Problem, kind: str, b: int) -> Runs:
    """Return how rows are drawn: "rows" one by one, "blocks" in runs of consecutive rows.

    Rows of files are drawn one by one from windows of them.
    """
    if isinstance(problem.f2, StreamedSum) and kind in ("rows", "blocks"):
        return WindowRuns.of(problem.f2, b)
    if kind == "rows":
        return Runs.single(problem.f2.n_terms, b)
    if kind == "blocks":
        return Runs.blocks(problem.f2.n_terms, b)
    raise ValueError(f"sampling is {kind!r}, expected 'rows' or 'blocks'")


def batch_curvature(problem: Problem, runs: Runs, workspace: Workspace | None = None) -> float:
    """Return delta(b) Lmax for batches of independent runs: the run is the component."""
    f2, workspace = problem.f2, workspace or Workspace()
    if offers(f2, Has.RUN_LIPSCHITZ):
        numbers = (runs.n_rows, runs.n_runs, runs.per_batch)
        return workspace.rows.once(_run_lipschitz, f2, *numbers) / runs.per_batch
    worst = lipschitz_max(problem, workspace)
    return worst if runs.n_runs < runs.n_rows else worst / runs.per_batch


def noise(problem: Problem, runs: Runs, workspace: Workspace | None = None) -> tuple[float, float]:
    """Return the norm of the gradient at 0 and the root mean square error of batches there."""
    workspace = workspace or Workspace()
    numbers = (runs.n_rows, runs.n_runs, runs.per_batch)
    full = gradient_at_zero(problem, workspace)
    return float(np.linalg.norm(full)), workspace.rows.once(_noise, problem.f2, full, *numbers)


def _noise(f2: Any, full: Array, n_rows: int, n_runs: int, per_batch: int) -> float:
    """Return the root mean square error of batches at 0, where the gradient is ``full``."""
    runs, rng = Runs(n_rows, n_runs, per_batch), np.random.default_rng(0)
    zero, total = np.zeros_like(full), 0.0
    count = 32  # batches that tell the noise to a fifth or so
    for batch in runs.draw(rng, count):
        rows = runs.rows(batch)
        error = runs.row_weight * len(rows) * f2.gradient_rows(rows, zero) - full
        total += float(np.sum(np.square(error, dtype=np.float64)))
    return float(np.sqrt(total / count))


def radius(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return a guess of the distance from 0 to a solution.

    The data term can fall by at most its value at 0, so a quadratic with the mean curvature of the
    rows in an average direction has its minimum within the square root of 2 f2(0) / curvature.
    """
    f2, workspace = cast(Any, problem.f2), workspace or Workspace()
    curvature = lipschitz_mean(problem, workspace)
    if offers(f2, Has.ROW_CURVATURES):
        rows = workspace.rows.once(mean_row_curvature, f2)
        curvature = min(
            curvature, f2.loss.curvature_bound * rows / min(f2.n_terms, problem.shape2[0])
        )
    drop = abs(loss_at_zero(problem, workspace))
    return float(np.sqrt(2 * drop / curvature)) if curvature > 0 and drop > 0 else 1.0


def growth(
    problem: Problem,
    runs: Runs,
    requested: float | str,
    capped: bool,
    workspace: Workspace | None = None,
) -> float:
    """Return c, the growth of the weight of a noisy step with the square root of its number.

    As asked, or noise / distance, which balances the two parts of the bound. ``capped`` is the
    rule c sqrt(k) without a smooth part, where the size of a gradient replaces its noise.
    """
    if requested != "auto":
        return positive("growth", requested)
    size, error = noise(problem, runs, workspace)
    balanced = float(np.sqrt(2 * (size**2 + error**2))) if capped else error
    return balanced / radius(problem, workspace)


def positive(name: str, requested: float | str) -> float:
    """Return a number > 0 that a user gave instead of "auto"."""
    value = float(requested)
    if not value > 0 or not np.isfinite(value):
        raise ValueError(f"{name} is {requested!r}, expected 'auto' or a number > 0")
    return value


def beta(problem: Problem, requested: float | str, workspace: Workspace | None = None) -> float:
    """Return the penalty of the constraint: as asked, or the ratio of dual and primal scales.

    beta carries the units of a multiplier over those of A x. The multiplier of a norm-like penalty
    lives in a bounded set, whose size is the first scale; ten gradient steps from zero give the
    second: with weak penalties solutions lie that far out. Where the set is unbounded
    (constraints, squares) the curvature of the loss over |A2|^2 serves. A general constraint
    determines the multiplier in another way.
    """
    if requested != "auto":
        return positive("beta", requested)
    if problem.A2 is None:
        return 1.0
    workspace = workspace or Workspace()
    curvature = lipschitz_mean(problem, workspace) or 1.0  # a flat loss sets no scale
    step = -gradient_at_zero(problem, workspace) / curvature
    moved = problem.A2.matvec(step.astype(problem.dtype))
    fallback = float(curvature / max(squared_norm(problem.A2, workspace), 1e-300))
    if not problem.is_model:
        return _general_beta(problem, fallback, workspace)
    primal, dual = _rms(moved), dual_size(problem.h1, moved)
    if dual is None or primal == 0 or dual == 0:
        return fallback
    return float(min(dual / (10.0 * primal), fallback))


def _general_beta(problem: Problem, fallback: float, workspace: Workspace) -> float:
    """Return the ratio of both scales where neither block follows from the other.

    At the feasible pair nearest to zero the multiplier that balances the smooth parts in least
    squares is known; A2 x2 is what that pair has, or a gradient step where it is zero.
    """
    p = problem.shape1[0]
    zero = np.zeros((p + problem.shape2[0], *problem.shape2[1:]))
    affine = problem.affine_set(workspace)
    near = affine.project(zero).astype(problem.dtype)
    g2 = problem.f2.gradient(near[p:])
    g1 = np.zeros(problem.shape1) if problem.f1 is None else problem.f1.gradient(near[:p])
    dual = _rms(affine.multiplier(-np.concatenate([g1, g2]).astype(np.float64)))
    step = -g2 / (lipschitz_mean(problem, workspace) or 1.0)
    A2: Any = problem.A2
    primal = max(_rms(A2.matvec(x.astype(problem.dtype))) for x in (near[p:], step))
    ratio = dual / primal if primal > 0 else 0.0
    return ratio if 0 < ratio < np.inf else fallback


def dual_balance(f2: Any, predictions: Array, derivatives: Array) -> float:
    """Return the ratio of moves of the dual variables of the rows to moves of the coefficients.

    A move v of the coefficients changes the variables q_i u_i / n by c q_i a_i'v / n with c the
    curvature of the loss; along an average direction that is c |X|_F / (n sqrt(d)) per unit. c is
    between that at the given predictions, where a loss may be flat only for now, and its bound,
    which may be reached nowhere; half of it, since curvature falls where a model fits. Without a
    bound it is the size of the derivatives. What says nothing, derivatives or rows of zeros,
    counts as one.
    """
    bound = float(f2.loss.curvature_bound)
    if not np.isfinite(bound):
        curvature = _rms(derivatives) or 1.0
    elif offers(f2.loss, Has.CURVATURE):
        curvature = float(np.mean(f2.loss.curvature(predictions, f2.y), dtype=np.float64))
        curvature = float(np.sqrt(max(curvature, bound / 30) * bound))
    else:
        curvature = bound
    frobenius = float(np.sqrt(np.sum(f2.row_curvatures, dtype=np.float64))) or 1.0
    return float(0.5 * curvature * frobenius / (f2.n_terms * f2.shape[0] ** 0.5))


def dual_size(penalty: Any, like: Array) -> float | None:
    """Return the root mean square of a far point projected on the dual set, None if unbounded."""
    if penalty is None or not offers(penalty, Has.PROJECT_DUAL) or not like.any():
        return None
    far = like / max(float(np.abs(like).max()), 1e-300)
    near, farther = (np.asarray(penalty.project_dual(t * far)) for t in (1e8, 1e9))
    if _rms(farther) > 2 * _rms(near):
        return None
    return _rms(near)


def _rms(x: Array) -> float:
    return float(np.sqrt(np.mean(np.square(x, dtype=np.float64)))) if x.size else 0.0
