"""``stochadmm info``: versions, threads and folders, for bug reports."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

_REQUIRED = ("stochadmm", "numpy", "scipy", "scikit-learn", "rich", "typer")
_OPTIONAL = ("matplotlib", "networkx", "pandas", "pyarrow", "dask", "distributed")


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show versions, threads and folders."""
    facts = collect()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None)
    for section, entries in facts.items():
        table.add_row(f"[bold]{section}", "")
        for name, value in entries.items():
            table.add_row(f"  {name}", "-" if value is None else str(value))
    Console().print(table)


def collect() -> dict[str, dict[str, Any]]:
    """Return what ``info`` shows."""
    from stochadmm.datasets import cache_folder, data_folder

    folder = data_folder()
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in (*_REQUIRED, *_OPTIONAL)},
        },
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "kernels": _kernels(),
        "threads": _threads(),
        "folders": {
            "data": None if folder is None else str(folder),
            "cache": str(cache_folder()),
            "download from": os.environ.get("STOCHADMM_DATA_URL"),
        },
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

    from stochadmm import threads

    pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()}
    return {
        "cores": os.cpu_count(),
        "stochadmm": threads.count(),
        **pools,
    }
