"""An epoch that may be left in the middle and gone on with later, by another process too.

Epochs of a method that keeps nothing per row may take an hour on large data. A driver that must
not lose one sets ``state.few``: ``epoch`` then returns after so many steps, with ``state.part``
saying where it stands, and the next call goes on from there, to the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.capabilities import has_members
from ..problem import Pair


@dataclass
class Part:
    """The epoch that is under way."""

    batches: Any
    """Of all its steps: an array, or drawn from files, which are not cut."""
    gradient: Any = None
    """Gradients estimated from the snapshot, where the method has one."""
    done: int = 0
    """Steps that were taken."""
    total: Pair | None = None
    """Sum of the iterates so far, where the method keeps one."""

    def following(self, few: int | None, engine: str) -> slice:
        """Return the steps to take now: all that are left, or so many of the readable loop."""
        end = len(self.batches)
        may_end = engine == "reference" and not has_members(self.batches, "windows")
        if few is not None and may_end:
            end = min(end, self.done + max(few, 1))
        return slice(self.done, end)

    def chosen(self, steps: slice) -> NDArray[np.int64]:
        """Return the batches of these steps."""
        whole = steps == slice(0, len(self.batches))
        chosen: NDArray[np.int64] = self.batches if whole else self.batches[steps]
        return chosen

    def after(self, steps: slice, total: Pair | None = None) -> Part:
        """Return the epoch after these steps; an interrupt in between leaves none."""
        return Part(self.batches, self.gradient, steps.stop, total)

    def is_last(self, steps: slice) -> bool:
        """Say whether the epoch ends with these steps."""
        return bool(steps.stop == len(self.batches))
