"""How methods that draw batches get at rows in files: one window of them in memory at a time.

With the rows in memory there is one window, and it is everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.engines import compiled_allowed
from ..base.protocols import Array
from ..base.validation import Unsuitable
from ..base.workspace import Workspace
from ..data import in_parts
from ..problem import Pair, Problem
from ..risk import loss_of_rows
from ..risk.gradients import Anchored
from ..risk.metrics import data_metric
from ..risk.parts import as_finite_sum
from ..risk.sampling import Runs
from ..streaming import (
    Drawn,
    facts_of,
    fastest,
    loss_of_source,
    opened,
    streamed_metric,
    windows,
)
from ._base import State, choose_engine

Piece = tuple[Problem, Anchored, NDArray[np.int64]]
"""A problem over some rows, gradients estimated from these, and the batches of the steps."""


def has_metric(problem: Problem) -> bool:
    """Say whether rows are many enough, in memory or in files, for a metric of their own."""
    f2 = problem.f2
    known = loss_of_source(f2) is not None or loss_of_rows(f2) is not None
    return known and f2.n_terms >= 4 * f2.shape[0]


def snapshot(p: Problem, s: State, runs: Runs, x: Array) -> Anchored:
    """Make the pass at x that differences of gradients start from, unless it is known."""
    source = loss_of_source(p.f2)
    if source is None:
        return Anchored.take(p.f2, runs, x, s.cache)
    known = opened(source, s.workspace)
    f2 = fastest(source, s.workspace)
    if not in_parts(f2.source):
        raise Unsuitable(
            "rows are drawn from a copy of Parquet files; the disk has no room for it, or other "
            "machines do the passes; name a folder with scratch=, or use 'auto'"
        )
    if not x.any():
        return Anchored(f2, runs, known.at_zero, known.at_zero.gradient, reads=0.0)
    return Anchored.take(f2, runs, x, s.cache)


def pieces(
    p: Problem, s: State, gradient: Anchored, batches: NDArray[np.int64] | Drawn
) -> Iterator[Piece]:
    """Yield what the steps of an epoch work on: everything, or one window after the other.

    Engine and workspace of the state are those of the window meanwhile.
    """
    source, f2 = loss_of_source(p.f2), loss_of_source(gradient.f2)
    if not isinstance(batches, Drawn) or source is None or f2 is None:
        yield p, gradient, np.asarray(batches)
        return
    workspace, engine = s.workspace, s.engine
    about = opened(source, workspace).constants
    drawn_from = f2 if about.shuffled is None else f2.over(about.shuffled)
    try:
        for window in windows(drawn_from, batches, about.weight):
            inside = replace(p, f2=window.f2)
            s.workspace = workspace.run()  # views of a window are freed with it
            wanted = "auto" if compiled_allowed() else "reference"
            s.engine = choose_engine(inside, wanted, workspace=s.workspace)
            yield inside, window.anchored(gradient), window.batches
    finally:
        s.workspace, s.engine = workspace, engine


Loop = Callable[..., tuple[Pair, Pair, Pair, Array]]


def accelerated(
    loop: Loop,
    p: Problem,
    s: Any,
    gradient: Anchored,
    batches: NDArray[np.int64],
    momentum: float,
    anchor: float,
    *steps: Any,
) -> tuple[Pair, Pair, Pair, Array]:
    """Run the inner loop of ACC-SADMM piece by piece.

    Between two pieces the extrapolated point and the multiplier ahead follow from the last two
    points; the sum leaves out the very last point only.
    """
    total: Pair | None = None
    x, before, multiplier = s.x, s.x, s.ahead
    for inside, own, few in pieces(p, s, gradient, batches):
        if total is not None:
            s.x, s.lead = x, x + (1 - momentum - anchor) * (x - before)
            s.ahead = multiplier + s.beta * p.constraint(x)
            total = total + x
        del x, before, multiplier  # the loop needs room
        x, before, part, multiplier = loop(inside, s, own, few, momentum, anchor, *steps)
        total = part if total is None else total + part
        del part
    return x, before, p.zeros() if total is None else total, multiplier


def step_metric(
    p: Problem, gradient: Anchored, rng: np.random.Generator, local: bool, workspace: Workspace
) -> Array:
    """Return the data metric of the x2 step: a bound, or with ``local`` the Hessian there."""
    source = loss_of_source(p.f2)
    if source is not None:
        about, sample = opened(source, workspace).constants, facts_of(source, workspace).sample
        at = gradient.at.x if local else None
        return streamed_metric(source, sample, about, gradient.runs.batch_size, at)
    f2, at = as_finite_sum(p.f2), gradient.at
    if not local:
        return data_metric(f2, gradient.runs, rng, workspace=workspace)
    z = at.predictions if at.has_rows else f2.predict(at.x)
    return data_metric(f2, gradient.runs, rng, z, workspace)
