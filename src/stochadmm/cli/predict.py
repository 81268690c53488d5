"""``stochadmm predict``: a saved model applied to a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ._model import SavedModel
from ._tables import read_table, write_table


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
    rows = zip(*(values.tolist() for values in found.values()), strict=True)
    write_table(out, list(found), rows)
