"""Rows in blocks, with one dual variable per prediction: what SDCA-ADMM and SPDHG share.

The dual variable of a row is kept as a derivative of its loss, u_i in the conjugate's domain, so
that

    (1/n) sum_i q_i u_i a_i

is the gradient that these derivatives stand for (q_i the sample weight, n over the sum of
weights).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...data import CSR
from ...problem import Pair, Problem
from ...risk import FiniteSum
from ...risk.sampling import Runs
from .. import defaults
from .._base import PROXES, Solver, State, StateT, choose_engine
from .._steps import check_count, check_exact_x1, pull_back


@dataclass(frozen=True)
class BlockOptions:
    """How the norms of blocks of rows are found."""

    short_side: int = 64
    """Rows or columns up to which a Gram matrix costs less than products."""
    lanczos_steps: int = 20
    """Products after which the largest Ritz value of most blocks has settled."""
    lanczos_margin: float = 1.05
    """Factor above the Ritz value and its residual, where steps have missed a direction."""
    smallest_weight: float = 1e-12
    """Rows of weight zero are stepped, but count for nothing."""


OPTIONS = BlockOptions()


@dataclass(frozen=True)
class DualBlocks(Solver[StateT]):
    """A method with a dual variable per prediction, stepped in blocks of rows.

    Parameters
    ----------
    batch_size : int or "auto"
        Rows in a block.
    n_inner : int, optional
        Steps per epoch; by default two passes over the data.
    """

    has_kernel: ClassVar[bool] = True
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {
        "f2": ("predict", "pull_back", "weighted", "prox_conjugate")
    }

    batch_size: int | str = "auto"
    n_inner: int | None = None

    def __post_init__(self) -> None:
        if self.n_inner is not None:
            check_count("n_inner", self.n_inner)

    def check(self, problem: Problem) -> None:
        """Raise when a step is not a prox: of h1, or of the conjugate of the loss."""
        super().check(problem)
        check_exact_x1(problem, self.name)


def sums_anew(state: State) -> bool:
    """Say whether this epoch sums what it keeps up to date anew: rounding must not add up."""
    return state.n_epochs % 10 == 9


def partition(problem: Problem, batch_size: int | str, workspace: Workspace | None = None) -> Runs:
    """Return the rows cut into consecutive blocks of about the batch size, drawn one at a time."""
    n = problem.f2.n_terms
    return Runs(n, max(1, round(n / defaults.batch_size(problem, batch_size, workspace))), 1)


def block_norms2(f2: Any, runs: Runs, workspace: Workspace | None = None) -> Array:
    """Return a bound on the squared spectral norm of every block of rows.

    With a short side from its Gram matrix G: |G| <= |G^k|_F^(1/k) with k = 4, which is at most a
    factor side^(1/8) above the norm and exact where one direction dominates. Otherwise by a few
    Lanczos steps: the largest Ritz value plus its residual, with a margin. Never zero: steps are
    divided by it.
    """
    return (workspace or Workspace()).rows.once(_norms2, f2, runs.n_runs, runs.n_rows)


def _norms2(f2: Any, n_blocks: int, n_rows: int) -> Array:
    edges = np.arange(n_blocks + 1) * n_rows // n_blocks
    found = np.array([_norm2(f2, int(a), int(b)) for a, b in pairwise(edges)])
    # relative to the largest: rows of zeros are stepped, but move nothing
    return np.asarray(np.maximum(found, 1e-12 * (found.max() or 1.0)))


def _norm2(f2: FiniteSum, first: int, last: int) -> float:
    rows = f2.rows.take(slice(first, last))
    intercept = float(f2.intercept)
    length, d = rows.shape
    ones = np.full(length, intercept)
    if length > OPTIONS.short_side and d > OPTIONS.short_side:
        return _lanczos(lambda v: rows.matvec(rows.rmatvec(v)) + ones * (ones @ v), length)
    if d < length:
        return _power_norm(rows.sandwich(np.ones(length), ones=f2.intercept))
    if rows.storage == CSR:  # a dense copy of some rows with a million columns may be large
        X: Any = rows.X
        return _power_norm((X @ X.T).toarray().astype(np.float64) + intercept)
    dense = rows.dense()
    return _power_norm(dense @ dense.T + intercept)


def _power_norm(gram: Array) -> float:
    scale, power = 1.0, 1.0
    for _ in range(2):
        size = float(np.abs(gram).max())
        if size == 0:
            return 0.0
        scale *= size ** (1 / power)
        gram = gram / size
        gram, power = gram @ gram, 2 * power
    return float(scale * np.linalg.norm(gram) ** (1 / power))


def _lanczos(product: Callable[[Array], Array], size: int) -> float:
    v = np.random.default_rng(0).standard_normal(size)
    v, before, off = v / np.linalg.norm(v), np.zeros(size), 0.0
    diagonal, beside = [], []
    for _ in range(OPTIONS.lanczos_steps):
        w = product(v) - off * before
        diagonal.append(float(w @ v))
        w = w - diagonal[-1] * v
        off = float(np.linalg.norm(w))
        if off <= 1e-12 * diagonal[0]:
            break
        beside.append(off)
        before, v = v, w / off
    values, vectors = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    return OPTIONS.lanczos_margin * float(values[-1] + off * abs(vectors[-1, -1]))


def first_derivatives(f2: Any, x2: Array) -> tuple[Array, float]:
    """Return the derivatives of the loss at x2, without sample weights, and the balance: one pass.

    The balance is the ratio of dual to primal moves that is to be expected.
    """
    z = f2.predict(x2)
    derivatives = np.ascontiguousarray(f2.loss.derivative(z, f2.y), dtype=f2.dtype)
    return derivatives, defaults.dual_balance(f2, z, derivatives)


def residual(problem: Problem, derivatives: Array, dual: Array) -> Array:
    """Return X' times the derivatives plus A2' lambda, 0 at the optimum: one pass."""
    f2: Any = problem.f2
    gradient = f2.pull_back(f2.weighted(derivatives)) / f2.n_terms
    return np.asarray(gradient + pull_back(problem, dual), dtype=problem.dtype)


def data_step(f2: Any, rows: slice, x2: Array, derivatives: Array, sigma: float) -> Array:
    """Step the derivatives of a block at x2, in place, and return the change of their gradient.

    u+ = prox_{t loss*}(u + t a'x2),    t = sigma n / q
    """
    old, z = derivatives[rows].copy(), f2.predict(x2, rows)
    step: Any = sigma * f2.n_terms
    if f2.weight is not None:
        step = step / np.maximum(f2.weight[rows], OPTIONS.smallest_weight)
        step = step[:, None] if step.ndim < z.ndim else step
    derivatives[rows] = f2.loss.prox_conjugate(old + step * z, step, f2.y[rows])
    change = f2.weighted(derivatives[rows] - old, rows)
    return np.asarray(f2.pull_back(change, rows) / f2.n_terms)


def rows_of(runs: Runs, block: int) -> slice:
    """Return the rows of a block."""
    first, last = (k * runs.n_rows // runs.n_runs for k in (block, block + 1))
    return slice(int(first), int(last))


def search(
    solver: Solver[StateT],
    name: str,
    middle: float,
    problem: Problem,
    x: Pair,
    dual: Array,
    workspace: Workspace | None,
) -> StateT:
    """Try five values of a parameter for three epochs each and return the state that got lowest.

    The passes of all trials are charged to the state.
    """
    found: list[tuple[float, StateT]] = []
    spent = np.zeros(2)
    for value in middle * 10.0 ** np.linspace(-1, 1, 5):
        options: dict[str, Any] = {name: float(value)}
        trial = replace(solver, **options)
        state = trial.start(problem, x, dual, workspace)
        state.engine = choose_engine(problem, "auto")
        rng = np.random.default_rng(0)
        for _ in range(3):
            trial.epoch(problem, state, rng)
        spent += state.n_passes, state.n_gradients
        found.append((problem.objective(problem.feasible(state.output)), state))
    # where all have diverged the first is as good as any
    best = min(found, key=lambda pair: np.nan_to_num(pair[0], nan=np.inf))[1]
    best.n_passes, best.n_gradients = (float(v) for v in spent)
    return best
