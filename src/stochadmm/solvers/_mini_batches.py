"""Mini-batches and the gradients estimated from them, for rows in memory and rows in files.

Rows of files come in windows, one of which is in memory at a time; with the rows in memory there
is one window, and it is everything. The loops of the methods do not know which.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..base.validation import Unsuitable
from ..base.workspace import Workspace
from ..data import in_parts
from ..kernels.extension import available
from ..problem import Problem
from ..risk import StreamedSum
from ..risk.finite_sum import as_finite_sum
from ..risk.gradients import Anchored
from ..risk.mean_loss import mean_loss
from ..risk.metrics import data_metric
from ..risk.sampling import Runs
from ..risk.streamed import facts_of, opening_of, streamed_metric
from ..risk.windows import Drawn, windows
from ._base import State, choose_engine


@dataclass(frozen=True)
class MiniBatches:
    """Steps whose rows are in memory together: all of an epoch, or one window's of files."""

    problem: Problem
    """The problem over these rows; only compiled loops look at it."""
    gradient: Anchored
    """Gradients estimated from these rows and the snapshot."""
    batches: NDArray[np.int64]
    engine: str
    workspace: Workspace


def has_metric(problem: Problem) -> bool:
    """Say whether rows are many enough, in memory or in files, for a metric of their own."""
    f2 = mean_loss(problem.f2)
    return f2 is not None and f2.n_terms >= 4 * f2.n_columns


def snapshot(p: Problem, s: State, runs: Runs, x: Array) -> Anchored:
    """Make the pass at x that differences of gradients start from, unless it is known."""
    if not isinstance(p.f2, StreamedSum):
        return Anchored.take(p.f2, runs, x, s.cache)
    known, f2 = opening_of(p.f2, s.workspace), p.f2.opened(s.workspace)
    if not in_parts(f2.source):
        raise Unsuitable(
            "rows are drawn from a copy of Parquet and Zarr files; the disk has no room for it, "
            "or other machines do the passes; name a folder with scratch=, or use 'auto'"
        )
    if not x.any():
        return Anchored(f2, runs, known.at_zero, known.at_zero.gradient, reads=0.0)
    return Anchored.take(f2, runs, x, s.cache)


def mini_batches(
    p: Problem,
    s: State,
    gradient: Anchored,
    batches: NDArray[np.int64] | Drawn,
    workspace: Workspace | None = None,
) -> Iterator[MiniBatches]:
    """Yield the steps of an epoch: all at once, or those of one window after the other.

    A problem over a part of the rows comes with a workspace of its own, freed with it.
    """
    f2: Any = gradient.f2
    if not isinstance(batches, Drawn) or not isinstance(p.f2, StreamedSum):
        own = s.workspace if workspace is None else workspace
        yield MiniBatches(p, gradient, np.asarray(batches), s.engine, own)
        return
    about = opening_of(p.f2, s.workspace).constants
    drawn_from = f2 if about.shuffled is None else f2.changed(source=about.shuffled)
    wanted = "auto" if available() else "reference"
    for window in windows(drawn_from, batches, about.weight):
        inside = replace(p, f2=window.f2)
        workspace = s.workspace.run()  # views of a window are freed with it
        engine = choose_engine(inside, wanted, workspace=workspace)
        yield MiniBatches(inside, window.anchored(gradient), window.batches, engine, workspace)


def step_metric(
    p: Problem, gradient: Anchored, rng: np.random.Generator, local: bool, workspace: Workspace
) -> Array:
    """Return the data metric of the x2 step: a bound, or with ``local`` the Hessian there."""
    if isinstance(p.f2, StreamedSum):
        known, at = opening_of(p.f2, workspace), gradient.at.x if local else None
        sample, batch = facts_of(p.f2, workspace).sample, gradient.runs.batch_size
        return streamed_metric(p.f2, sample, known.constants, batch, at)
    f2, at = as_finite_sum(p.f2), gradient.at
    if not local:
        return data_metric(f2, gradient.runs, rng, workspace=workspace)
    z = at.predictions if at.has_rows else f2.predict(at.x)
    return data_metric(f2, gradient.runs, rng, z, workspace)
