"""A progress bar for long runs: passes, speed of reading, gap, and about how long it will take."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .result import Record
from .stopping import Rule


@dataclass
class Forecast:
    """When a rule will be met, if the gap goes on to fall as it has.

    While there is no gap, what the last epoch gained stands for it.
    """

    rule: Rule
    seen: list[tuple[float, float]] = field(default_factory=list)
    """Seconds and relative gaps of the last records."""
    value: float = math.inf
    """The last objective."""
    memory: int = 4
    """Records that count."""

    def seconds_left(self, record: Record) -> float | None:
        """Take one more record; return the seconds left, None while nobody can tell."""
        wanted = self.rule.wanted_gap()
        if wanted is None or not wanted.tol > 0:
            return None
        gained = (self.value - record.objective) / max(abs(record.objective), 1e-300)
        self.value = record.objective
        reached = wanted.reached(record)
        gap = gained if reached is None or not math.isfinite(reached) else reached
        if not 0 < gap < math.inf:
            return None
        self.seen = [*self.seen[1 - self.memory :], (elapsed(record), gap)]
        (began, first), (now, last) = self.seen[0], self.seen[-1]
        if last <= wanted.tol:
            return 0.0
        if not last < first:
            return None
        return (now - began) * math.log(last / wanted.tol) / math.log(first / last)


def elapsed(record: Record) -> float:
    """Return the seconds of a run up to a record."""
    return record.seconds + record.seconds_measuring


def told(record: Record, rule: Rule, read_bytes: int, left: float | None) -> str:
    """Return a record in a line; narrow terminals cut it, so its most wanted parts come first."""
    parts = [f"{record.passes:.0f} passes"]
    if read_bytes and elapsed(record) > 0:
        parts.append(f"{record.passes * read_bytes / elapsed(record) / 1e6:.0f} MB/s")
    if left is not None:
        minutes, seconds = divmod(round(left), 60)
        parts.append(f"about {minutes}:{seconds:02d} left")
    return ", ".join([*parts, rule.describe(record), f"F = {record.objective:.6g}"])


@contextmanager
def bar(
    name: str, max_passes: float, rule: Rule, read_bytes: int = 0
) -> Iterator[Callable[[Record], None]]:
    """Show passes made, objective and gap; yields the function that updates it.

    ``read_bytes`` are those of a read of all rows, 0 where they are in memory.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    whole = Column(no_wrap=True, min_width=len(name))  # narrow terminals cut the numbers instead
    layout = (
        TextColumn("{task.description}", table_column=whole),
        BarColumn(20),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    total = max_passes if math.isfinite(max_passes) else None
    forecast = Forecast(rule)
    first = f"first reads of {read_bytes / 1e9:.3g} GB" if read_bytes else ""
    with Progress(*layout, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total, state=first)

        def show(record: Record) -> None:
            state = told(record, rule, read_bytes, forecast.seconds_left(record))
            progress.update(task, completed=record.passes, state=state)

        yield show


@contextmanager
def counted(name: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many of ``total`` pieces are done and the time left; yields what counts them."""
    if not shown:
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    layout = (
        TextColumn("{task.description}"),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*layout, console=Console(stderr=True)) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.advance(task, done)
