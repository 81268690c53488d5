"""When a run should end, for inner loops that could outlast it.

The driver makes a `Deadline` and hands it down as the keyword ``deadline``. A long loop asks it
and stops early with what it has: models less accurate, bounds less tight, everything as valid as
before. Nothing is raised; without a limit the time left is infinite and no number depends on the
clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_end: ContextVar[float] = ContextVar("end", default=math.inf)


@dataclass(frozen=True)
class Deadline:
    """A moment of ``time.perf_counter`` at which loops should end.

    Parameters
    ----------
    end : float, default=inf
        The moment; infinity is no limit.

    Examples
    --------
    >>> from stochadmm.base.clock import NEVER, Deadline
    >>> NEVER.passed(), Deadline.after(0.0).passed(), Deadline.after(60.0).passed()
    (False, True, False)
    """

    end: float = math.inf

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment so many seconds from now."""
        return cls(time.perf_counter() + seconds)

    def sooner(self, seconds: float) -> Deadline:
        """Return the earlier of this moment and one so many seconds from now."""
        return Deadline(min(self.end, time.perf_counter() + seconds))

    def seconds_left(self) -> float:
        """Return the seconds until the moment, infinity without a limit."""
        return min(self.end, _end.get()) - time.perf_counter()

    def passed(self) -> bool:
        """Say whether loops should have ended."""
        return self.seconds_left() <= 0.0


NEVER = Deadline()
"""No limit."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let loops inside the block end so many seconds from now, or when an outer limit says.

    Examples
    --------
    >>> from stochadmm.base.clock import limited, out_of_time
    >>> out_of_time()
    False
    >>> with limited(0.0):
    ...     out_of_time()
    True
    """
    token = _end.set(min(_end.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _end.reset(token)


def seconds_left() -> float:
    """Return the seconds until the run should end, infinity without a limit."""
    return _end.get() - time.perf_counter()


def out_of_time() -> bool:
    """Say whether the run should have ended."""
    return seconds_left() <= 0.0
