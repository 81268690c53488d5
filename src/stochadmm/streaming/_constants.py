"""Constants of a mean loss over a source, which the steps of stochastic methods follow from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import Block, Scratch, Source
from ..risk.metrics import lifted, worst_energy
from ._passes import Sample
from ._sum import StreamedSum, in_memory

GRAM_COLUMNS = 1024
"""Columns up to which the Gram matrix of all rows is made; beyond, its trace bounds its norm."""


@dataclass(frozen=True)
class RowSums:
    """Sums and largest values over rows; weights as given, intercept included."""

    weight: float
    gram: Array
    """The Gram matrix, or its diagonal where columns are many."""
    longest: float
    """Largest weighted squared norm of a row."""
    peaks: Array
    """Largest weighted square of each column."""

    def add(self, other: RowSums) -> RowSums:
        """Return the sums of two ranges of rows, this one first."""
        return RowSums(
            self.weight + other.weight,
            self.gram + other.gram,
            max(self.longest, other.longest),
            np.maximum(self.peaks, other.peaks),
        )


@dataclass(frozen=True)
class RowSumsWork:
    """What is done with every block."""

    intercept: bool
    square: bool
    """Whether all of the Gram matrix is made."""
    scratch: Scratch | None = None
    """Where the rows are written on the way."""

    def block(self, block: Block) -> RowSums:
        """Return the sums of one block."""
        if self.scratch is not None:
            self.scratch.write(block)
        q, rows = block.weights, block.rows.as_type(np.float64)
        gram = (
            rows.sandwich(q, ones=self.intercept)
            if self.square
            else np.append(rows.column_sums_of_squares(q), [q.sum()] * self.intercept)
        )
        norms = rows.row_sums_of_squares(np.ones(rows.shape[1])) + self.intercept
        longest = float(np.max(q * norms))
        edges = np.arange(len(q) + 1)
        peaks = rows.largest_sums_of_squares(q, edges)
        peaks = np.append(peaks, [q.max()] * self.intercept)
        return RowSums(float(q.sum()), gram, longest, peaks)


@dataclass(frozen=True)
class Constants:
    """Lipschitz constants of the mean and of its largest term; energies of the columns."""

    weight: float
    """Mean weight of a row."""
    mean: float
    largest: float
    energy: Array
    peaks: Array
    shuffled: Source | None = None
    """The same rows in another order, made on the way, for windows."""


def constants_work(f2: StreamedSum, scratch: Scratch | None) -> RowSumsWork:
    """Return what a pass for the constants does with every block."""
    return RowSumsWork(f2.intercept, f2.n_columns <= GRAM_COLUMNS, scratch)


def constants_from(f2: StreamedSum, sums: RowSums, scratch: Scratch | None) -> Constants:
    """Return the constants behind the sums of a pass."""
    bound, mean = float(f2.loss.curvature_bound), sums.weight / f2.n_terms
    gram, square = sums.gram / sums.weight, sums.gram.ndim == 2
    energy = np.diagonal(gram).copy() if square else gram
    top = float(np.linalg.eigvalsh(gram)[-1]) if square else np.inf
    return Constants(
        mean,
        bound * min(top * (1 + 1e-9), float(energy.sum())),
        bound * sums.longest / mean,
        energy,
        sums.peaks / mean,
        None if scratch is None else scratch.files,
    )


def streamed_metric(
    f2: StreamedSum, sample: Sample, about: Constants, batch_size: float, at: Array | None = None
) -> Array:
    """Return the matrix of the x2 step for batches of single rows.

    It is the bound on the Hessian of a sample, or that Hessian at a point.
    """
    few = in_memory(f2, sample, sample.weight / sample.probability)
    bound, loss = float(f2.loss.curvature_bound), few.loss
    curvature = np.full(few.n_terms, bound)
    if at is not None and offers(loss, Has.CURVATURE):
        curvature = np.asarray(loss.curvature(few.predict(at), few.y), np.float64)
    worst = worst_energy(about.energy, about.peaks, max(1, round(batch_size)))
    return lifted(few.gram(curvature), bound * worst)
