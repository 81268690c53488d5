"""Rows in blocks, with one dual variable per prediction: what SDCA-ADMM and SPDHG share.

The dual variable of a row is kept as a slope of its loss, u_i in the domain of the conjugate, so that

    (1/n) sum_i q_i u_i a_i

is the gradient that these slopes stand for (q_i the sample weight, n over the sum of weights).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy import sparse

from .. import defaults
from ..problem import Problem
from ..protocols import Array
from ..sampling import Runs
from ._base import Solver, State, choose_engine
from ._primal_dual import pull_back

SQUARINGS = 2
SMALLEST_WEIGHT = 1e-12  # rows of weight zero are stepped, but count for nothing


def partition(problem: Problem, batch_size: int | str) -> Runs:
    """Return the rows cut into consecutive blocks of about the batch size, drawn one at a time."""
    n = problem.f2.n_terms
    return Runs(n, max(1, round(n / defaults.batch_size(problem, batch_size))), 1)


def block_norms2(f2: Any, runs: Runs) -> Array:
    """Return a safe bound on the squared spectral norm of every block of rows, kept with f2.

    From the Gram matrix G of the shorter side, |G| <= |G^k|_F^(1/k) with k = 4, which is at most a
    factor size^(1/8) above the norm and exact where one direction dominates.
    """
    kept = f2.__dict__.setdefault("_block_norms2", {})
    if runs.n_runs not in kept:
        edges = np.arange(runs.n_runs + 1) * runs.n_rows // runs.n_runs
        kept[runs.n_runs] = np.array([
            _norm2(f2.X[a:b], f2.intercept) for a, b in zip(edges[:-1], edges[1:], strict=True)
        ])  # fmt: skip
    return cast(Array, kept[runs.n_runs])


def _norm2(block: Any, intercept: bool) -> float:
    if sparse.issparse(block):
        block = block[:, np.unique(block.indices)].toarray()
    block = np.asarray(block, dtype=np.float64)
    if intercept:
        block = np.column_stack([block, np.ones(len(block))])
    gram = block.T @ block if block.shape[1] < block.shape[0] else block @ block.T
    scale, power = 1.0, 1.0
    for _ in range(SQUARINGS):
        size = float(np.abs(gram).max(initial=0.0))
        if size == 0:
            return 0.0
        scale *= size ** (1 / power)
        gram = gram / size
        gram, power = gram @ gram, 2 * power
    return float(scale * np.linalg.norm(gram) ** (1 / power))


def first_slopes(f2: Any, x2: Array) -> Array:
    """Return the slopes of the loss at x2, without sample weights: one pass."""
    return np.ascontiguousarray(f2.loss.slope(f2.predict(x2), f2.y), dtype=f2.dtype)


def residual(problem: Problem, slopes: Array, dual: Array) -> Array:
    """Return the gradient of the slopes plus A2' lambda, 0 where both are optimal: one pass."""
    f2: Any = problem.f2
    gradient = f2.pull_back(f2.weighted(slopes)) / f2.n_terms
    return np.asarray(gradient + pull_back(problem, dual), dtype=problem.dtype)


def data_step(f2: Any, rows: slice, x2: Array, slopes: Array, sigma: float) -> Array:
    """Step the slopes of a block at x2, in place, and return the change of their gradient.

        u+ = prox_{t loss*}(u + t a'x2),    t = sigma n / q
    """
    old, z = slopes[rows].copy(), f2.predict(x2, rows)
    step: Any = sigma * f2.n_terms
    if f2.weight is not None:
        step = step / np.maximum(f2.weight[rows], SMALLEST_WEIGHT)
        step = step[:, None] if step.ndim < z.ndim else step
    slopes[rows] = f2.loss.prox_conjugate(old + step * z, step, f2.y[rows])
    change = f2.weighted(slopes[rows] - old, rows)
    return cast(Array, f2.pull_back(change, rows) / f2.n_terms)


def rows_of(runs: Runs, block: int) -> slice:
    """Return the rows of a block."""
    first, last = (k * runs.n_rows // runs.n_runs for k in (block, block + 1))
    return slice(int(first), int(last))


def primal_size(problem: Problem, x2: Array, gradient: Array) -> float:
    """Return a guess of the norm of a solution: that of the start, or of a gradient step from it."""
    step = float(np.linalg.norm(gradient)) / max(problem.f2.lipschitz_mean, 1e-300)
    return max(float(np.linalg.norm(x2)), step, 1e-300)


def compiles(problem: Problem, state: State) -> bool:
    """Say whether the compiled loop runs: it has every scalar conjugate, not that of softmax."""
    if state.engine != "compiled":
        return False
    from ..kernels import codes

    loss: Any = cast(Any, problem.f2).loss
    if loss.kernel[0] == codes.MULTINOMIAL:
        state.engine = "reference"
    return state.engine == "compiled"


def search(
    solver: Any, name: str, values: Iterable[float], problem: Problem, x: Any, dual: Any
) -> State:
    """Run one epoch with each value of a parameter and return the state with the least objective.

    The passes of all trials are charged to the state.
    """
    best, least, spent = cast(Any, None), np.inf, np.zeros(2)
    for value in values:
        trial: Solver = replace(solver, **{name: float(value)})
        state = trial.start(problem, x, dual)
        state.engine = choose_engine(problem, "auto")
        trial.epoch(problem, state, np.random.default_rng(0))
        spent += state.n_passes, state.n_gradients
        objective = problem.objective(problem.feasible(state.output))
        if best is None or objective < least:
            best, least = state, objective
    best.n_passes, best.n_gradients = (float(v) for v in spent)
    return cast(State, best)
