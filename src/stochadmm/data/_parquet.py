"""Parquet and Arrow IPC files as a source, row group by row group.

Columns are taken by name. A column of texts becomes one column per level, in the order of the
levels, which costs a read of that column when the source is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ..base.names import did_you_mean
from ..base.protocols import Array
from ..kernels.columns import beside
from ._files import stamps
from ._protocol import Block, DataError, Shard, rows_per_block

MOST_LEVELS = 10_000
PAGE = 1 << 16
"""Bytes that are read of a column at a time."""


def pyarrow() -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "reading Parquet, Arrow and CSV files needs pyarrow; pip install 'stochadmm[parquet]'"
        ) from None
    return pyarrow


@dataclass(frozen=True)
class Roles:
    """Which column of a table is what."""

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]
    """Levels of each column of texts; None for numbers."""
    targets: tuple[str, ...]
    weight: str | None = None
    offset: str | None = None
    dtype: str = "float32"
    one_target: bool = False
    """Whether the target was named by itself, not in a list: a row has one number."""

    @property
    def names(self) -> list[str]:
        """Names of the model's columns."""
        found: list[str] = []
        for name, levels in zip(self.columns, self.levels, strict=True):
            found += [name] if levels is None else [f"{name}={level}" for level in levels]
        return found

    @property
    def n_outputs(self) -> int | None:
        """Number of targets, None for one that was not given as a list."""
        return None if self.one_target else len(self.targets)

    @property
    def wanted(self) -> list[str]:
        """Columns to be read."""
        more = [name for name in (self.weight, self.offset) if name is not None]
        return list(dict.fromkeys([*self.columns, *self.targets, *more]))

    def block(self, first: int, batch: Any, where: str) -> Block:
        """Return the Arrow columns of a record batch, of the file ``where``, as a block."""
        held = dict(zip(batch.schema.names, batch.columns, strict=True))

        def numbers(name: str) -> Array:
            return _numbers(held[name], name, these, first)

        these = f"{where}, rows {first} to {first + batch.num_rows - 1}"

        whole = np.empty if not any(self.levels) else np.zeros
        X: Array = whole((batch.num_rows, len(self.names)), dtype=self.dtype)
        place = 0
        for is_text, some in groupby(
            zip(self.columns, self.levels, strict=True), key=lambda column: column[1] is not None
        ):
            if not is_text:
                run = [numbers(name) for name, _ in some]
                beside(run, X, place)
                place += len(run)
                continue
            for name, levels in some:
                assert levels is not None
                _mark(X[:, place : place + len(levels)], held[name], levels)
                place += len(levels)
        y = np.column_stack([numbers(name).astype(np.float64) for name in self.targets])
        if self.one_target:
            y = y[:, 0]
        weight, offset = (
            None if name is None else numbers(name).astype(np.float64)
            for name in (self.weight, self.offset)
        )
        return Block(first, X, y, weight, offset, where)


def _numbers(column: Any, name: str, where: str, first: int) -> Array:
    """Return an Arrow array of numbers as it lies in memory."""
    if column.null_count:
        missing = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(
            f"{where}: column {name!r} has {column.null_count} missing values, the first in row "
            f"{missing}; fill or drop them"
        )
    values = _decoded(column).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise DataError(f"{where}: column {name!r} holds {column.type}, expected numbers")
    return np.asarray(values)


def _decoded(column: Any) -> Any:
    """Return an Arrow array without a dictionary of its own."""
    return column.dictionary_decode() if pyarrow().types.is_dictionary(column.type) else column


def _mark(out: Array, column: Any, levels: tuple[str, ...]) -> None:
    """Set ones where the texts of a column are; texts that are no levels leave zeros."""
    coded, ordered = _decoded(column).dictionary_encode(null_encoding="encode"), np.array(levels)
    values = np.array([str(value) for value in coded.dictionary.to_pylist()])
    place = np.minimum(np.searchsorted(ordered, values), len(levels) - 1)
    known = ordered[place] == values
    code = coded.indices.to_numpy()
    rows = np.flatnonzero(known[code])
    out[rows, place[code[rows]]] = 1


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
        pa = pyarrow()
        try:
            yield from self._decoded(rows)
        except pa.ArrowInvalid as error:
            raise self._unreadable(error) from error
        except OSError as error:
            if error.errno is not None:  # of the disk, which may do better the next time
                raise
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return DataError(f"{self.origin or self.path} cannot be read: {reason}")

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
    origins : tuple of str, optional
        The files that the user named, where these are copies of them.
    """

    paths: tuple[str, ...]
    roles: Roles
    groups: tuple[tuple[int, ...], ...]
    scratch: str | None = None
    origins: tuple[str, ...] = ()

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
        origins = self.origins or self.paths
        for path, origin, sizes in zip(self.paths, origins, self.groups, strict=True):
            for group, size in enumerate(sizes):
                if size:
                    about = (path, (group,), first, size, self.roles, is_parquet(path), origin)
                    found.append(ArrowShard(*about))
                    first += size
        return found

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files."""
        return stamps(self.paths)

    @classmethod
    def of(
        cls, paths: Sequence[str], target: Any, columns: Sequence[str] | None = None,
        weight: str | None = None, offset: str | None = None, scratch: str | None = None,
        origins: Sequence[str] = (),
    ) -> ArrowFiles:  # fmt: skip
        """Look at the files' schemas and sizes; only columns of texts are read."""
        schema, groups, named = _schema(paths[0]), [], origins or paths
        for path, name in zip(paths, named, strict=True):
            if not _schema(path).equals(schema):
                raise DataError(
                    f"{name} has other columns than {named[0]}; pass files of one table"
                )
            groups.append(_sizes(path))
        roles = assigned(
            schema, named[0], target, columns, weight, offset, lambda name: _column(paths, name)
        )
        found = cls(
            tuple(map(str, paths)), roles, tuple(groups), scratch, tuple(map(str, origins))
        )
        if not found.n_rows:
            raise DataError(f"{named[0]} has no rows")
        return found


def is_parquet(path: str) -> bool:
    """Tell Parquet from Arrow IPC by the end of the name."""
    return Path(path).suffix.lower() in {".parquet", ".pq"}


def _schema(path: str) -> Any:
    pa = pyarrow()
    try:
        if is_parquet(path):
            import pyarrow.parquet as parquet

            return parquet.read_schema(path)
        with pa.memory_map(path) as mapped:
            return pa.ipc.open_file(mapped).schema
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def _sizes(path: str) -> tuple[int, ...]:
    pa = pyarrow()
    if is_parquet(path):
        import pyarrow.parquet as parquet

        about = parquet.read_metadata(path)
        return tuple(about.row_group(k).num_rows for k in range(about.num_row_groups))
    with pa.memory_map(path) as mapped:
        file = pa.ipc.open_file(mapped)
        return tuple(file.get_batch(k).num_rows for k in range(file.num_record_batches))


def assigned(
    schema: Any, where: str, target: Any, columns: Sequence[str] | None, weight: str | None,
    offset: str | None, batches: Callable[[str], Iterator[Any]],
) -> Roles:  # fmt: skip
    """Return which column of a schema is what.

    ``batches(name)`` yields a column of texts piece by piece, for its levels.
    """
    one_target = isinstance(target, str)
    targets = (target,) if one_target else tuple(target)
    taken = {*targets, weight, offset}
    chosen = tuple(columns) if columns else tuple(n for n in schema.names if n not in taken)
    for role, names in (
        ("target", targets),
        ("column", chosen),
        ("weight", (weight,)),
        ("offset", (offset,)),
    ):
        for name in names:
            if name is not None and name not in schema.names:
                hint = did_you_mean(name, schema.names, f"it has {', '.join(schema.names[:8])}")
                raise DataError(f"{where} has no column {name!r} for the {role}; {hint}")
    if not chosen:
        raise DataError(f"{where} has no column beside the target")
    for name in chosen:
        if name in targets:
            raise DataError(f"{where}: {name!r} is the target and a column too; leave it out")
        if chosen.count(name) > 1 or schema.names.count(name) > 1:
            raise DataError(f"{where}: column {name!r} is there twice; name every column once")
        if not _is_text(schema.field(name).type) and not _is_number(schema.field(name).type):
            kind = schema.field(name).type
            raise DataError(
                f"{where}: column {name!r} holds {kind}, expected numbers or texts; leave it out "
                "by columns="
            )
    levels = tuple(
        _levels(batches(name), name, where) if _is_text(schema.field(name).type) else None
        for name in chosen
    )
    kinds = {str(_kind(schema.field(name).type)) for name in chosen}
    exact = bool(kinds & {"double", "int64", "int32", "uint32", "uint64"})
    return Roles(
        chosen, levels, targets, weight, offset, "float64" if exact else "float32", one_target
    )  # fmt: skip


def _is_text(kind: Any) -> bool:
    pa, inner = pyarrow(), _kind(kind)
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _is_number(kind: Any) -> bool:
    types, inner = pyarrow().types, _kind(kind)
    return bool(
        types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)
        or types.is_null(inner)
    )  # fmt: skip


def _kind(kind: Any) -> Any:
    """Return the type of the values of a column, behind their dictionary."""
    return kind.value_type if pyarrow().types.is_dictionary(kind) else kind


def _column(paths: Sequence[str], name: str) -> Iterator[Any]:
    roles = Roles((name,), (None,), (name,), one_target=True)
    for path in paths:
        groups = tuple(range(len(_sizes(path))))
        yield from ArrowShard(path, groups, 0, 0, roles, is_parquet(path)).batches(1 << 20)


def _levels(batches: Iterator[Any], name: str, where: str) -> tuple[str, ...]:
    found: set[str] = set()
    for batch in batches:
        found |= {str(value) for value in _decoded(batch[name]).unique().to_pylist()}
        if len(found) > MOST_LEVELS:
            raise DataError(
                f"column {name!r} of {where} has more than {MOST_LEVELS:,} different texts; "
                "leave it out by columns="
            )
    return tuple(sorted(found))
