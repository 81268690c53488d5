"""CSV and TSV text, read once into Arrow files.

A column holds numbers where every cell is one, empty or ``NA``, and texts otherwise, as in tables
that are read into memory: ``true`` and ``false`` are 1 and 0, dates are texts. Blanks around names
and cells are no part of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...base.validation import MISSING_CELLS
from .._columns import Asked, is_number, pyarrow
from .._protocol import Described, Origins, Source, decoding
from . import Format, Request
from .arrow import arrow_files

BLOCK = 1 << 25
"""Bytes of text that are parsed at a time; the first so many tell what a column holds."""
DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": ","}


def _open(request: Request) -> Source:
    """Look at the beginning of every file, then read the columns that are asked for."""
    pa, asked = pyarrow(), request.of_table()
    origins = Origins.of(request.paths, copied=True)
    heads = []  # columns with the types that the beginning of each text shows
    for path in origins.paths:
        with _reader(path) as reader:
            _ = reader.schema.names  # in another encoding they fail here, where the file is named
            heads.append(reader.schema)
    kinds = _kinds(asked, heads, origins)

    names = set(kinds.names)

    def write(folder: Path) -> Described:
        made = []
        for number, (path, head) in enumerate(zip(origins.paths, heads, strict=True)):
            made.append(str(folder / f"{number:05}.arrow"))
            own = {
                raw: kinds.field(raw.strip()).type for raw in head.names if raw.strip() in names
            }
            with _reader(path, own) as reader:
                schema = pa.schema([(name.strip(), kind) for name, kind in own.items()])
                with pa.ipc.new_file(made[-1], schema) as writer:
                    for batch in reader:
                        columns = [_stripped(column) for column in batch.columns]
                        writer.write_batch(pa.record_batch(columns, schema=schema))
        return arrow_files(made, asked, origins=origins)

    return request.spilled(write)


@contextmanager
def _reader(path: str, kinds: dict[str, Any] | None = None) -> Iterator[Any]:
    """Open a text: columns of these types, or all columns as they look."""
    pyarrow()  # says how to install it
    import pyarrow.csv as text

    chosen = {} if kinds is None else {"column_types": kinds, "include_columns": list(kinds)}
    with (
        decoding(path, "CSV"),
        text.open_csv(
            path,
            text.ReadOptions(block_size=BLOCK),
            text.ParseOptions(delimiter=DELIMITERS[Path(path).suffix.lower()]),
            text.ConvertOptions(null_values=[*MISSING_CELLS, " "], **chosen),
        ) as reader,
    ):
        yield reader


def _kinds(asked: Asked, heads: list[Any], origins: Origins) -> Any:
    """Return the type of every column that is read: numbers, or texts."""
    pa = pyarrow()
    known = None
    if asked.fitted is not None:
        known = asked.known_levels([name.strip() for name in heads[0].names], origins.paths[0])

    def kind(name: str, seen: Any) -> Any:
        may_be = known is None or name not in known or known[name] is None
        if may_be and pa.types.is_boolean(seen):
            return seen
        if known is not None and name in known:
            return pa.float64() if known[name] is None else pa.string()
        if pa.types.is_null(seen):
            return seen
        return pa.float64() if is_number(seen) else pa.string()

    cleaned = [
        pa.schema(
            [
                (raw.strip(), kind(raw.strip(), head.field(k).type))
                for k, raw in enumerate(head.names)
            ]
        )
        for head in heads
    ]
    table = asked.one_table(cleaned, origins.paths)
    # a column without any value in the beginning may have some later
    return pa.schema(
        [(f.name, pa.float64() if pa.types.is_null(f.type) else f.type) for f in table]
    )


def _stripped(column: Any) -> Any:
    """Return a column of texts without blanks around them, and numbers as they are."""
    import pyarrow.compute as compute

    return column if is_number(column.type) else compute.utf8_trim_whitespace(column)


FORMAT = Format(frozenset(DELIMITERS), _open, in_folders=frozenset({".csv", ".tsv"}), is_text=True)
