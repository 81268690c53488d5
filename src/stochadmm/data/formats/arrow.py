"""Parquet and Arrow IPC files row group by row group, and Arrow streams, columns taken by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.capabilities import has_members
from ...base.fingerprint import fingerprint
from .._columns import Asked, Roles, assigned, pyarrow
from .._protocol import (
    Block,
    DataError,
    Described,
    Origins,
    Shard,
    Source,
    decoding,
    rows_per_block,
)
from . import Format, Request

PAGE = 1 << 16
"""Bytes that are read of a column at a time."""


def _described(
    shards: Sequence[Shard], roles: Roles, where: str, stamp: str, **more: Any
) -> Described:
    """Return shards as a source with what the roles of their columns say."""
    if not shards:
        raise DataError(f"{where} has no rows")
    names, dtype = roles.names, np.dtype(roles.dtype)
    levels = dict(zip(roles.columns, roles.levels, strict=True))
    return Described(
        shards, len(names), dtype, stamp, names, roles.n_outputs, levels=levels, **more
    )


@dataclass(frozen=True)
class ArrowShard:
    """Some row groups of one file."""

    path: str
    groups: tuple[int, ...]
    first: int
    n_rows: int
    roles: Roles
    is_parquet: bool
    origin: str = ""
    """The file that the user named, where this is a copy of it."""

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows of each group, cut into blocks."""
        itemsize = np.dtype(self.roles.dtype).itemsize
        step = rows_per_block(max_bytes, itemsize * max(1, len(self.roles.names)))
        first = self.first
        for batch in self.batches(step):
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                yield self.roles.block(first + start, part, self.origin or self.path)
            first += batch.num_rows

    def batches(self, rows: int) -> Iterator[Any]:
        """Yield the wanted columns as they are decoded, and say which file cannot be."""
        with decoding(self.origin or self.path):
            yield from self._decoded(rows)

    def _decoded(self, rows: int) -> Iterator[Any]:
        """Yield the wanted columns: of Parquet so many rows at a time.

        Without fetching ahead this is as fast as decoding whole row groups, in a fraction of the
        memory; fetching ahead, pyarrow's default, takes twice the time.
        """
        pa = pyarrow()
        if self.is_parquet:
            import pyarrow.parquet as parquet

            with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=PAGE) as file:
                for group in self.groups:
                    yield from file.iter_batches(
                        rows, row_groups=[group], columns=self.roles.wanted, use_threads=False
                    )
            return
        with pa.memory_map(self.path) as mapped:
            file = pa.ipc.open_file(mapped)
            for group in self.groups:
                yield file.get_batch(group).select(self.roles.wanted)


def arrow_files(
    paths: Sequence[str],
    asked: Asked,
    scratch: str | None = None,
    origins: Origins | None = None,
) -> Described:
    """Look at the schemas and sizes of files of one table; only columns of texts are read.

    A run writes a copy in row-major order of Parquet in its first pass, into the folder
    ``scratch``. ``origins`` are the files that the user named, where these are made of them.
    """
    origins = Origins.of(paths) if origins is None else origins
    table = asked.one_table([_schema(path) for path in paths], origins.paths)
    where = origins.paths[0]
    roles = assigned(table, where, asked, lambda name: _column(paths, name))
    shards: list[Shard] = []
    first = 0
    for path, origin in zip(paths, origins.paths, strict=True):
        for group, size in enumerate(_sizes(path)):
            if size:
                about = (path, (group,), first, size, roles, is_parquet(path), origin)
                shards.append(ArrowShard(*about))
                first += size
    stamp, decodes = fingerprint(origins.fingerprint, roles), any(map(is_parquet, paths))
    return _described(
        shards, roles, where, stamp, origins=origins, decodes=decodes, scratch=scratch
    )


def is_parquet(path: str) -> bool:
    """Tell Parquet from Arrow IPC by the end of the name."""
    return Path(path).suffix.lower() in {".parquet", ".pq"}


def _schema(path: str) -> Any:
    pa = pyarrow()
    with decoding(path):
        if is_parquet(path):
            import pyarrow.parquet as parquet

            return parquet.read_schema(path)
        with pa.memory_map(path) as mapped:
            return pa.ipc.open_file(mapped).schema


def _sizes(path: str) -> tuple[int, ...]:
    pa = pyarrow()
    with decoding(path):
        if is_parquet(path):
            import pyarrow.parquet as parquet

            about = parquet.read_metadata(path)
            return tuple(about.row_group(k).num_rows for k in range(about.num_row_groups))
        with pa.memory_map(path) as mapped:
            file = pa.ipc.open_file(mapped)
            return tuple(file.get_batch(k).num_rows for k in range(file.num_record_batches))


def _column(paths: Sequence[str], name: str) -> Iterator[Any]:
    roles = Roles((name,), (None,), (name,), one_target=True)
    for path in paths:
        groups = tuple(range(len(_sizes(path))))
        yield from ArrowShard(path, groups, 0, 0, roles, is_parquet(path)).batches(1 << 20)


def is_stream(value: Any) -> bool:
    """Say whether a value starts an Arrow stream, or is a sequence of such."""
    if _several(value):
        return bool(value) and all(map(is_stream, value))
    return callable(value) or has_members(value, "__arrow_c_stream__")


def _several(value: Any) -> bool:
    """Say whether a sequence of streams is given; a stream may be iterable itself."""
    return isinstance(value, (list, tuple))


@dataclass(frozen=True)
class StreamShard:
    """One stream."""

    first: int
    n_rows: int
    start: Callable[[], Any]
    roles: Roles
    where: str

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Start the stream and yield its batches, cut into blocks."""
        itemsize = np.dtype(self.roles.dtype).itemsize
        step = rows_per_block(max_bytes, itemsize * max(1, len(self.roles.names)))
        first = self.first
        for batch in batches(self.start):
            if first + batch.num_rows > self.first + self.n_rows:
                break
            wanted = batch.select(self.roles.wanted)
            for begin in range(0, batch.num_rows, step):
                yield self.roles.block(first + begin, wanted.slice(begin, step), self.where)
            first += batch.num_rows
        if first != self.first + self.n_rows:
            raise DataError(
                f"{self.where} gave {self.n_rows} rows at first and another number now; pass a "
                "function that starts the same stream again"
            )


def arrow_streams(streams: Any, asked: Asked) -> Described:
    """Start every stream once, for its columns, its length and its fingerprint; one shard each."""
    starts = [_starter(s) for s in (streams if _several(streams) else [streams])]
    schema = _schema_of_stream(starts[0])

    def texts(name: str) -> Iterator[Any]:
        for start in starts:
            yield from (batch.select([name]) for batch in batches(start))

    roles = assigned(schema, "the stream", asked, texts)
    shards: list[Shard] = []
    prints, first = [], 0
    for number, start in enumerate(starts):
        count, where = 0, f"stream {number}"
        for batch in batches(start):
            if not batch.schema.equals(schema):
                raise DataError(f"{where} has other columns than the first; pass one table")
            count += batch.num_rows
            prints.append(_content(batch, roles))
        if count:
            shards.append(StreamShard(first, count, start, roles, where))
            first += count
    return _described(shards, roles, "the stream", fingerprint(prints))


def batches(start: Callable[[], Any]) -> Iterator[Any]:
    """Yield the record batches of a stream, started now."""
    made, pa = start(), pyarrow()
    if has_members(made, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(made)
        return
    for batch in made:
        yield from batch.to_batches() if isinstance(batch, pa.Table) else [batch]


@dataclass(frozen=True)
class _Again:
    """A table in Arrow form, whose stream can be started at any time."""

    table: Any

    def __call__(self) -> Any:
        return self.table


def _starter(stream: Any) -> Callable[[], Any]:
    pa = pyarrow()
    if isinstance(stream, pa.RecordBatchReader):
        raise ValueError(
            "a RecordBatchReader can be read once only; pass a function that makes one each time"
        )
    return stream if callable(stream) else _Again(stream)


def _schema_of_stream(start: Callable[[], Any]) -> Any:
    for batch in batches(start):
        return batch.schema
    raise DataError("the stream has no rows")


def _content(batch: Any, roles: Roles) -> str:
    """Return what stands for a batch: the numbers of its columns, texts by their values."""
    parts = []
    for name in roles.wanted:
        column = batch.column(name)
        is_text = name in roles.columns and roles.levels[roles.columns.index(name)] is not None
        parts.append(column.to_pylist() if is_text else column.to_numpy(zero_copy_only=False))
    return fingerprint(batch.num_rows, parts)


def _open(asked: Request) -> Source:
    scratch = None if asked.scratch is None else str(asked.scratch)
    return arrow_files(asked.paths, asked.of_table(), scratch)


ENDINGS = frozenset({".parquet", ".pq", ".arrow", ".feather", ".ipc"})
FORMAT = Format(ENDINGS, _open, in_folders=ENDINGS)
