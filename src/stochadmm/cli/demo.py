"""``stochadmm demo``: two graph-guided fused models, fitted by several methods."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ._messages import json_text

# The default, the method of the paper, and one of each kind that the paper compares with: more
# would only mean more waiting.
METHODS = ("auto", "acc-sadmm", "svrg-admm", "stoc-admm", "admm")
COLUMNS = (
    "method",
    "objective",
    "relative_gap",
    "passes",
    "seconds",
    "status",
    "nonzeros",
    "levels",
)


TOLERANCE = 1e-4  # relative gap at which a method ends: nothing more would show in the figures
MAX_PASSES = 5000.0  # a read of the small problem takes milliseconds: time is the limit
MAX_SECONDS = 6.0  # five methods on two problems stay within a minute
SMALLEST = 1e-8  # values below are drawn there: the figure is about the way, not the last digits


@dataclass(frozen=True)
class Job:
    """A problem to solve, with what is needed to draw its answer."""

    name: str
    title: str
    problem: Any
    grid: tuple[int, ...] | None = None
    planted: Any = None


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/demo"),
    rows: Annotated[int, typer.Option(min=100, help="Rows of the generated problem.")] = 200_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Fit two models, compare methods, draw the answers.

    Takes a minute or so.
    """
    from rich.console import Console

    import stochadmm as sa

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write to {out} ({error.strerror}); name another folder with --out"
        ) from error
    console = Console(stderr=as_json)
    methods = [name for name in METHODS if name in sa.solvers.names()]
    console.print(
        "Two linear models with tied coefficients, fitted by several methods. Each stops when its "
        f"objective is proved to be within {TOLERANCE:.2%} of the optimum, or after "
        f"{MAX_SECONDS:g} s (max_time).\npasses: reads of all rows; levels: different "
        "values among the coefficients.",
        highlight=False,
    )
    sa.minimize(digits().problem, stop=sa.Gap(TOLERANCE))  # loads the code, for all alike
    report = {}
    for job in (digits(), generated(rows)):
        console.print(f"\n[bold]{job.title}")
        results = compare(job, methods, console)
        report[job.name] = [_row(name, result) for name, result in results.items()]
        if not as_json:
            console.print(_table(report[job.name]))
        drawn = draw(job, results, out, console)
    if as_json:
        typer.echo(json_text(report, indent=2))
        return
    if drawn:
        console.print(
            f"\nLook at {out / 'digits-coefficients.png'}: many neighbouring pixels have merged "
            "into patches of equal weight, red for even digits and blue for odd ones.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def digits() -> Job:
    """Return even against odd digits, neighbouring pixels tied, on data inside scikit-learn."""
    from sklearn.datasets import load_digits

    import stochadmm as sa

    X, digit = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(digit % 2 == 0, 1.0, -1.0)
    structure = sa.VStack([sa.GridDifferences((8, 8)), sa.Identity(64)])
    return Job(
        "digits",
        f"Even or odd? {len(y):,} images of 8 x 8 pixels, neighbouring pixels tied",
        _logistic(X, y, structure, 1e-3),
        grid=(8, 8),
    )


def generated(n_rows: int) -> Job:
    """Return a large problem whose coefficients are constant on communities of a graph."""
    import stochadmm as sa
    from stochadmm.datasets import make_graph_fused

    data = make_graph_fused(n_rows, 50)
    assert data.graph is not None
    structure = sa.VStack([sa.Incidence(data.graph, 50), sa.Identity(50)])
    return Job(
        "generated",
        f"Communities of a graph: {n_rows:,} rows, 50 columns, {structure.shape[0] - 50} edges",
        _logistic(data.X, data.y, structure, 1e-3),
        planted=data.coef,
    )


def compare(job: Job, methods: list[str], console: Any) -> dict[str, Any]:
    """Return the result of every method on one problem, with a bar for each."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from sklearn.exceptions import ConvergenceWarning

    import stochadmm as sa

    layout = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    results = {}
    with Progress(*layout, console=console, transient=True) as progress:
        for name in methods:
            task = progress.add_task(name, total=MAX_SECONDS, state="starting")

            def show(record: Any, state: Any, task: Any = task) -> None:
                text = f"{record.passes:.0f} passes, objective {record.objective:.6f}"
                seconds = record.seconds + record.seconds_measuring
                progress.update(task, completed=seconds, state=text)

            with warnings.catch_warnings():
                # A method that runs into a limit is told by the status in the table.
                warnings.simplefilter("ignore", ConvergenceWarning)
                results[name] = sa.minimize(
                    job.problem,
                    name,
                    stop=sa.Gap(TOLERANCE),
                    random_state=0,
                    max_passes=MAX_PASSES,
                    max_seconds=MAX_SECONDS,
                    callback=show,
                )
            progress.update(task, completed=MAX_SECONDS)
    return results


def draw(job: Job, results: dict[str, Any], out: Path, console: Any) -> bool:
    """Write the curves of all methods and the coefficients of the first one, where possible."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        console.print("No figures: matplotlib is missing; pip install 'stochadmm[plots]'")
        return False
    from stochadmm.base.files import replacing

    for name, paint in (("convergence", _paint_curves), ("coefficients", _paint_coefficients)):
        figure = Figure(figsize=(6.0, 4.0), layout="compressed")
        paint(figure.add_subplot(), job, results)
        path = out / f"{job.name}-{name}.png"
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
        console.print(f"Wrote {path}", markup=False, emoji=False)
    return True


def _logistic(X: Any, y: Any, structure: Any, strength: float) -> Any:
    import stochadmm as sa

    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=structure, on_structure=sa.L1(strength), intercept=True
    )


def _paint_curves(axes: Any, job: Job, results: dict[str, Any]) -> None:
    """Draw how far objectives are above the best proved bound, from the common start on."""
    bound = max(
        (result.objective - result.gap for result in results.values() if result.gap is not None),
        default=-np.inf,
    )
    start = job.problem.objective_at_zero
    for name, result in results.items():
        values = np.array([start, *(record.objective for record in result.history)])
        passes = [0.0, *(record.passes for record in result.history)]
        above = np.maximum((values - bound) / abs(bound), SMALLEST)
        axes.plot(passes, above, marker="." if len(values) < 40 else "", label=name)
    axes.axhline(TOLERANCE, color="0.6", linewidth=0.8)
    axes.set(xlabel="passes over the data", ylabel="objective above the optimum (relative)")
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set(yscale="log", xlim=(0.0, None))
    axes.set_title(job.title, fontsize="small")
    axes.legend(frameon=False)


def _paint_coefficients(axes: Any, job: Job, results: dict[str, Any]) -> None:
    name, result = next(iter(results.items()))
    levels = len(np.unique(result.coef))
    title = f"coefficients found by {name}: {levels} levels"
    axes.set_title(title, fontsize="small")
    if job.grid is not None:
        limit = float(np.abs(result.coef).max()) or 1.0
        image = result.coef.reshape(job.grid)
        picture = axes.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.figure.colorbar(picture, ax=axes)
        axes.set_axis_off()
        return
    order = np.argsort(job.planted, kind="stable")
    axes.step(np.arange(len(order)), job.planted[order], where="mid", color="0.6", label="planted")
    axes.plot(result.coef[order], ".", label="found")
    axes.set(xlabel="column, sorted by planted level", ylabel="coefficient")
    axes.set_title(f"{title}, drawn towards zero by the penalty", fontsize="small")
    axes.legend(frameon=False)


def _row(name: str, result: Any) -> dict[str, Any]:
    cells = (
        name,
        result.objective,
        result.relative_gap,
        result.n_passes,
        result.seconds,
        result.status.name.lower(),
        int(np.count_nonzero(result.coef)),
        len(np.unique(result.coef)),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    form: dict[str, Callable[[Any], str]] = {
        "objective": "{:.6f}".format,
        "relative_gap": lambda gap: "-" if gap is None else f"{gap:.1e}",
        "passes": "{:.1f}".format,
        "seconds": "{:.2f}".format,
    }
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(
            column.replace("_", " "), justify="left" if column in ("method", "status") else "right"
        )
    for row in rows:
        table.add_row(*(form.get(column, str)(row[column]) for column in COLUMNS))
    return table
