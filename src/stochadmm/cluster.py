"""Where passes over shards run: threads of this process, processes, a Dask cluster.

An engine has one method, ``map_reduce(shards, work, add)``. Sums are added along one binary tree
over the numbers of the shards, whatever runs where, so that results have the same bits for any
engine and any number of workers. A worker that dies is replaced by the engine; a pass that fails
for want of workers is begun again, and then given up with `EngineLost`.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol, TypeVar

from .data import Shard, Source, is_on_dask
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


# ---------------------------------------------------------------- threads


class _Stopped(Exception):
    """Another thread has ended the pass."""


@dataclass(frozen=True)
class _Watched:
    """A shard whose reading ends within a block when the pass is given up."""

    shard: Any
    stop: Event

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shard, name)

    def blocks(self, max_bytes: int) -> Iterator[Any]:
        """Yield the blocks of the shard while they are wanted."""
        for block in self.shard.blocks(max_bytes):
            if self.stop.is_set():
                raise _Stopped
            yield block


@dataclass(frozen=True)
class Local:
    """Threads of this process; Ctrl-C is answered within a block.

    Parameters
    ----------
    workers : int, optional
        How many; by default as many as other passes use (`use_threads`).
    """

    workers: int | None = None

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Run the tasks in a pool of threads."""
        workers = min(self.workers or threads.count(), len(shards))
        if workers == 1:
            done = {key: task() for key, task in _tasks(shards, work, add, 1).items()}
            return add_node(done, 0, len(shards), add)
        stop = Event()
        watched: list[Any] = [_Watched(shard, stop) for shard in shards]
        tasks = _tasks(watched, work, add, workers)
        pool = ThreadPoolExecutor(workers)
        try:
            done = dict(zip(tasks, pool.map(_call, tasks.values()), strict=True))
        finally:  # nothing to wait for when all is done; else the blocks that are being read
            stop.set()
            pool.shutdown(cancel_futures=True)
        return add_node(done, 0, len(shards), add)


# ---------------------------------------------------------------- processes


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
            except KeyboardInterrupt:
                pool.shutdown(kill_workers=True)
                raise
            return add_node(done, 0, len(shards), add)
        raise EngineLost(
            f"a pass lost a process {self.tries} times, perhaps for want of memory; use fewer"
        )


# ---------------------------------------------------------------- Dask


@dataclass(frozen=True)
class Dask:
    """A Dask cluster: shards are read where the workers are, sums come back.

    Partitions that the cluster holds (``X.persist()``) are worked on one by one, where they are;
    other shards in about four tasks per worker. Dask repeats the tasks of workers that die.

    Parameters
    ----------
    client : dask.distributed.Client
        Connected to the cluster.
    timeout : float, default=600
        Seconds without any task ending after which a pass is begun again.
    patience : float, default=60
        Seconds without any worker after which the cluster counts as lost.
    tries : int, default=3
        How often a pass is begun.
    """

    client: Any
    timeout: float = 600.0
    patience: float = 60.0
    tries: int = 3

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Submit a task per group of shards, and add up what comes back."""
        reason = ""
        for _ in range(self.tries):
            futures: list[Any] = []
            try:
                done = self._pass(shards, work, add, futures)
                return add_node(done, 0, len(shards), add)
            except TaskFailed as error:
                self._drop(futures)
                raise error.reason from error
            except EngineLost:
                self._drop(futures)
                raise
            except Exception as error:  # of the cluster: those of tasks come as TaskFailed
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                self._drop(futures)
                if self.client.status != "running":
                    break
            except KeyboardInterrupt:
                self._drop(futures)
                raise
        raise EngineLost(f"the Dask cluster did not finish a pass ({reason})")

    def _pass(
        self, shards: Sequence[Shard], work: Any, add: Any, futures: list[Any]
    ) -> dict[tuple[int, int], Any]:
        """Return the sums of one pass by range of shards; futures are told as they are made."""
        tasks = _tasks(shards, work, add, max(1, len(self.client.nthreads())))
        packed = {key: _packed(task) for key, task in tasks.items()}
        if any(held for _, held in packed.values()):  # go where the rows are
            each = enumerate(shards)
            packed = {(k, k + 1): _packed(Node((shard,), work, add)) for k, shard in each}
        for text, held in packed.values():
            futures.append(self.client.submit(_unpacked, text, held, pure=False, retries=2))
        where = dict(zip(futures, packed, strict=True))
        done: dict[tuple[int, int], Any] = {}
        for ended in self._ended(futures):
            for future, value in zip(ended, self.client.gather(ended), strict=True):
                if isinstance(value, TaskFailed):
                    raise value
                done[where[future]] = value
                future.release()
        return done

    def _ended(self, futures: list[Any]) -> Iterator[list[Any]]:
        """Yield futures as they end, so that messages come while others work.

        Raise where none ends in time, or nobody is there to work.
        """
        left, ended, seen = list(futures), time.monotonic(), time.monotonic()
        news = Event()
        for future in futures:
            future.add_done_callback(lambda _: news.set())
        while left:
            news.clear()
            still = [future for future in left if future.status == "pending"]
            now = time.monotonic()
            if len(still) < len(left):
                ended = now
                waits = set(still)
                yield [future for future in left if future not in waits]
            left = still
            if now - ended > self.timeout:
                raise TimeoutError(f"no task has ended for {self.timeout:.0f} s")
            if self.client.status != "running":
                raise EngineLost("the Dask cluster is gone: its scheduler does not answer")
            if now - ended < 2.0 or len(self.client.nthreads()) > 0:
                seen = now
            if now - seen > self.patience:
                raise EngineLost(f"the Dask cluster has had no worker for {self.patience:.0f} s")
            if left:
                news.wait(1.0)

    def _drop(self, futures: list[Any]) -> None:
        """Tell the cluster that a pass is given up, if it still listens."""
        if futures and self.client.status == "running":
            with suppress(Exception):
                self.client.cancel(futures, force=True)


class TaskFailed(Exception):
    """What went wrong in a task itself: no other worker would do better.

    Most come back as values, so that Dask does not repeat them.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


def _packed(task: Node) -> tuple[bytes, dict[str, Any]]:
    """Return a task as bytes, and apart from it the futures that it holds."""
    import cloudpickle  # type: ignore[import-untyped]
    from distributed import Future

    held: dict[str, Any] = {}

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> str | None:
            if not isinstance(value, Future):
                return None
            held[str(value.key)] = value
            return str(value.key)

    file = io.BytesIO()
    Packer(file).dump(task)
    return file.getvalue(), held


def _unpacked(text: bytes, held: dict[str, Any]) -> Any:
    """Do a task on a worker, where futures have become what they stand for."""

    class Unpacker(pickle.Unpickler):
        def persistent_load(self, key: str) -> Any:
            return held[key]

    try:
        return Unpacker(io.BytesIO(text)).load()()
    except OSError as error:  # a disk or a network may do better the next time
        raise TaskFailed(error) from error
    except Exception as error:
        return TaskFailed(error)


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
