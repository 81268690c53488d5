"""When a run should end, for inner loops that could outlast it.

The driver sets the moment. A long loop looks at it and stops early with what it has: models less
accurate, bounds less tight, everything as valid as before. Nothing is raised and nothing need be
passed on; without a limit the time left is infinite.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float] = ContextVar("end", default=math.inf)


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
