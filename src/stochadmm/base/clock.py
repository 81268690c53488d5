"""When a run should end, for inner loops that could outlast it.

The driver makes a `Deadline` and hands it down as the keyword ``deadline``. A long loop asks it
and stops early with what it has: models less accurate, bounds less tight, everything as valid as
before. Nothing is raised; without a limit the time left is infinite and no number depends on the
clock.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment of ``time.perf_counter`` at which loops should end.

    Parameters
    ----------
    end : float, default=inf
        The moment; infinity is no limit.
    """

    end: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment so many seconds from now."""
        return cls(time.perf_counter() + seconds)

    def seconds_left(self) -> float:
        """Return the seconds until the moment, infinity without a limit."""
        return self.end - time.perf_counter()

    def passed(self) -> bool:
        """Say whether loops should have ended."""
        return time.perf_counter() >= self.end


NEVER = Deadline()
"""No limit."""
