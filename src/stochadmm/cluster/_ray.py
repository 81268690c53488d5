"""A Ray cluster as an engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..data import Shard
from ._tree import EngineLost, TaskFailed, add_node, outcome, tasks_of, value_of


@dataclass(frozen=True)
class Ray:
    """The Ray cluster that this process is connected to (``ray.init()``).

    Shards are read where its workers are, about four tasks for each of its processors; Ray repeats
    the tasks of workers that die.

    Parameters
    ----------
    timeout : float, default=600
        Seconds without any finished task after which the cluster counts as lost.
    """

    timeout: float = 600.0

    def map_reduce(self, shards: Sequence[Shard], work: Any, add: Any) -> Any:
        """Submit a task per group of shards, and add up what comes back."""
        import ray

        if not ray.is_initialized():
            raise EngineLost("this process is not connected to a Ray cluster; call ray.init()")
        tasks = tasks_of(shards, work, add, max(1, int(ray.cluster_resources().get("CPU", 1))))
        run, left = ray.remote(num_cpus=1)(outcome), []
        try:
            where = {run.remote(task): key for key, task in tasks.items()}
            done, left = {}, list(where)
            while left:
                ended, left = ray.wait(left, timeout=self.timeout)
                if not ended:
                    raise EngineLost(f"no task of the Ray cluster ended for {self.timeout:.0f} s")
                done[where[ended[0]]] = value_of(ray.get(ended[0]))
        except TaskFailed as error:
            raise error.reason from error
        except (ray.exceptions.RayError, ConnectionError) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise EngineLost(f"the Ray cluster did not finish a pass ({reason})") from error
        finally:
            for future in left:
                with suppress(Exception):
                    ray.cancel(future, force=True)
        return add_node(done, 0, len(shards), add)
