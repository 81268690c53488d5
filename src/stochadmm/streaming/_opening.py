"""What a run finds out about rows that are not in memory before its first step, in one read.

Second-order steps ask for the facts of the first pass. Stochastic methods ask for constants and
the gradient at zero as well, and for rows in an order that windows can be read from: that is the
same read with more work on every block.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from .. import cluster
from ..base.workspace import Workspace
from ..data import Block, Shard, shuffle_for
from ..risk import Evaluation
from ._constants import Constants, RowSums, RowSumsWork, constants_from, constants_work
from ._passes import Sums, Work
from ._reading import Added, add, over_blocks, over_source
from ._sum import Facts, StreamedSum, copy_of, facts_from, first_pass
from ._windows import WindowRuns


@dataclass(frozen=True)
class OpeningSums(Added):
    """What that read leaves behind."""

    first: Sums
    rows: RowSums
    at_zero: Sums


@dataclass(frozen=True)
class OpeningWork:
    """The work on one shard."""

    first: Work
    rows: RowSumsWork
    at_zero: Work

    def __call__(self, shard: Shard) -> OpeningSums:
        """Read the shard once."""
        total = over_blocks(shard, self.first.block_bytes, self._block, add)
        return OpeningSums(total.first.with_one_sample(), total.rows, total.at_zero)

    def _block(self, block: Block) -> OpeningSums:
        first = self.first.block(block)  # which checks the numbers
        return OpeningSums(first, self.rows.block(block), self.at_zero.block(block))


@dataclass(frozen=True)
class Opening:
    """What stochastic methods know of all rows before they begin."""

    facts: Facts
    constants: Constants
    at_zero: Evaluation
    """Value and gradient at zero."""


def opening(f2: StreamedSum) -> Opening:
    """Return what stochastic methods ask of a streamed sum first: one read.

    Rows that have to be decoded are copied on the way; those that several windows hold, in another
    order too, if the disk has room: rows that were neighbours come to different windows. Such a
    copy is of this machine, whatever engine is in use, because windows are read here.
    """
    lanes, zero = WindowRuns.of(f2, 1).lanes(f2.seed), np.zeros(f2.shape)
    copy = copy_of(f2.source)
    shuffled = shuffle_for(f2.source, lanes, copy) if lanes.count > 1 else None
    work = OpeningWork(f2.first_work(copy), constants_work(f2, shuffled), f2.work(zero))
    here = shuffled is None or cluster.shares_disk(f2.source)
    with nullcontext() if here else cluster.use(cluster.Local()):
        sums = over_source(f2.source, work, add)
    at = sums.at_zero
    return Opening(
        facts_from(sums.first, copy),
        constants_from(f2, sums.rows, shuffled),
        Evaluation(zero, at.value / at.weight, at.gradient / at.weight),
    )


def opened(f2: StreamedSum, workspace: Workspace) -> Opening:
    """Return what stochastic methods ask first, found once per run."""
    return workspace.rows.once(_opened, f2, workspace.rows)


def _opened(f2: StreamedSum, rows: Workspace) -> Opening:
    return opening(fastest(f2, rows) if rows.holds(first_pass, f2) else f2)


def facts_of(f2: StreamedSum, workspace: Workspace) -> Facts:
    """Return what the first pass finds, found once per run, be it the one for more than that."""
    rows = workspace.rows
    if rows.holds(_opened, f2, rows) and not rows.holds(first_pass, f2):
        return opened(f2, rows).facts
    return rows.once(first_pass, f2)


def fastest(f2: StreamedSum, workspace: Workspace) -> StreamedSum:
    """Return the term over the fastest files with its rows that a run has, one object per run."""
    return workspace.rows.once(_fastest, f2, workspace.rows)


def _fastest(f2: StreamedSum, rows: Workspace) -> StreamedSum:
    copy = facts_of(f2, rows).copy
    return f2 if copy is None else f2.over(copy)
