"""Engines of this machine: threads of this process, and processes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any

from ..data import Shard
from ..linear_algebra import threads
from ._tree import EngineLost, Node, add_node, tasks_of


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
    """Threads of this process; Ctrl-C takes effect within a block.

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
            done = {key: task() for key, task in tasks_of(shards, work, add, 1).items()}
            return add_node(done, 0, len(shards), add)
        stop = Event()
        watched: list[Any] = [_Watched(shard, stop) for shard in shards]
        tasks = tasks_of(watched, work, add, workers)
        pool = ThreadPoolExecutor(workers)
        try:
            done = dict(zip(tasks, pool.map(_call, tasks.values()), strict=True))
        finally:  # nothing to wait for when all is done; else the blocks that are being read
            stop.set()
            pool.shutdown(cancel_futures=True)
        return add_node(done, 0, len(shards), add)


@dataclass(frozen=True)
class Processes:
    """Processes on this machine; if one dies, it is replaced and its pass starts again.

    Parameters
    ----------
    workers : int
        How many.
    tries : int, default=3
        How often a pass is tried.
    """

    workers: int = 2
    tries: int = 3

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Run the tasks in processes that are kept between passes."""
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        tasks = tasks_of(shards, work, add, self.workers)
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


def _call(task: Node) -> Any:
    return task()


def _one_thread() -> dict[str, str]:
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
    return {name: os.environ.get(name, "1") for name in names}
