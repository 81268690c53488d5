"""Where passes over shards run: threads of this process, processes, a Dask cluster.

An engine has one method, ``map_reduce(shards, work, add)``. Sums are added along one binary tree
over the numbers of the shards, whatever runs where, so that results have the same bits for any
engine and any number of workers. A worker that dies is replaced by the engine; a pass that fails
for want of workers is begun again, and then given up with `EngineLost`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .data import DataError, Shard, Source, is_on_dask
from .linear_algebra import threads

T = TypeVar("T")
Work = Callable[[Shard], T]
Add = Callable[[T, T], T]

TASKS_PER_WORKER = 4
"""Shards are handed out in so many groups per worker: a task costs milliseconds by itself."""


class EngineLost(RuntimeError):
    """The engine could not finish a pass; the message says where the run can be taken up."""


class Engine(Protocol):
    """Runs work on every shard and adds up the results."""

    def map_reduce(self, shards: Sequence[Shard], work: Work[T], add: Add[T]) -> T:
        """Return the sum of ``work(shard)`` along the tree over the shards."""


def nodes(count: int, wanted: int) -> list[tuple[int, int]]:
    """Return ranges of shards that are nodes of the tree, at least ``wanted`` where possible.

    Examples
    --------
    >>> from stochadmm.cluster import nodes
    >>> nodes(8, 3)
    [(0, 2), (2, 4), (4, 6), (6, 8)]
    """
    level = [(0, count)]
    while len(level) < min(wanted, count):
        level = [part for low, high in level for part in _halves(low, high)]
    return level


def _halves(low: int, high: int) -> list[tuple[int, int]]:
    if high - low == 1:
        return [(low, high)]
    middle = (low + high) // 2
    return [(low, middle), (middle, high)]


def add_node(values: dict[tuple[int, int], Any], low: int, high: int, add: Any) -> Any:
    """Return the sum of a node, from nodes below it that are known."""
    if (low, high) in values:
        return values.pop((low, high))
    left, right = _halves(low, high)
    return add(add_node(values, *left, add), add_node(values, *right, add))


@dataclass(frozen=True)
class Node:
    """A task: work on the shards of one node of the tree, added up as the tree says."""

    shards: tuple[Shard, ...]
    work: Any
    add: Any

    def __call__(self) -> Any:
        """Do the work."""
        return self._sum(0, len(self.shards))

    def _sum(self, low: int, high: int) -> Any:
        if high - low == 1:
            return self.work(self.shards[low])
        (a, b), (c, d) = _halves(low, high)
        return self.add(self._sum(a, b), self._sum(c, d))


def _tasks(
    shards: Sequence[Shard], work: Any, add: Any, workers: int
) -> dict[tuple[int, int], Node]:
    ranges = nodes(len(shards), TASKS_PER_WORKER * workers)
    return {(a, b): Node(tuple(shards[a:b]), work, add) for a, b in ranges}


@dataclass(frozen=True)
class Local:
    """Threads of this process.

    Parameters
    ----------
    workers : int, optional
        How many; by default as many as other passes use (`use_threads`).
    """

    workers: int | None = None

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Run the tasks in a pool of threads."""
        workers = min(self.workers or threads.count(), len(shards))
        tasks = _tasks(shards, work, add, workers)
        if workers == 1:
            done = {key: task() for key, task in tasks.items()}
        else:
            with ThreadPoolExecutor(workers) as pool:
                done = dict(zip(tasks, pool.map(lambda task: task(), tasks.values()), strict=True))
        return add_node(done, 0, len(shards), add)


@dataclass(frozen=True)
class Processes:
    """Processes on this machine; one that dies is replaced, and its pass begun again.

    Parameters
    ----------
    workers : int
        How many.
    tries : int, default=3
        How often a pass is begun.
    """

    workers: int = 2
    tries: int = 3

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Run the tasks in processes that are kept between passes."""
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        tasks = _tasks(shards, work, add, self.workers)
        for _ in range(self.tries):
            pool = get_reusable_executor(max_workers=self.workers, timeout=300, env=_one_thread())
            try:
                done = dict(zip(tasks, pool.map(_call, tasks.values()), strict=True))
            except TerminatedWorkerError:
                continue
            return add_node(done, 0, len(shards), add)
        raise EngineLost(
            f"a pass lost a process {self.tries} times, perhaps for want of memory; use fewer"
        )


@dataclass(frozen=True)
class Dask:
    """A Dask cluster: shards are read where the workers are, sums come back.

    Parameters
    ----------
    client : dask.distributed.Client
        Connected to the cluster.
    timeout : float, default=600
        Seconds without any task ending after which the cluster counts as lost.
    tries : int, default=3
        How often a pass is begun.
    """

    client: Any
    timeout: float = 600.0
    tries: int = 3

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Submit a task per group of shards; Dask repeats those of workers that die."""
        from distributed import TimeoutError as TimedOut
        from distributed import wait as wait_for

        wait: Any = wait_for

        reason = "no worker"
        for _ in range(self.tries):
            workers = max(1, len(self.client.nthreads()))
            tasks = _tasks(shards, work, add, workers)
            futures = [
                self.client.submit(_call, task, pure=False, retries=2) for task in tasks.values()
            ]
            try:
                left = set(futures)
                while left:
                    left = wait(left, timeout=self.timeout, return_when="FIRST_COMPLETED").not_done
                done = dict(zip(tasks, self.client.gather(futures), strict=True))
                return add_node(done, 0, len(shards), add)
            except DataError:
                raise
            except (TimedOut, OSError, RuntimeError) as error:
                reason = f"{type(error).__name__}: {error}"
                self.client.cancel(futures, force=True)
        raise EngineLost(f"the Dask cluster did not finish a pass ({reason})")


def _call(task: Node) -> Any:
    return task()


def _one_thread() -> dict[str, str]:
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    return {name: os.environ.get(name, "1") for name in names}


_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def use(engine: Engine) -> Iterator[Engine]:
    """Let passes over files inside the block run on an engine.

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


def _connected() -> Dask | None:
    """Return the cluster of the client that Dask itself would use, if there is one."""
    if "distributed" not in sys.modules:  # no client without it
        return None
    from distributed import get_client

    try:
        return Dask(get_client())
    except ValueError:
        return None
