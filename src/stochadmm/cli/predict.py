"""``stochadmm predict``: a saved model applied to a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from stochadmm.base.protocols import Array

from ._messages import json_text
from ._model import SavedModel
from ._tables import read_chunks
from ._text import Dialect, write_table
from .fit import AsJson, Decimal, Encoding, Format, Sep


def predict(
    model: Annotated[Path, typer.Argument(help="Folder written by `stochadmm fit`.")],
    data: Annotated[str, typer.Argument(help="Table with the model's columns; - for stdin.")],
    out: Annotated[str, typer.Option(help="CSV file; - for standard output.")] = "-",
    sep: Sep = "",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    format_: Format = "",
    as_json: AsJson = False,
) -> None:
    """Predict the target of every row: a value, or a label with its probabilities."""
    saved = SavedModel.load(model)
    unseen: Counter[str] = Counter()
    parts = _predicted(saved, data, unseen, Dialect(sep, decimal, encoding, format_))
    first = next(parts, None)
    if first is None:
        raise ValueError(f"{data} has no rows; at least one is needed")
    if as_json:
        whole = [first, *parts]
        typer.echo(
            json_text({name: [v for part in whole for v in part[name].tolist()] for name in first})
        )
        parts = iter(whole[1:])
    if not as_json or out != "-":
        rows = (row for part in chain([first], parts) for row in _rows(part))
        write_table(out, list(first), rows)
    if saved.facts.get("exposure"):
        unit = saved.facts["exposure"]
        typer.echo(f"Note: predictions are for one unit of {unit!r}", err=True)
    for name, count in unseen.items():
        typer.echo(
            f"Note: {count} rows have a level of {name!r} that the model has not seen", err=True
        )


def _predicted(
    saved: SavedModel, data: str, unseen: Counter[str], dialect: Dialect
) -> Iterator[dict[str, Array]]:
    """Yield predictions part by part, so that files of any size can be read."""
    for table in read_chunks(data, expected=saved.design.expected, dialect=dialect):
        unseen.update(saved.design.unseen(table))
        yield saved.predict(table)


def _rows(part: dict[str, Array]) -> Iterator[tuple[object, ...]]:
    return zip(*(values.tolist() for values in part.values()), strict=True)
