"""``python -m stochadmm_reproduction``: the paper's experiments, from runs to a report."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._command import Parser, run
from .runner import reproduce


def parser() -> Parser:
    """Return the parser of the command."""
    made = Parser(
        "reproduce",
        description="Run the paper's experiments and write table, figures and report.html. "
        "Finished work is kept: after an interruption the same command continues.",
    )
    made.add_argument(
        "targets",
        nargs="+",
        metavar="TARGET",
        help="fig1, fig2, fig3, imagenet, overlap, rows-and-rank, smooth, table1, table2, "
        "memory, all, or a YAML file",
    )
    made.add_argument(
        "--out",
        type=Path,
        default=Path("out/reproduce"),
        help="folder for runs, figures and the report (default: %(default)s)",
    )
    made.add_argument("--quick", "--short", action="store_true", help="minutes instead of hours")
    for option, does in {
        "datasets": "only these data sets",
        "methods": "tune and run these methods only",
        "stages": "do this work only: sizes, graphs, optima, references, tuning, runs, report; "
        "the report is made of what is finished",
    }.items():
        made.add_argument(
            f"--{option}",
            action="append",
            metavar="A,B",
            help=f"{does}; names separated by commas",
        )
    made.add_argument(
        "--archive",
        type=Path,
        help="folder of finished work in a few small files, such as docs/reproduction/pieces: it "
        "is not done again, and what is finished is added",
    )
    made.add_argument(
        "--remove-data",
        action="store_true",
        help="delete generated data sets at the end, up to 15 GB",
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = vars(parser().parse_args(arguments))
    for option in ("datasets", "methods", "stages"):
        parts = ",".join(given[option] or ()).split(",")
        given[option] = [name.strip() for name in parts if name.strip()] or None

    def work() -> int:
        from rich.console import Console

        console, out = Console(stderr=True), given["out"]
        try:
            with _watch(console) as watch:
                path = reproduce(watch=watch, **given)
        except KeyboardInterrupt:
            console.print("Interrupted. Finished runs are kept; the same command goes on.")
            return 130
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise OSError(
                f"no space is left for {error.filename or out}; finished runs are kept, and the "
                "same command goes on once there is room"
            ) from error
        print(f"Finished work is kept in {path}" if path == out else f"Wrote {path}")
        return 0

    return run(work)


@contextmanager
def _watch(console: Any) -> Iterator[Any]:
    """Show a bar with the time left; the work is counted in rows times passes."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    layout = (
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
        TextColumn("{task.description}"),
    )
    bar = Progress(
        *layout,
        console=console,
        transient=True,
        speed_estimate_period=120,
        disable=not console.is_terminal,
    )
    try:
        yield _Bar(bar, bar.add_task("", total=None))
    finally:
        bar.stop()


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def begin(self, total: float) -> None:
        self.bar.update(self.task, total=total)
        self.bar.start()  # not before names and files are known to be right

    def advance(self, cost: float, doing: str) -> None:
        self.bar.update(self.task, advance=cost, **({"description": doing} if doing else {}))

    def say(self, line: str) -> None:
        self.bar.console.print(line, markup=False, emoji=False)


if __name__ == "__main__":
    sys.exit(main())
