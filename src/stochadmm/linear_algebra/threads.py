"""How many threads, and BLAS kept to one inside ours.

A pass over the data is cut into parts that depend on the data alone. Threads compute parts, and
their results are added in the order of the parts, so that the number of threads changes the time
of a pass and not one bit of its result. The calling thread works too; the others wait in a pool
that is made when it is first needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Condition, Lock
from typing import Any

from ..base.protocols import Array
from ..base.validation import is_whole

VARIABLE = "STOCHADMM_NUM_THREADS"
AHEAD = 2  # parts per thread that may wait to be added: a bound on memory

_chosen: ContextVar[int | None] = ContextVar("stochadmm_threads", default=None)


# -------------------------------------------------------------------- how many


def use_threads(n_threads: int) -> AbstractContextManager[None]:
    """Set the number of threads of passes over the data, for the code inside ``with``.

    Without it, passes use as many threads as BLAS may use, at most one per processor of this
    process; so ``OMP_NUM_THREADS=1``, ``threadpool_limits(1)`` and the workers of joblib mean one.
    The environment variable ``STOCHADMM_NUM_THREADS`` sets another number for a whole process.
    Results do not depend on it, bit for bit. Small data is read by the calling thread alone, and
    the steps of stochastic methods always are.

    Parameters
    ----------
    n_threads : int
        Number of threads >= 1, the calling one included.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> f2 = sa.FiniteSum(sa.Squared(), np.eye(3), np.arange(3.0))
    >>> with sa.use_threads(2):
    ...     f2.value(np.zeros(3))
    0.8333333333333334
    """
    return _using(_checked(n_threads, "n_threads", n_threads))


@contextmanager
def _using(n_threads: int) -> Iterator[None]:
    token = _chosen.set(n_threads)
    try:
        yield
    finally:
        _chosen.reset(token)


def count() -> int:
    """Return how many threads a pass over large data uses now."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    text = os.environ.get(VARIABLE, "").strip()
    if text:
        return _checked(int(text) if text.isdigit() else None, VARIABLE, text)
    processors = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    return max(1, min([processors, *_blas.allowed()]))


def _checked(value: Any, name: str, given: Any) -> int:
    if not is_whole(value) or value < 1:
        raise ValueError(f"{name} is {given!r}, expected a whole number >= 1")
    return int(value)


# -------------------------------------------------------------------- BLAS


@cache
def _libraries(kind: str) -> tuple[Any, ...]:
    """Return the thread pools that the process has loaded; a search of milliseconds, made once."""
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api=kind).lib_controllers)


class _OneBlasThread:
    """BLAS works on one thread while at least one caller is inside."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.before: list[int] = []

    def allowed(self) -> list[int]:
        """Return the number of threads that each BLAS may use outside."""
        with self.lock:
            if self.inside:
                return self.before
            return [library.num_threads for library in _libraries("blas")]

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.before = [library.num_threads for library in _libraries("blas")]
                for library in _libraries("blas"):
                    library.set_num_threads(1)
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self._restore()

    def _restore(self) -> None:
        for library, number in zip(_libraries("blas"), self.before, strict=True):
            library.set_num_threads(number)

    def after_fork(self) -> None:
        """Let a child begin outside, whatever the threads of its parent were doing."""
        self.lock = Lock()
        if self.inside:
            self.inside = 0
            self._restore()


_blas = _OneBlasThread()


def _begin_helper() -> None:
    # the number of OpenMP threads belongs to each thread: a BLAS built on it would ask here
    for library in _libraries("openmp"):
        library.set_num_threads(1)


# -------------------------------------------------------------------- work


@cache
def _pool(helpers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(helpers, "stochadmm", _begin_helper)


def _after_fork() -> None:
    _pool.cache_clear()  # its threads live in the parent
    _blas.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ranges(n: int, parts: int) -> list[slice]:
    """Return ``parts`` (at least one) consecutive ranges of n rows, of nearly equal length.

    Examples
    --------
    >>> ranges(7, 2)
    [slice(0, 3, None), slice(3, 7, None)]
    """
    parts = max(parts, 1)
    return [slice(k * n // parts, (k + 1) * n // parts) for k in range(parts)]


def run(
    task: Callable[[Any], Any],
    items: Sequence[Any],
    take: Callable[[Any], None] = lambda result: None,
) -> None:
    """Call ``task`` on every item by threads, and ``take`` on its results in the items' order.

    A single item stays on the calling thread, where BLAS may use threads of its own; with more,
    BLAS uses one thread whatever their number. A task that calls ``run`` itself gets one thread.
    The first error of a task stops the others and is raised.
    """
    if len(items) == 1:
        take(task(items[0]))
        return
    n_threads = min(count(), len(items))
    with _blas:
        if n_threads <= 1:
            for item in items:
                take(task(item))
            return
        job = _Job(task, items, take, AHEAD * n_threads)
        pool = _pool(n_threads - 1)
        helpers = [pool.submit(copy_context().run, job.work) for _ in range(n_threads - 1)]
        try:
            job.work()
        finally:
            # those of a pool that is busy elsewhere have nothing to do and are not waited for
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
            job.release()
        for helper in started:
            helper.result()


def add_up(task: Callable[[Any], Array], items: Sequence[Any]) -> Array:
    """Return the sum of the arrays ``task(item)``, added in the order of the items.

    The first array is added to, so it must not be used elsewhere.
    """
    total: list[Array] = []

    def add(part: Array) -> None:
        if total:
            total[0] += part
        else:
            total.append(part)

    run(task, items, add)
    return total[0]


class _Job:
    """Items that several threads share; each claims the next one that nobody has."""

    def __init__(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        take: Callable[[Any], None],
        ahead: int,
    ) -> None:
        self.task, self.items, self.take, self.ahead = task, items, take, ahead
        self.claimed = self.taken = 0
        self.done: dict[int, Any] = {}
        self.failed = False
        self.changed = Condition()

    def release(self) -> None:
        """Let go of the data: a busy pool keeps cancelled jobs in its queue for a while."""
        del self.task, self.items, self.take
        self.done.clear()

    def work(self) -> None:
        """Compute items until none is left or a thread has failed."""
        try:
            with _using(1):
                while (k := self._claim()) is not None:
                    self._hand_in(k, self.task(self.items[k]))
        except BaseException:
            with self.changed:
                self.failed = True
                self.changed.notify_all()
            raise

    def _claim(self) -> int | None:
        with self.changed:
            while not self.failed and self.claimed < len(self.items):
                if self.claimed < self.taken + self.ahead:
                    self.claimed += 1
                    return self.claimed - 1
                self.changed.wait()
        return None

    def _hand_in(self, k: int, result: Any) -> None:
        with self.changed:
            self.done[k] = result
            while self.taken in self.done and not self.failed:
                self.take(self.done.pop(self.taken))
                self.taken += 1
            self.changed.notify_all()
