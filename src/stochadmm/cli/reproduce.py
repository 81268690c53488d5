"""``stochadmm reproduce``: the paper's experiments, from runs to a report."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

_Targets = Annotated[
    list[str],
    typer.Argument(
        help="fig1, fig2, fig3, imagenet, overlap, rows-and-rank, smooth, table1, table2, memory, "
        "all, or a YAML file."
    ),
]
_Data = Annotated[
    list[str] | None,
    typer.Option("--datasets", help="Only these data sets: names, separated by commas."),
]
_Methods = Annotated[
    list[str] | None,
    typer.Option("--methods", help="Tune and run these methods only, separated by commas."),
]
_Stages = Annotated[
    list[str] | None,
    typer.Option(
        "--stages",
        help="Do this work only, separated by commas: sizes, graphs, optima, references, tuning, "
        "runs, report. The report is made of what is finished.",
    ),
]
_Archive = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        help="Folder of finished work in a few small files, such as docs/reproduction/pieces: it "
        "is not done again, and what is finished is added.",
    ),
]
_Remove = Annotated[
    bool,
    typer.Option("--remove-data", help="Delete generated data sets at the end, up to 15 GB."),
]


def reproduce(
    targets: _Targets,
    out: Annotated[Path, typer.Option(help="Folder for runs, figures and the report.")] = Path(
        "out/reproduce"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", "--short", help="Minutes instead of hours.")
    ] = False,
    datasets: _Data = None,
    methods: _Methods = None,
    stages: _Stages = None,
    archive: _Archive = None,
    remove_data: _Remove = False,
) -> None:
    """Run the paper's experiments and write table, figures and report.html.

    Finished work is kept: after an interruption the same command continues.
    """
    from rich.console import Console

    from stochadmm.experiments import reproduce as run

    wanted = {"datasets": datasets, "methods": methods, "stages": stages}
    chosen = {
        option: [name.strip() for part in given or () for name in part.split(",") if name] or None
        for option, given in wanted.items()
    }
    console = Console(stderr=True)
    try:
        with _watch(console) as watch:
            path = run(
                targets,
                out,
                quick=quick,
                archive=archive,
                remove_data=remove_data,
                watch=watch,
                **chosen,
            )
    except KeyboardInterrupt:
        console.print("Interrupted. Finished runs are kept; the same command goes on.")
        raise typer.Exit(130) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OSError(
            f"no space is left for {error.filename or out}; finished runs are kept, and the same "
            "command goes on once there is room"
        ) from error
    typer.echo(f"Finished work is kept in {path}" if path == out else f"Wrote {path}")


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
