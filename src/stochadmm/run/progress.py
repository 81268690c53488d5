"""A progress bar for long runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .result import Record
from .stopping import Rule


@contextmanager
def bar(name: str, max_passes: float, rule: Rule) -> Iterator[Callable[[Record], None]]:
    """Show passes made, objective and gap; yields the function that updates it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    whole = Column(no_wrap=True, min_width=len(name))  # narrow terminals cut the numbers instead
    layout = (
        TextColumn("{task.description}", table_column=whole), BarColumn(20),
        TextColumn("{task.fields[state]}"), TimeElapsedColumn(),
    )  # fmt: skip
    total = max_passes if math.isfinite(max_passes) else None
    with Progress(*layout, transient=False) as progress:
        task = progress.add_task(name, total=total, state="")

        def show(record: Record) -> None:
            state = (
                f"{record.passes:.0f} passes, F = {record.objective:.6g}, {rule.describe(record)}"
            )
            progress.update(task, completed=record.passes, state=state)

        yield show


@contextmanager
def counted(name: str, total: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many of ``total`` pieces are done and the time left; yields what counts them."""
    if not shown:
        yield lambda done: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    layout = (
        TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*layout, transient=False) as progress:
        task = progress.add_task(name, total=total)
        yield lambda done: progress.advance(task, done)
