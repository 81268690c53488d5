"""A Dask cluster as an engine."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

from ..data import Shard
from ._tree import EngineLost, Node, TaskFailed, add_node, tasks_of, value_of


@dataclass(frozen=True)
class Dask:
    """A Dask cluster: shards are read where the workers are, sums come back.

    Partitions that the cluster holds (``X.persist()``) are processed one by one, where they are;
    other shards in about four tasks per worker. Dask repeats the tasks of workers that die.

    Parameters
    ----------
    client : dask.distributed.Client
        Connected to the cluster.
    timeout : float, default=600
        Seconds without any finished task after which a pass starts again.
    patience : float, default=60
        Seconds without any worker after which the cluster counts as lost.
    tries : int, default=3
        How often a pass is tried.
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
        tasks = tasks_of(shards, work, add, max(1, len(self.client.nthreads())))
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
                done[where[future]] = value_of(value)
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
