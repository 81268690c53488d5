"""Where a loss is itself: some are exact for a range of predictions and go on as a parabola.

Gamma and Poisson losses have no bounded curvature; beyond a range they continue as a parabola. A
point with predictions beyond that range is the answer of another problem.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..base.capabilities import Has, fact, offers
from ..base.protocols import Array
from ..data import Block
from ..risk import StreamedSum
from ..risk.passes import predictions

ROUNDING = 1e-6
"""How far beyond is nothing: the parabola differs from the loss by a sixth of its cube."""


def beyond_range(f2: Any, x: Array) -> float:
    """Return how far a prediction of rows that count lies beyond the range of the loss.

    It is minus infinity for losses that are themselves everywhere.
    """
    if not offers(fact(f2, "loss"), Has.BEYOND):
        return -np.inf
    if not isinstance(f2, StreamedSum):
        return _largest(f2.loss.beyond(f2.predict(x), f2.y), f2.weight)
    x = np.asarray(x, dtype=np.float64)
    return float(f2.over_blocks(partial(_beyond, f2.loss, x, f2.intercept), max))


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


def _beyond(loss: Any, x: Array, intercept: bool, block: Block) -> float:
    """Return the same for a block; travels to other processes."""
    z = predictions(block.rows.as_type(np.float64), x, intercept)
    z = z if block.offset is None else z + block.offset
    return _largest(loss.beyond(z, np.asarray(block.y, dtype=np.float64)), block.weight)
