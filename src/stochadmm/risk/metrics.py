"""Matrices of the x2 step: how far, and in which directions, a step may go.

A data metric is the Hessian of the loss on a sample of rows. Rows are drawn with probabilities
that mix the uniform ones with ``sum_j x_ij^2 / energy_j``: a column with a handful of entries (a
rare category) is then seen by every sample, where uniform sampling would miss it and leave the
matrix singular in its direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from .sampling import RowSampler, Runs

if TYPE_CHECKING:
    from .finite_sum import FiniteSum


def row_sampler(f2: FiniteSum, workspace: Workspace) -> RowSampler:
    """Return the sampler of the rows of a finite sum, made once per workspace: two reads."""
    return workspace.rows.once(_row_sampler, f2, workspace.rows.once(column_energies, f2))


def _row_sampler(f2: FiniteSum, energy: Array) -> RowSampler:
    return RowSampler(row_scores(f2, np.maximum(energy, np.finfo(float).tiny)))


def sampler_reads(f2: FiniteSum, workspace: Workspace) -> float:
    """Return how often the rows will be read for a sampler: none where there is one."""
    if not workspace.rows.holds(column_energies, f2):
        return 2.0
    known = workspace.rows.holds(_row_sampler, f2, workspace.rows.once(column_energies, f2))
    return 0.0 if known else 1.0


def column_energies(f2: FiniteSum) -> Array:
    """Return the mean square of each column, sample weight included."""
    if f2.compiled:
        return _compiled_energies(f2, 1)[0]
    weight = np.ones(f2.n_terms) if f2.row_weight is None else f2.row_weight
    sums = f2.rows.column_sums_of_squares(weight)
    return (np.append(sums, weight.sum()) if f2.intercept else sums) / f2.n_terms


def run_energies(f2: FiniteSum, n_runs: int) -> Array:
    """Return the largest mean square of each column over one of so many runs of rows."""
    return _compiled_energies(f2, n_runs)[1] if f2.compiled else _largest_over_runs(f2, n_runs)


def _compiled_energies(f2: FiniteSum, n_runs: int) -> tuple[Array, Array]:
    from ..kernels.passes import column_energies as sums

    mean, largest = np.zeros(f2.n_columns), np.zeros(f2.n_columns)
    sums(f2.view, n_runs, f2.row_weight is not None, mean, largest)
    return mean, largest


def _largest_over_runs(f2: FiniteSum, n_runs: int) -> Array:
    edges = np.arange(n_runs + 1) * f2.n_terms // n_runs
    weight = np.ones(f2.n_terms) if f2.row_weight is None else f2.row_weight
    shares = weight / np.repeat(np.diff(edges), np.diff(edges))
    largest = f2.rows.largest_sums_of_squares(shares, edges)
    if f2.intercept:
        largest = np.append(largest, np.add.reduceat(shares, edges[:-1]).max())
    return largest


def row_scores(f2: FiniteSum, energy: Array) -> Array:
    """Return ``sum_j x_ij^2 / energy_j`` of each row, sample weight included."""
    if f2.compiled:
        from ..kernels.passes import row_scores as scores

        out = np.empty(f2.n_terms)
        scores(f2.view, f2.row_weight is not None, 1 / energy, out)
        return out
    out = f2.rows.row_sums_of_squares(1 / energy[: f2.n_features])
    if f2.intercept:
        out += 1 / energy[-1]
    return out if f2.row_weight is None else out * f2.row_weight


def data_metric(
    f2: FiniteSum,
    runs: Runs,
    rng: np.random.Generator,
    predictions: Array | None = None,
    workspace: Workspace | None = None,
) -> Array:
    """Return the matrix of the x2 step: a sampled Hessian, lifted for rare columns.

    At the predictions of all rows, or the bound on it without them; one matrix for all outputs,
    with a bound on each row's largest eigenvalue.
    """
    loss: Any = f2.loss
    workspace = workspace or Workspace()
    n, d, bound = f2.n_terms, f2.n_columns, float(loss.curvature_bound)
    rows, omega, size = np.arange(n), np.ones(n), 20 * d  # relative errors of about sqrt(1 / 20)
    if size < 0.7 * n:
        rows, omega = row_sampler(f2, workspace).draw(size, rng)
    curvature = np.full(rows.size, bound)
    if predictions is not None and offers(loss, Has.CURVATURE):
        local = np.asarray(loss.curvature(predictions[rows], f2.y[rows]), dtype=np.float64)
        curvature = local if local.ndim == 1 else np.minimum(2 * local.max(axis=1), bound)
    metric = f2.gram(curvature * omega, rows) * (rows.size / n)
    mean = workspace.rows.once(column_energies, f2)
    largest = workspace.rows.once(run_energies, f2, runs.n_runs)
    return lifted(metric, bound * worst_energy(mean, largest, runs.per_batch))


def worst_energy(mean: Array, largest: Array, per_batch: int) -> Array:
    """Return about the largest energy of each column over the batches of an epoch.

    A batch is ``per_batch`` runs; with mean energy e and largest energy v of a column over runs,
    it is about v/k (m + 3 sqrt(m) + 3) with m = k e/v expected hits.
    """
    hits = per_batch * mean / np.maximum(largest, np.finfo(float).tiny)
    return np.asarray(largest / per_batch * (hits + 3 * np.sqrt(hits) + 3))


def lifted(metric: Array, worst: Array) -> Array:
    """Return a metric whose diagonal no batch exceeds by more than three times.

    ``worst`` is the diagonal that a batch may have.
    """
    result = metric.copy()
    diagonal = result.diagonal().copy()
    result.flat[:: len(result) + 1] = np.maximum(diagonal, worst / 3.0)
    mean = float(diagonal.mean())
    # collinear columns leave a sampled Hessian singular, a flat loss leaves nothing
    result.flat[:: len(result) + 1] += 1e-10 * mean if mean > 0 else 1.0
    return result
