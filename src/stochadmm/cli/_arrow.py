"""Tables from Parquet and Arrow files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stochadmm.base.protocols import Array

from ._columns import Table, check_names, texts

PARQUET = {".parquet", ".pq"}


def read(path: str) -> Table:
    """Return all rows as one table."""
    schema, batches = _opened(path, 1 << 20)
    parts = [_columns(batch) for batch in batches]
    return Table(
        path,
        {
            name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0)
            for name in schema.names
        },
        aside=_index(schema),
    )


def heading(path: str) -> Table:
    """Return a table without rows."""
    schema, _ = _opened(path, 1)
    return Table(path, dict.fromkeys(schema.names, np.empty(0)), aside=_index(schema))


def chunks(path: str, rows: int) -> Iterator[Table]:
    """Yield the rows of a file as tables, of Parquet with so many rows."""
    schema, batches = _opened(path, rows)
    aside, first = _index(schema), 0
    for batch in (batch for batch in batches if batch.num_rows):
        yield Table(path, _columns(batch), aside=aside, first=first)
        first += batch.num_rows


def _opened(path: str, rows: int) -> tuple[Any, Iterator[Any]]:
    """Return what is known of the columns, and the rows in batches."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"reading {path} needs pyarrow; pip install 'stochadmm[parquet]'"
        ) from None
    kind = Path(path).suffix.lower()
    with open(path, "rb") as begin:  # a name may end in anything where --format tells
        is_parquet = kind in PARQUET or begin.read(4) == b"PAR1"
    try:
        if is_parquet:
            file = pyarrow.parquet.ParquetFile(path)
            schema, batches = file.schema_arrow, file.iter_batches(batch_size=rows)
        else:
            reader = pyarrow.ipc.open_file(pyarrow.memory_map(path))
            schema = reader.schema
            batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as {kind[1:]}: {error}") from error
    check_names(path, schema.names)
    return schema, batches


def _index(schema: Any) -> tuple[str, ...]:
    """Return the columns that hold the index of a pandas table, and those without a name."""
    about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    index = about.get("index_columns", [])  # a range that is not stored is no name
    return tuple(name for name in schema.names if not name or name in index)


def _columns(batch: Any) -> dict[str, Array]:
    return dict(zip(batch.schema.names, map(_values, batch.columns), strict=True))


def _values(column: Any) -> Array:
    """Return numbers, truths, or texts as from a CSV file: a missing one is empty."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)
    numeric = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal)
    if types.is_null(kind) or any(is_kind(kind) for is_kind in numeric):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return texts(["" if cell is None else str(cell) for cell in column.to_pylist()])
