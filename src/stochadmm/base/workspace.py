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
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")

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

    def __init__(self, shared: Workspace | None = None, rows: Workspace | None = None) -> None:
        self._results: dict[Hashable, tuple[Any, Any]] = {}
        self._lock = RLock()
        self._shared: Workspace | None = _leaf() if shared is None else shared
        self._rows: Workspace | None = _leaf() if rows is None else rows

    @property
    def shared(self) -> Workspace:
        """Where results go that depend on the operator alone."""
        return self if self._shared is None else self._shared

    @property
    def rows(self) -> Workspace:
        """Where results go that depend on the rows, whatever the penalties."""
        return self if self._rows is None else self._rows

    def once(self, make: Callable[P, T], *parts: P.args, **named: P.kwargs) -> T:
        """Return ``make(*parts, **named)``, computed on the first call with these parts.

        Parts are told apart by identity, numbers and texts by value. They are held, so that no
        later object is taken for one of them.
        """
        key = _call(make, parts, named)
        with self._lock:
            held = self._results.get(key)
            if held is None:
                # the workspace itself is not held: it would never be freed
                others = [part for part in parts if part is not self]
                held = (make(*parts, **named), (others, named))
                self._results[key] = held
        return cast(T, held[0])

    def latest(self, make: Callable[P, T], *parts: P.args, **named: P.kwargs) -> T:
        """Return ``make(*parts, **named)``; of each function only the last result is kept.

        For what is large, often asked for twice in a row, and useless afterwards.
        """
        key = _call(make, parts, named)
        with self._lock:
            last = self._results.get(make)
            if last is None or last[1][0] != key:
                last = None
                self._results.pop(make, None)  # freed before the next is made
                last = (make(*parts, **named), (key, parts, named))
                self._results[make] = last
        return cast(T, last[0])

    def holds(self, make: Callable[P, T], *parts: P.args, **named: P.kwargs) -> bool:
        """Say whether `once` has computed this before."""
        return _call(make, parts, named) in self._results

    def run(self) -> Workspace:
        """Return a workspace for one run that shares with this one."""
        return Workspace(shared=self.shared)

    def same_rows(self) -> Workspace:
        """Return a workspace for one more problem on the same rows: a path's next strength."""
        return Workspace(shared=self.shared, rows=self.rows)

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        """Travel empty: another process computes what it needs."""
        return (Workspace, ())


def _leaf() -> Workspace:
    made = Workspace.__new__(Workspace)
    made._results, made._lock, made._shared, made._rows = {}, RLock(), None, None
    return made


def _call(make: Any, parts: tuple[Any, ...], named: dict[str, Any]) -> Hashable:
    key = (make, *map(_key, parts))
    return (*key, *((name, _key(named[name])) for name in sorted(named))) if named else key


def _key(part: Any) -> Hashable:
    if not isinstance(part, _VALUES):  # most parts: one look at their type
        return id(part)
    return tuple(map(_key, part)) if isinstance(part, tuple) else (type(part), part)
