"""Which rows: everything that chooses some of them does so here.

There are five ways because there are five purposes, each with what the others lack:

* `Runs`, mini-batches of steps: independent draws with replacement, so that a batch mean is
  unbiased and batches of an epoch need not be remembered.
* `RowSampler`, the sample behind a Hessian: every rare column must be seen, which takes
  probabilities that follow the rows, and those cost reads of the data that many samples share.
* `consecutive`, the sample behind a certificate that stands alone: no read goes before it and
  memory is read in order; rows that it misses cost tightness, never truth.
* `evenly`, a part of the rows in place of all: rows of any order in fair shares.
* `Coin`, rows of files and of other machines: each row is decided by its number alone, the same on
  every worker, at every try and for every size of block.

Batches
-------
The n rows are cut into ``n_runs`` consecutive runs of nearly equal length (they differ by at most
one row) and a batch is ``per_batch`` runs drawn independently and uniformly. Each row of a batch
counts with the weight ``n_runs / (n_rows * per_batch)``, which makes a batch mean unbiased
whatever the lengths. A batch is thus made of many short extents drawn from everywhere: each is one
consecutive read, so that files can serve them, and no order of the rows in the data can bias a
batch, as whole row groups would. Single rows, as the papers sample them, are the case
``n_runs = n_rows``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..data import Rows, toss

LONGEST_RUN = 40


@dataclass(frozen=True)
class Runs:
    """How rows are drawn.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_runs : int
        Number of runs the rows are cut into; run ``j`` is ``j * n_rows // n_runs`` up to the start
        of the next.
    per_batch : int
        Runs in a batch.

    Examples
    --------
    >>> runs = Runs.blocks(10, batch_size=4)
    >>> runs.n_runs, runs.per_batch
    (10, 4)
    >>> Runs(10, 3, 1).rows(np.array([1]))
    array([3, 4, 5])
    """

    n_rows: int
    n_runs: int
    per_batch: int

    @classmethod
    def single(cls, n_rows: int, batch_size: int) -> Runs:
        """Return batches of independent single rows."""
        return cls(n_rows, n_rows, batch_size)

    @classmethod
    def blocks(cls, n_rows: int, batch_size: int) -> Runs:
        """Return batches of about three or more runs, each of at most ``LONGEST_RUN`` rows."""
        length = min(max(batch_size // 3, 1), LONGEST_RUN)
        n_runs = max(n_rows // length, 1)
        return cls(n_rows, n_runs, max(1, round(batch_size * n_runs / n_rows)))

    @property
    def length(self) -> int:
        """Rows in the longest run."""
        return -(-self.n_rows // self.n_runs)

    @property
    def batch_size(self) -> float:
        """Expected number of rows in a batch."""
        return self.per_batch * self.n_rows / self.n_runs

    @property
    def row_weight(self) -> float:
        """Weight of a row of a batch: the sum of weighted gradients is unbiased."""
        return self.n_runs / (self.n_rows * self.per_batch)

    def draw(self, rng: np.random.Generator, n_batches: int) -> NDArray[np.int64]:
        """Return the runs of ``n_batches`` batches, one batch a row."""
        return rng.integers(self.n_runs, size=(n_batches, self.per_batch))

    def rows(self, runs: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the row indices of the given runs, in order."""
        if self.n_runs == self.n_rows:
            return runs.astype(np.intp, copy=False)
        start = runs * self.n_rows // self.n_runs
        stop = (runs + 1) * self.n_rows // self.n_runs
        return np.concatenate([np.arange(a, b) for a, b in zip(start, stop, strict=True)])


class RowSampler:
    """Draws rows with probabilities that mix the uniform ones with those of given scores.

    Parameters
    ----------
    scores : array
        One number >= 0 per row; the sampler takes the array for its own.
    """

    def __init__(self, scores: Array) -> None:
        self.n_rows = len(scores)
        total, uniform = scores.sum(), 1.0 / len(scores)
        if total > 0:
            scores *= 0.5 / total
            scores += 0.5 * uniform
        else:
            scores[:] = uniform
        self.cumulative = np.cumsum(scores, out=scores)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Array]:
        """Return at most ``size`` rows by systematic sampling, and how often each one counts."""
        drawn = np.searchsorted(self.cumulative, _marks(size, self.cumulative[-1], rng))
        rows, count = np.unique(np.minimum(drawn, self.n_rows - 1), return_counts=True)
        before = np.where(rows > 0, self.cumulative[rows - 1], 0.0)
        return rows, count / (size * (self.cumulative[rows] - before))


def consecutive(n_rows: int, size: int, length: int) -> NDArray[np.intp]:
    """Return about ``size`` rows in runs of a length, one run at least, the same at every call.

    Examples
    --------
    >>> from stochadmm.risk.sampling import consecutive
    >>> consecutive(20, size=8, length=4).reshape(2, 4) % 4
    array([[0, 1, 2, 3],
           [0, 1, 2, 3]])
    """
    chosen = np.random.default_rng(0).permutation(n_rows // length)[: max(1, size // length)]
    return (np.sort(chosen)[:, None] * length + np.arange(length)).ravel()


def evenly(n_rows: int, size: int) -> NDArray[np.intp]:
    """Return one row of each of ``size`` equal parts, at random in it, the same at every call.

    Examples
    --------
    >>> from stochadmm.risk.sampling import evenly
    >>> evenly(1000, 10) // 100
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    marks = _marks(size, n_rows, np.random.default_rng(0))
    return np.minimum(marks.astype(np.intp), n_rows - 1)


def _marks(size: int, end: float, rng: np.random.Generator) -> Array:
    """Return one number in each of ``size`` equal parts of the numbers up to ``end``."""
    return np.asarray((np.arange(size) + rng.random(size)) * (end / size))


@dataclass(frozen=True)
class Coin:
    """Which rows belong to the sample.

    ``rate`` is the expected share of the rows. With ``energy``, the mean square of each column,
    half of it goes to rows in proportion to ``sum_j x_ij^2 / (d energy_j)``, so that rare columns
    are seen.
    """

    seed: int
    rate: float
    energy: Array | None = field(default=None, repr=False)

    def probabilities(self, rows: Rows) -> Array:
        """Return p_i of each row."""
        n = rows.shape[0]
        if self.energy is None or self.rate >= 1:
            return np.full(n, min(self.rate, 1.0))
        inverse = np.divide(
            1.0, self.energy, out=np.zeros_like(self.energy), where=self.energy > 0
        )
        score = rows.row_sums_of_squares(inverse) / max(1, np.count_nonzero(inverse))
        return np.asarray(np.minimum(1.0, 0.5 * self.rate * (1.0 + score)))

    def toss(self, first: int, n: int) -> Array:
        """Return one number in [0, 1) per row, from the seed and its number alone."""
        return toss(self.seed, first, n)
