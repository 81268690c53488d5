"""Steps of a quadratic with a nuclear norm and at most one other penalty; needs the extension.

``low_rank.Splitting`` has the readable form.
"""

from __future__ import annotations

from typing import NamedTuple

from ..base.protocols import Array
from .extension import core
from .views import PenaltyView


class Consensus(NamedTuple):
    """What the steps work on: W, Z and v are changed in place, ``before`` is written.

    Z and v hold one block for each penalty, the nuclear norm's first; ``before`` gets the Z before
    the last step. ``inverse = (B + penalties rho)^-1``.
    """

    h: PenaltyView | None
    """The other penalty."""
    inverse: Array
    linear: Array
    W: Array
    Z: Array
    v: Array
    before: Array
    alpha: float
    """Strength of the nuclear norm."""
    rho: float
    relax: float
    steps: int


def consensus(task: Consensus) -> None:
    """Make some steps of the splitting."""
    core().consensus(task)
