"""Mini-batches as runs of consecutive rows.

The n rows are cut into ``n_runs`` consecutive runs of nearly equal length (they differ by at most
one row) and a batch is ``per_batch`` runs drawn independently and uniformly. Each row of a batch
counts with the weight ``n_runs / (n_rows * per_batch)``, which makes a batch mean unbiased
whatever the lengths. A batch is thus made of many short extents drawn from everywhere: each is one
consecutive read, so that files can serve them, and no order of the rows in the data can bias a
batch, as whole row groups would. Single rows, as the papers sample them, are the case
``n_runs = n_rows``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
