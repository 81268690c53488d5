"""``stochadmm bench``: how long the methods take to a certified gap on one problem."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
import typer

from ._columns import Table
from ._design import Design
from ._messages import json_text, tell
from ._setting import Asked, Setting, TableSetting, prepare, together
from ._tables import read_table
from ._text import write_table
from .fit import AsJson, Drop, Edges, Graph, Grid, Groups, L1Ratio, Loss, Target

METHODS = "auto,acc-sadmm,svrg-admm,asvrg-admm,admm"
COLUMNS = ("method", "status", "seconds", "passes", "relative_gap", "objective", "nonzero")


def bench(
    data: Annotated[str, typer.Argument(help="A table; generated rows by default.")] = "",
    target: Target = None,
    loss: Loss = "",
    alpha: Annotated[
        float | None, typer.Option(min=0, help="Strength; else a tenth of alpha_max.")
    ] = None,
    methods: Annotated[str, typer.Option(help="Names, with commas.")] = METHODS,
    edges: Edges = None,
    groups: Groups = None,
    grid: Grid = None,
    graph: Graph = None,
    l1_ratio: L1Ratio = None,
    drop: Drop = None,
    tol: Annotated[float, typer.Option(help="Relative duality gap to reach.")] = 1e-4,
    max_seconds: Annotated[float, typer.Option(help="Limit of each method.")] = 10.0,
    out: Annotated[str, typer.Option(help="Write a CSV file too.")] = "",
    as_json: AsJson = False,
) -> None:
    """Compare the methods on one problem: seconds to the same certified gap."""
    names = [name.strip() for name in methods.split(",") if name.strip()]
    _check_names(names)
    if data:
        fitted = together(target, "y")
        asked = Asked(fitted, loss, edges, groups, grid, graph, drop=together(drop))
        setting: Setting = prepare(read_table(data), asked)
        tell(setting.notes)
    else:
        setting = _made_up()
    options: dict[str, Any] = {} if l1_ratio is None else {"l1_ratio": l1_ratio}
    if alpha is None:
        alpha = 0.1 * setting.model(**options).alpha_max(setting.X, setting.y)
    rows = [_run(setting, name, alpha, tol, max_seconds, options) for name in names]
    if out:
        write_table(out, COLUMNS, [[row[name] for name in COLUMNS] for row in rows])
    if as_json:
        typer.echo(json_text({"alpha": alpha, "tol": tol, "methods": rows}, indent=2))
        return
    _show(setting, alpha, tol, rows)


def _check_names(names: list[str]) -> None:
    import stochadmm as sa

    if not names:
        raise ValueError("--methods is empty; see `stochadmm bench --help`")
    for name in names:
        sa.solvers.get(name)


def _made_up() -> Setting:
    """Return 20,000 rows whose coefficients are equal in the communities of a graph."""
    import stochadmm as sa

    made = sa.datasets.make_graph_fused(20_000, 50)
    assert made.graph is not None
    table = Table("made-up rows", {"y": made.y}, made.X)
    setting = TableSetting(table, Asked(), "logistic", Design({}, 50))
    setting.graph = [(f"x{a}", f"x{b}", 1.0) for a, b in np.asarray(made.graph).tolist()]
    setting.estimator, setting.options = "GraphFusedClassifier", {"graph": setting.graph}
    return setting


def _run(
    setting: Setting,
    method: str,
    alpha: float,
    tol: float,
    seconds: float,
    options: dict[str, Any],
) -> dict[str, Any]:
    model = setting.model(
        alpha=alpha, solver=method, tol=tol, max_seconds=seconds, max_passes=1e5, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says it
        model.fit(setting.X, setting.y)
    result = model.result_
    gap = model.dual_gap_
    return {
        "method": method,
        "status": model.status_.name,
        "seconds": round(float(result.seconds), 4),
        "passes": round(float(result.n_passes), 2),
        "relative_gap": None if gap is None or not np.isfinite(gap) else float(gap),
        "objective": float(result.objective),
        "nonzero": int(np.count_nonzero(model.coef_)),
    }


def _show(setting: Setting, alpha: float, tol: float, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table as Shown

    console = Console()
    n, d = setting.X.shape
    console.print(
        f"{setting.estimator} on {setting.path}: {n:,} rows, {d:,} columns, "
        f"alpha {alpha:.3g}, gap {tol:g}",
        highlight=False,
        markup=False,
        emoji=False,
    )
    shown = Shown(box=None, header_style="bold")
    for name in COLUMNS:
        shown.add_column(
            name.replace("_", " "), justify="left" if name in ("method", "status") else "right"
        )
    for row in rows:
        gap = row["relative_gap"]
        shown.add_row(
            row["method"],
            row["status"].lower(),
            f"{row['seconds']:.3f}",
            f"{row['passes']:.1f}",
            "-" if gap is None else f"{gap:.1e}",
            f"{row['objective']:.8g}",
            str(row["nonzero"]),
        )
    console.print(shown)
