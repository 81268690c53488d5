"""The tree along which results are added up, and tasks that are nodes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..data import Shard

T = TypeVar("T")
Work = Callable[[Shard], T]
Add = Callable[[T, T], T]

TASKS_PER_WORKER = 4
"""Shards are handed out in so many groups per worker: a task costs milliseconds by itself."""


class EngineLost(RuntimeError):
    """The engine could not finish a pass; the message says how the run can be resumed."""


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
        level = [part for low, high in level for part in halves(low, high)]
    return level


def halves(low: int, high: int) -> list[tuple[int, int]]:
    """Return the two nodes below a node."""
    if high - low == 1:
        return [(low, high)]
    middle = (low + high) // 2
    return [(low, middle), (middle, high)]


def add_node(values: dict[tuple[int, int], Any], low: int, high: int, add: Any) -> Any:
    """Return the sum of a node, from nodes below it that are known."""
    if (low, high) in values:
        return values.pop((low, high))
    left, right = halves(low, high)
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
        (a, b), (c, d) = halves(low, high)
        return self.add(self._sum(a, b), self._sum(c, d))


def tasks_of(
    shards: Sequence[Shard], work: Any, add: Any, workers: int
) -> dict[tuple[int, int], Node]:
    """Return about four tasks per worker, by range of shards."""
    ranges = nodes(len(shards), TASKS_PER_WORKER * workers)
    return {(a, b): Node(tuple(shards[a:b]), work, add) for a, b in ranges}


class TaskFailed(Exception):
    """What went wrong in a task itself: no other worker would do better.

    Most come back as values, so that Dask does not repeat them.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(reason)
        self.reason = reason


def outcome(task: Node) -> Any:
    """Do a task; what goes wrong in it is a value, which no engine repeats."""
    try:
        return task()
    except Exception as error:
        return TaskFailed(error)


def value_of(outcome: Any) -> Any:
    """Return what a task found, or raise `TaskFailed`."""
    if isinstance(outcome, TaskFailed):
        raise outcome
    return outcome
