"""Arrow streams of the user's own as a source: functions that start them again.

A stream says nothing about its length, so opening one reads it once, for its sizes and for a
fingerprint of its content. Each stream is one shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import has_members
from ..base.fingerprint import fingerprint
from ._columns import Asked, Roles, assigned, pyarrow
from ._parquet import ArrowColumns
from ._protocol import Block, DataError, Shard, rows_per_block


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


@dataclass(frozen=True, eq=False)
class ArrowStreams(ArrowColumns):
    """Arrow streams that can be started again, one shard each."""

    shards: Sequence[Shard]
    roles: Roles
    fingerprint: str

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(shard.n_rows for shard in self.shards)

    @classmethod
    def of(cls, streams: Any, asked: Asked) -> ArrowStreams:
        """Start every stream once, for its columns, its length and its fingerprint."""
        starts = [_starter(s) for s in (streams if _several(streams) else [streams])]
        schema = _schema(starts[0])

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
        if not shards:
            raise DataError("the stream has no rows")
        return cls(shards, roles, fingerprint(prints))


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


def _schema(start: Callable[[], Any]) -> Any:
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
