"""Matrices of the x2 step: how far, and in which directions, a step may go.

A data metric is the Hessian of the loss on a sample of rows. Rows are drawn with probabilities
that mix the uniform ones with ``sum_j x_ij^2 / energy_j``: a column with a handful of entries (a
rare category) is then seen by every sample, where uniform sampling would miss it and leave the
matrix singular in its direction.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import CSR
from ..linear_algebra.dense import inverse
from ..problem import Problem
from .finite_sum import FiniteSum
from .sampling import Runs

LARGEST_DENSE = 4000
RIDGE = 1e-10  # of the mean diagonal: collinear columns leave a sampled Hessian singular
METRIC_ROWS = 20  # per column
AT_ONCE = 1 << 17  # entries of X that are squared at a time
WORST_BLOCK = 3.0  # times the metric's diagonal that a block's may reach before it is lifted


def structure_gram(problem: Problem) -> Array:
    """Return A2' A2 as a dense float64 matrix; it is kept with the problem."""
    kept = problem.__dict__.get("_structure_gram")
    if kept is None:
        kept = problem.__dict__["_structure_gram"] = gram_of(problem.A2, problem.shape2[0])
    return kept


def gram_of(A: Any, d: int) -> Array:
    """Return A' A of an operator with d columns as a dense float64 matrix, 0 without one."""
    if A is None:
        return np.zeros((d, d))
    if offers(A, Has.SPARSE):
        S = A.tosparse()
        return np.asarray((S.T @ S).toarray(), dtype=np.float64)
    columns = np.asarray(A.matvec(np.eye(d)), dtype=np.float64)
    return np.asarray(columns.T @ columns)


def check_exact_step(problem: Problem, name: str) -> None:
    """Raise when the x2 step cannot be solved exactly in a dense metric."""
    if problem.h2 is not None:
        raise ValueError(
            f"metric={name!r} needs h2 absent; use metric='none', or stack the penalty of the "
            "coefficients into the structure"
        )
    d = problem.shape2[0]
    if d > LARGEST_DENSE:
        raise ValueError(
            f"metric={name!r} factorizes a {d} x {d} matrix; use metric='none' above "
            f"{LARGEST_DENSE} columns"
        )


def exact_step(problem: Problem, curvature: float, pull: float, metric: Array | None) -> Array:
    """Return (curvature M + pull A2'A2)^-1: the x2 step with the constraint kept exact.

    M is the metric given, the identity without one.
    """
    matrix = pull * structure_gram(problem)
    if metric is None:
        matrix.flat[:: len(matrix) + 1] += curvature
    else:
        matrix += curvature * metric
    found = inverse(matrix)
    if found is None:
        raise np.linalg.LinAlgError("the matrix of the x2 step is not positive definite")
    return found.astype(problem.dtype)


class RowSampler:
    """Draws rows for Hessians of one finite sum; the probabilities cost two reads of the data."""

    def __init__(self, f2: FiniteSum) -> None:
        self.n_rows = f2.n_terms  # not the rows themselves: they keep their sampler
        energy = np.maximum(column_energies(f2), np.finfo(float).tiny)
        score = row_scores(f2, energy)
        total = score.sum()
        uniform = 1.0 / f2.n_terms
        if total > 0:
            score *= 0.5 / total
            score += 0.5 * uniform
        else:
            score[:] = uniform
        self.cumulative = np.cumsum(score, out=score)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Array]:
        """Return at most ``size`` rows by systematic sampling, and how often each one counts."""
        n = self.n_rows
        marks = (np.arange(size) + rng.random(size)) * (self.cumulative[-1] / size)
        drawn = np.minimum(np.searchsorted(self.cumulative, marks), n - 1)
        rows, count = np.unique(drawn, return_counts=True)
        before = np.where(rows > 0, self.cumulative[rows - 1], 0.0)
        return rows, count / (size * (self.cumulative[rows] - before))


def column_energies(f2: FiniteSum, runs: Runs | None = None) -> Array:
    """Return the mean square of each column, or the largest over one run of rows."""
    if runs is None:  # kept with the rows
        if "_column_energies" not in f2.__dict__:
            f2.__dict__["_column_energies"] = _energies(f2, runs)
        return cast(Array, f2.__dict__["_column_energies"])
    return _energies(f2, runs)


def _energies(f2: FiniteSum, runs: Runs | None) -> Array:
    mean, largest = np.zeros(f2.n_columns), np.zeros(f2.n_columns)
    n_runs = 1 if runs is None else runs.n_runs
    weighted = f2.row_weight is not None
    if f2.compiled:
        from ..kernels.passes import column_energies as sums

        sums(f2.view, n_runs, weighted, mean, largest)
        return mean if runs is None else largest
    if runs is None:
        return _column_means(f2)
    return _largest_over_runs(f2, n_runs)


def _largest_over_runs(f2: FiniteSum, n_runs: int) -> Array:
    """Return the largest mean square of each column over a run; CSR rows stay sparse."""
    edges = np.arange(n_runs + 1) * f2.n_terms // n_runs
    weight = np.ones(f2.n_terms) if f2.row_weight is None else f2.row_weight
    # row r of this matrix is the mean over run r
    shares = weight / np.repeat(np.diff(edges), np.diff(edges))
    mean = sparse.csr_array((shares, np.arange(f2.n_terms), edges), (n_runs, f2.n_terms))
    if f2.storage == CSR:
        largest = (mean @ f2.X.multiply(f2.X).tocsr()).max(axis=0).toarray().ravel()
    else:
        largest = np.zeros(f2.n_features)
        together = max(1, AT_ONCE * n_runs // max(f2.n_terms * f2.n_features, 1))
        for run in range(0, n_runs, together):
            here = edges[run : run + together + 1]
            block = np.square(f2.X[here[0] : here[-1]], dtype=np.float64)
            block *= shares[here[0] : here[-1], None]
            sums = np.add.reduceat(block, here[:-1] - here[0], axis=0)
            np.maximum(largest, sums.max(axis=0), out=largest)
    if f2.intercept:
        largest = np.append(largest, mean.sum(axis=1).max())
    return np.asarray(largest, dtype=np.float64)


def _column_means(f2: FiniteSum) -> Array:
    weight = np.ones(f2.n_terms) if f2.row_weight is None else f2.row_weight
    if f2.storage == CSR:
        mean = np.asarray(f2.X.multiply(f2.X).T @ weight, dtype=np.float64)
    else:  # without a copy of X
        mean = np.einsum("i,ij,ij->j", weight, f2.X, f2.X, dtype=np.float64)
    mean = np.append(mean, weight.sum()) if f2.intercept else mean
    return mean / f2.n_terms


def row_scores(f2: FiniteSum, energy: Array) -> Array:
    """Return ``sum_j x_ij^2 / energy_j`` of each row, sample weight included."""
    out = np.empty(f2.n_terms)
    if f2.compiled:
        from ..kernels.passes import row_scores as scores

        scores(f2.view, f2.row_weight is not None, 1 / energy, out)
        return out
    inverse_energy = 1 / energy[: f2.n_features]
    if f2.storage == CSR:
        out[:] = f2.X.multiply(f2.X) @ inverse_energy
    else:
        np.einsum("ij,ij,j->i", f2.X, f2.X, inverse_energy, out=out)
    if f2.intercept:
        out += 1 / energy[-1]
    return out if f2.row_weight is None else out * f2.row_weight


def row_sampler(f2: FiniteSum) -> RowSampler:
    """Return the sampler of the rows of a finite sum; it is kept with it."""
    if not has_sampler(f2):
        f2.__dict__["_row_sampler"] = RowSampler(f2)
    return cast(RowSampler, f2.__dict__["_row_sampler"])


def has_sampler(f2: FiniteSum) -> bool:
    """Say whether the two reads of a sampler have been made."""
    return "_row_sampler" in f2.__dict__


def data_metric(
    problem: Problem, runs: Runs, rng: np.random.Generator, predictions: Array | None = None
) -> Array:
    """Return the matrix of the x2 step: a sampled Hessian, lifted for rare columns.

    At the predictions of all rows, or the bound on it without them; one matrix for all outputs,
    with
    a bound on each row's largest eigenvalue.
    """
    f2 = cast(FiniteSum, problem.f2)
    loss: Any = f2.loss
    n, d, bound = f2.n_terms, f2.n_columns, float(loss.curvature_bound)
    rows, omega = np.arange(n), np.ones(n)
    if METRIC_ROWS * d < 0.7 * n:
        rows, omega = row_sampler(f2).draw(METRIC_ROWS * d, rng)
    curvature = np.full(rows.size, bound)
    if predictions is not None and offers(loss, Has.CURVATURE):
        local = np.asarray(loss.curvature(predictions[rows], f2.y[rows]), dtype=np.float64)
        curvature = local if local.ndim == 1 else np.minimum(2 * local.max(axis=1), bound)
    metric = f2.gram(curvature * omega, rows) * (rows.size / n)
    return lifted(metric, f2, runs)


def lifted(metric: Array, f2: FiniteSum, runs: Runs) -> Array:
    """Return a metric whose diagonal no batch exceeds by more than ``WORST_BLOCK`` times.

    A batch is ``per_batch`` runs; with mean energy e and largest energy v of a column over runs,
    the
    largest batch mean over an epoch is about v/k (m + 3 sqrt(m) + 3) with m = k e/v expected hits.
    """
    kept = f2.__dict__.setdefault("_energies", {})
    if runs not in kept:
        kept[runs] = column_energies(f2), column_energies(f2, runs)
    mean, largest = kept[runs]
    k = runs.per_batch
    hits = k * mean / np.maximum(largest, np.finfo(float).tiny)
    worst = largest / k * (hits + 3 * np.sqrt(hits) + 3)
    result = metric.copy()
    diagonal = result.diagonal().copy()
    need = float(f2.loss.curvature_bound) * worst / WORST_BLOCK
    result.flat[:: len(result) + 1] = np.maximum(diagonal, need)
    result.flat[:: len(result) + 1] += RIDGE * max(float(diagonal.mean()), 1e-300)
    return result
