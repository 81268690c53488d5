"""Parquet and Arrow IPC files as a source, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.fingerprint import fingerprint
from ._columns import Asked, Roles, assigned, pyarrow
from ._origins import Origins
from ._protocol import Block, DataError, Shard, decoding, rows_per_block

PAGE = 1 << 16
"""Bytes that are read of a column at a time."""


class ArrowColumns:
    """What the roles of its columns say of a source."""

    roles: Roles

    @property
    def n_columns(self) -> int:
        """Number of columns, one per level of a text."""
        return len(self.roles.names)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.roles.names

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return self.roles.n_outputs

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows once read."""
        return np.dtype(self.roles.dtype)


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


@dataclass(frozen=True)
class ArrowFiles(ArrowColumns):
    """Parquet or Arrow IPC files of the same columns, in the order given.

    Parameters
    ----------
    paths : tuple of str
        The files.
    roles : Roles
        Which column is what.
    groups : tuple of tuples of int
        Rows of every row group of every file.
    scratch : str, optional
        Folder for a copy in row-major order that a run makes of Parquet in its first pass.
    origins : Origins, optional
        The files that the user named, as they were when they were opened.
    """

    paths: tuple[str, ...]
    roles: Roles
    groups: tuple[tuple[int, ...], ...]
    scratch: str | None = None
    origins: Origins | None = None

    @property
    def decodes(self) -> bool:
        """Whether a pass takes far longer than one over rows as they are in memory: Parquet."""
        return any(map(is_parquet, self.paths))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(map(sum, self.groups))

    @property
    def shards(self) -> Sequence[Shard]:
        """One per row group."""
        found: list[Shard] = []
        first = 0
        origins = self.paths if self.origins is None else self.origins.paths
        for path, origin, sizes in zip(self.paths, origins, self.groups, strict=True):
            for group, size in enumerate(sizes):
                if size:
                    about = (path, (group,), first, size, self.roles, is_parquet(path), origin)
                    found.append(ArrowShard(*about))
                    first += size
        return found

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files, and what their columns are."""
        origins = Origins.of(self.paths) if self.origins is None else self.origins
        return fingerprint(origins.fingerprint, self.roles)

    @classmethod
    def of(
        cls,
        paths: Sequence[str],
        asked: Asked,
        scratch: str | None = None,
        origins: Origins | None = None,
    ) -> ArrowFiles:
        """Look at the files' schemas and sizes; only columns of texts are read."""
        origins = Origins.of(paths) if origins is None else origins
        schemas = [_schema(path) for path in paths]
        table = asked.one_table(schemas, origins.paths)
        groups = tuple(_sizes(path) for path in paths)
        where = origins.paths[0]
        roles = assigned(table, where, asked, lambda name: _column(paths, name))
        found = cls(tuple(map(str, paths)), roles, groups, scratch, origins)
        if not found.n_rows:
            raise DataError(f"{where} has no rows")
        return found


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
