"""Whether compiled code may run now.

A run with ``engine="reference"`` uses readable Python and NumPy everywhere: steps, passes over the
data, certificates. The choice belongs to the run, so that nothing need be passed on; helper
threads inherit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_compiled: ContextVar[bool] = ContextVar("stochadmm_compiled", default=True)


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Let no compiled code run inside the block if ``name`` is "reference".

    Examples
    --------
    >>> from stochadmm.base.engines import compiled_allowed, engine
    >>> compiled_allowed()
    True
    >>> with engine("reference"):
    ...     compiled_allowed()
    False
    """
    token = _compiled.set(_compiled.get() and name != "reference")
    try:
        yield
    finally:
        _compiled.reset(token)


def compiled_allowed() -> bool:
    """Say whether compiled code may run."""
    return _compiled.get()
