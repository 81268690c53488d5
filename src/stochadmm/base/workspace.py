"""What a run has computed and may use again.

A problem owns nothing that a run finds out: factorizations, norms, compiled views and samples live
here, made on first use and dropped with the run. The driver makes one workspace for every run and
hands it down. A path keeps what depends on the rows alone (``rows``) for all its strengths, and a
cross-validation what depends on the operator alone (``shared``) for all its folds; what belongs to
one strength is dropped with it, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar, TypeVarTuple, cast

import numpy as np

T = TypeVar("T")
Parts = TypeVarTuple("Parts")

BY_VALUE = (bool, int, float, complex, str, bytes, type(None), type, np.dtype, np.generic)
"""Arguments compared by value; all others, which are immutable parts, by identity."""
_VALUES = (tuple, *BY_VALUE)


class Workspace:
    """Results of functions of immutable parts, each computed once.

    Parameters
    ----------
    shared : Workspace, optional
        Where results go that depend on the operator alone and other runs can use too; a new one
        when absent. It refers to nothing of a run, so that a run's data is freed with the run.
    rows : Workspace, optional
        Where results go that depend on the rows too, for other problems on the same rows; a new
        one when absent.

    Examples
    --------
    >>> import numpy as np
    >>> gram, workspace = lambda A: A.T @ A, Workspace()
    >>> A = np.eye(2)
    >>> workspace.once(gram, A) is workspace.once(gram, A)
    True
    """

    def __init__(
        self,
        shared: Workspace | None = None,
        rows: Workspace | None = None,
        *,
        is_leaf: bool = False,
    ) -> None:
        self._results: dict[Hashable, tuple[Any, Any]] = {}
        self._lock = RLock()
        # a leaf stands for both itself, without a reference to itself: that would be a cycle
        self._shared = None if is_leaf else shared or Workspace(is_leaf=True)
        self._rows = None if is_leaf else rows or Workspace(is_leaf=True)

    @property
    def shared(self) -> Workspace:
        """Where results go that depend on the operator alone."""
        return self if self._shared is None else self._shared

    @property
    def rows(self) -> Workspace:
        """Where results go that depend on the rows, whatever the penalties."""
        return self if self._rows is None else self._rows

    def once(self, make: Callable[[*Parts], T], *parts: *Parts) -> T:
        """Return ``make(*parts)``, computed on the first call with these parts.

        Parts are told apart by identity, numbers and texts by value. They are held, so that no
        later object is taken for one of them.
        """
        key = (make, *map(_key, parts))
        with self._lock:
            held = self._results.get(key)
            if held is None:
                # the workspace itself is not held: it would never be freed
                others = [part for part in parts if part is not self]
                held = (make(*parts), others)
                self._results[key] = held
        return cast(T, held[0])

    def latest(self, make: Callable[[*Parts], T], *parts: *Parts) -> T:
        """Return ``make(*parts)``; of each function only the last result is kept.

        For what is large, often asked for twice in a row, and useless afterwards.
        """
        key = (make, *map(_key, parts))
        with self._lock:
            last = self._results.get(make)
            if last is None or last[1][0] != key:
                last = None
                self._results.pop(make, None)  # freed before the next is made
                last = (make(*parts), (key, parts))
                self._results[make] = last
        return cast(T, last[0])

    def holds(self, make: Callable[[*Parts], T], *parts: *Parts) -> bool:
        """Say whether `once` has computed this before."""
        return (make, *map(_key, parts)) in self._results

    def run(self) -> Workspace:
        """Return a workspace for one run that shares with this one."""
        return Workspace(shared=self.shared)

    def same_rows(self) -> Workspace:
        """Return a workspace for one more problem on the same rows: a path's next strength."""
        return Workspace(shared=self.shared, rows=self.rows)

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        """Travel empty: another process computes what it needs."""
        return (Workspace, ())


def _key(part: Any) -> Hashable:
    if not isinstance(part, _VALUES):  # most parts: one look at their type
        return id(part)
    return tuple(map(_key, part)) if isinstance(part, tuple) else (type(part), part)
