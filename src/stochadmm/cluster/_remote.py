"""Tasks that run in other processes, whose errors are told apart from those of the engine."""

from __future__ import annotations

from typing import Any

from ._tree import Node


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
