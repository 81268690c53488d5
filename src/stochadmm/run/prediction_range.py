"""Where a loss is itself: some are exact for a range of predictions and go on as a parabola.

Gamma and Poisson losses have no bounded curvature; beyond a range they continue as a parabola. A
point with predictions beyond that range is the answer of another problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cluster
from ..base.capabilities import Has, fact, offers
from ..base.protocols import Array
from ..data import Shard
from ..risk.streamed import loss_of_source

ROUNDING = 1e-6
"""How far beyond is nothing: the parabola differs from the loss by a sixth of its cube."""


def beyond_range(f2: Any, x: Array) -> float:
    """Return how far a prediction of rows that count lies beyond the range of the loss.

    It is minus infinity for losses that are themselves everywhere.
    """
    if not offers(fact(f2, "loss"), Has.BEYOND):
        return -np.inf
    source = loss_of_source(f2)
    if source is None:
        return _largest(f2.loss.beyond(f2.predict(x), f2.y), f2.weight)
    work = _Furthest(source, np.asarray(x, dtype=np.float64))
    return float(cluster.current(source.source).map_reduce(source.source.shards, work, max))


def wider(loss: Any, beyond: float, more: float = 1.0) -> Any:
    """Return the loss with a range that probably holds the answer that lay beyond this one.

    The derivative of the parabola at that distance is that of the exponential at its logarithm:
    the exact answer lies about there, and rarely further than ``more`` beyond.
    """
    return loss.wider(float(np.log1p(beyond)) + more)


def why_not_exact(loss: Any, beyond: float) -> str:
    """Say in words that predictions lie beyond the range, and what to call instead."""
    again, name = wider(loss, beyond), type(loss).__name__
    if again == loss:
        return f"predictions lie beyond all numbers that {name} is computed for; rescale the data"
    return (
        f"predictions lie {beyond:.3g} beyond the range where {name} is exact, so this is the "
        f"answer of another loss; solve again with loss {again!r}"
    )


def _largest(excess: Array, weight: Array | None) -> float:
    if weight is not None:
        excess = excess[np.asarray(weight) > 0]
    return float(np.max(excess, initial=-np.inf))


@dataclass(frozen=True)
class _Furthest:
    """The same for a shard; travels to other processes."""

    f2: Any
    x: Array

    def __call__(self, shard: Shard) -> float:
        return max(map(self._block, shard.blocks(self.f2.block_bytes)))

    def _block(self, block: Any) -> float:
        z = block.rows.as_type(np.float64).matvec(self.x[: self.f2.n_features])
        z = z + self.x[-1] if self.f2.intercept else z
        z = z if block.offset is None else z + block.offset
        y = np.asarray(block.y, dtype=np.float64)
        return _largest(self.f2.loss.beyond(z, y), block.weight)
