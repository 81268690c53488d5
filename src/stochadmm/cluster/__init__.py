"""Where passes over shards run: threads of this process, processes, a Dask or Ray cluster.

An engine has one method, ``map_reduce(shards, work, add)``. Sums are added along one binary tree
over the numbers of the shards, whatever runs where, so that results have the same bits for any
engine and any number of workers. A worker that dies is replaced by the engine; a pass that fails
for want of workers is begun again, and then given up with `EngineLost`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..data import Source, is_on_dask
from ._dask import Dask
from ._local import Local, Processes
from ._ray import Ray
from ._tree import Engine, EngineLost, add_node, nodes

__all__ = [
    "Dask",
    "Engine",
    "EngineLost",
    "Local",
    "Processes",
    "Ray",
    "add_node",
    "current",
    "nodes",
    "shares_disk",
    "use",
]

_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def use(engine: Engine) -> Iterator[Engine]:
    """Run passes over files inside the ``with`` block on an engine.

    Examples
    --------
    >>> import stochadmm as sa
    >>> with sa.cluster.use(sa.cluster.Local(1)) as engine:
    ...     sa.cluster.current() is engine
    True
    """
    token = _current.set(engine)
    try:
        yield engine
    finally:
        _current.reset(token)


def current(source: Source | None = None) -> Engine:
    """Return the engine in use, threads of this process by default.

    Dask collections (``source``) are worked on by the cluster of the client that is connected, if
    there is one.
    """
    engine = _current.get()
    if engine is None and source is not None and is_on_dask(source):
        engine = _connected()
    return Local() if engine is None else engine


def shares_disk(source: Source | None = None) -> bool:
    """Say whether the engine in use works on this machine, and sees the files written here."""
    return isinstance(current(source), (Local, Processes))


def _connected() -> Dask | None:
    """Return the cluster of the client that Dask itself would use, if there is one."""
    if "distributed" not in sys.modules:  # no client without it
        return None
    from distributed import get_client

    try:
        return Dask(get_client())
    except ValueError:
        return None
