"""``stochadmm predict``: a saved model applied to a table."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ._model import SavedModel
from ._tables import read_table


def predict(
    model: Annotated[Path, typer.Argument(help="Folder written by `stochadmm fit`.")],
    data: Annotated[str, typer.Argument(help="Table with the model's columns; - for stdin.")],
    out: Annotated[str, typer.Option(help="CSV file; - for standard output.")] = "-",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Predict the target of every row: a value, or a label with its probabilities."""
    saved = SavedModel.load(model)
    table = read_table(data)
    found = saved.predict(table)
    for name, count in saved.design.unseen(table).items():
        typer.echo(
            f"Note: {count} rows have a level of {name!r} that the model has not seen", err=True
        )
    if as_json:
        typer.echo(json.dumps({name: values.tolist() for name, values in found.items()}))
        if out == "-":
            return
    _write(found, out)


def _write(found: dict[str, Any], out: str) -> None:
    rows = zip(*(values.tolist() for values in found.values()), strict=True)
    if out == "-":
        _rows(sys.stdout, list(found), rows)
        return
    try:
        with open(out, "w", encoding="utf-8", newline="") as file:
            _rows(file, list(found), rows)
    except OSError as error:
        raise OSError(f"cannot write {out} ({error.strerror}); name another file") from error


def _rows(file: Any, names: list[str], rows: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
