"""``stochadmm info``: what is in a file or a model; or versions and threads, for bug reports."""

from __future__ import annotations

import math
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from ._messages import json_text

_REQUIRED = ("stochadmm", "numpy", "scipy", "scikit-learn", "rich", "typer")
_OPTIONAL = ("matplotlib", "networkx", "pandas", "pyarrow", "dask", "distributed")


def info(
    what: Annotated[str, typer.Argument(help="A data file or a model folder.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Describe a data file or a model; without one: versions and threads."""
    facts = described(what) if what else collect()
    if as_json:
        typer.echo(json_text(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None)
    for section, entries in facts.items():
        table.add_row(f"[bold]{section}", "")
        for name, value in entries.items():  # brackets in them are no markup
            table.add_row(Text(f"  {name}"), Text(_shown(value)))
    Console().print(table)


def _shown(value: Any) -> str:
    """Return a value for people: few digits, a dash for nothing."""
    if value is None or value == "":
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def described(what: str) -> dict[str, dict[str, Any]]:
    """Return what is known of a model folder, or of a file, which is read part by part."""
    from ._model import SavedModel

    if Path(what).is_dir():
        saved = SavedModel.load(Path(what))
        size = {"outputs": ", ".join(saved.outputs), "columns": saved.design.n_columns}
        shown = {k: "; ".join(v) if isinstance(v, list) else v for k, v in saved.facts.items()}
        return {"model": {"folder": what, "loss": saved.loss, **size, **shown}}
    return _of_table(what)


def _of_table(path: str) -> dict[str, dict[str, Any]]:
    from ._tables import read_chunks

    rows = 0
    columns: dict[str, Summary] = {}
    width = None
    for table in read_chunks(path):
        rows += table.n_rows
        width = None if table.matrix is None else int(table.matrix.shape[1])
        for name, values in table.columns.items():
            columns.setdefault(name, Summary()).add(values)
    size: dict[str, Any] = {"path": path, "rows": rows}
    size["columns"] = len(columns) if width is None else width
    return {"file": size, "columns": {name: str(column) for name, column in columns.items()}}


class Summary:
    """Range, levels and gaps of a column, gathered part by part."""

    most_levels = 1000
    """Levels that are counted; a column with more holds names rather than categories."""

    def __init__(self) -> None:
        self.low, self.high, self.missing = math.inf, -math.inf, 0
        self.levels: set[str] = set()
        self.text = False

    def add(self, values: Any) -> None:
        """Take more values."""
        import numpy as np

        if values.dtype == object:
            self.text = True
            given = values[values != ""]
            self.missing += values.size - given.size
            if len(self.levels) <= self.most_levels:
                self.levels |= {str(value) for value in given}
            return
        known = values[np.isfinite(values)]
        self.missing += values.size - known.size
        if known.size:
            self.low = min(self.low, float(known.min()))
            self.high = max(self.high, float(known.max()))

    def __str__(self) -> str:
        gaps = f", {self.missing} missing" if self.missing else ""
        between = f"{self.low:.6g} to {self.high:.6g}" if self.low <= self.high else "none"
        if self.text:
            count = len(self.levels)
            some = ", ".join(sorted(self.levels)[:4])
            many = f"more than {self.most_levels:,}" if count > self.most_levels else f"{count}"
            numbers = f" beside numbers, {between}" if self.low <= self.high else ""
            return f"text, {many} levels: {some}{', ...' if count > 4 else ''}{numbers}{gaps}"
        return f"number, {between}{gaps}"


def collect() -> dict[str, dict[str, Any]]:
    """Return what ``info`` shows."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in (*_REQUIRED, *_OPTIONAL)},
        },
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "kernels": _kernels(),
        "threads": _threads(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _kernels() -> dict[str, Any]:
    from stochadmm.kernels import extension

    choice = extension.chosen()
    return {"in use": choice.name, "why not compiled": choice.reason}


def _threads() -> dict[str, Any]:
    # numpy must be loaded for its thread pools to be seen.
    import numpy as np  # noqa: F401
    from threadpoolctl import threadpool_info

    from stochadmm.linear_algebra import threads

    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()}
    return {
        "cores": os.cpu_count(),
        "stochadmm": threads.count(),
        **pools,
    }
