"""Which column of a table is what, and record batches of it as blocks of rows.

Columns are taken by name. A column of texts becomes one column per level, in the order of the
levels, which costs a read of that column when the source is opened. A missing text is the empty
text, as in CSV.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ..base.names import did_you_mean
from ..base.protocols import Array
from ..kernels.columns import beside
from ._protocol import Block, DataError

MOST_LEVELS = 10_000


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
        for of_texts, some in groupby(
            zip(self.columns, self.levels, strict=True), key=lambda column: column[1] is not None
        ):
            if not of_texts:
                run = [numbers(name) for name, _ in some]
                beside(run, X, place)
                place += len(run)
                continue
            for name, levels in some:
                assert levels is not None
                _mark(X[:, place : place + len(levels)], held[name], levels)
                place += len(levels)
        if self.one_target and is_text(held[self.targets[0]].type):
            y = _labels(held[self.targets[0]], self.targets[0], these, first)
        else:
            targets = [numbers(name) for name in self.targets]
            y = np.stack(targets, axis=1).astype(np.float64) if targets else np.empty((len(X), 0))
            if self.one_target:  # truth values are labels of their own
                y = targets[0] if targets[0].dtype == bool else y[:, 0]
        weight, offset = (
            None if name is None else numbers(name).astype(np.float64)
            for name in (self.weight, self.offset)
        )
        return Block(first, X, y, weight, offset, where)


def _numbers(column: Any, name: str, where: str, first: int) -> Array:
    """Return an Arrow array of numbers as it lies in memory."""
    if column.null_count:
        _refuse(column.is_null().to_numpy(zero_copy_only=False), name, where, first)
    values = _decoded(column).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise DataError(f"{where}: column {name!r} holds {column.type}, expected numbers")
    return np.asarray(values)


def _labels(column: Any, name: str, where: str, first: int) -> Array:
    """Return an Arrow array of texts that are classes; a missing one is no class of its own."""
    coded = _decoded(column).dictionary_encode(null_encoding="encode")
    known = np.array(_texts(coded.dictionary), dtype=str)
    labels: Array = known[coded.indices.to_numpy()]
    if (labels == "").any():
        _refuse(labels == "", name, where, first)
    return labels


def _refuse(missing: Array, name: str, where: str, first: int) -> None:
    raise DataError(
        f"{where}: column {name!r} has {np.count_nonzero(missing)} missing values, the first in "
        f"row {first + int(np.argmax(missing))}; fill or drop them"
    )


def _decoded(column: Any) -> Any:
    """Return an Arrow array without a dictionary of its own; one without values is of texts."""
    pa = pyarrow()
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _mark(out: Array, column: Any, levels: tuple[str, ...]) -> None:
    """Set ones where the texts of a column are; texts that are no levels leave zeros."""
    coded = _decoded(column).dictionary_encode(null_encoding="encode")
    place = {level: k for k, level in enumerate(levels)}
    found = np.array([place.get(text, -1) for text in _texts(coded.dictionary)], dtype=np.intp)
    level = found[coded.indices.to_numpy()]
    rows = np.flatnonzero(level >= 0)
    out[rows, level[rows]] = 1


def _texts(column: Any) -> list[str]:
    """Return the values of an Arrow array as texts; a missing one is empty."""
    return ["" if value is None else str(value) for value in column.to_pylist()]


@dataclass(frozen=True)
class Fitted:
    """Columns of a fitted model that rows are opened for.

    ``with_targets`` says whether they need targets: scores do, predictions do not.
    """

    n_columns: int
    names: tuple[str, ...] | None = None
    with_targets: bool = False

    def taken_from(self, columns: Sequence[str], where: str) -> dict[str, tuple[str, ...] | None]:
        """Return the columns of a table that make those of the model, with the levels of texts."""
        found: dict[str, tuple[str, ...] | None] = {}
        assert self.names is not None
        held, known = set(columns), set(self.names)
        others = [c for c in columns if c not in known]
        for name in self.names:
            if name in held:
                found[name] = None
                continue
            owners = [c for c in others if name.startswith(f"{c}=")]
            if not owners:
                hint = did_you_mean(name, columns, f"it has {', '.join(columns[:8])}")
                raise DataError(f"{where} has no column {name!r} of the model; {hint}")
            owner = max(owners, key=len)
            found[owner] = (*(found.get(owner) or ()), name[len(owner) + 1 :])
        return found


@dataclass(frozen=True)
class Asked:
    """What a user says of the columns of a table."""

    target: Any
    columns: Sequence[str] | None = None
    weight: str | None = None
    offset: str | None = None
    fitted: Fitted | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets."""
        if self.target is None:
            return ()
        return (self.target,) if self.one_target else tuple(self.target)

    @property
    def one_target(self) -> bool:
        """Whether the target is named by itself, not in a list."""
        return isinstance(self.target, str)

    def known_levels(self, names: Sequence[str], where: str) -> dict[str, Any] | None:
        """Return the columns of the model and their levels, None where the rows have to say."""
        if self.fitted is None or self.fitted.names is None:
            return None
        return self.fitted.taken_from(names, where)

    def chosen(self, schema: Any, where: str) -> tuple[str, ...]:
        """Return the columns of the model; names that are not there are refused."""
        targets, known = self.targets, self.known_levels(own_names(schema), where)
        there = Counter(schema.names)
        taken = {*targets, self.weight, self.offset}
        if known is not None:
            chosen = tuple(known)
        elif self.columns is not None:
            chosen = tuple(self.columns)
        else:
            chosen = tuple(n for n in own_names(schema) if n not in taken)
        for role, names in (
            ("target", targets),
            ("column", chosen),
            ("weight", (self.weight,)),
            ("offset", (self.offset,)),
        ):
            for name in names:
                if name is not None and name not in there:
                    have = f"it has {', '.join(schema.names[:8])}"
                    hint = did_you_mean(name, schema.names, have)
                    raise DataError(f"{where} has no column {name!r} for the {role}; {hint}")
        if not chosen:
            raise DataError(f"{where}: no column is left for the model; name one at least")
        for name, count in Counter(chosen + targets).items():
            if name in targets and count > 1:
                raise DataError(f"{where}: {name!r} is the target and a column too; leave it out")
            if count > 1 or there[name] > 1:
                raise DataError(f"{where}: column {name!r} is named twice; name every column once")
        return chosen

    def wanted(self, schema: Any, where: str) -> list[str]:
        """Return all columns that are read."""
        more = [name for name in (self.weight, self.offset) if name is not None]
        return list(dict.fromkeys([*self.chosen(schema, where), *self.targets, *more]))

    def one_table(self, schemas: Sequence[Any], where: Sequence[str]) -> Any:
        """Return the columns that are read of files of one table, in the order of the first file.

        Whole numbers in one file and others in the next are numbers, and a column without any
        value goes with all.
        """
        first = schemas[0]
        wanted = self.wanted(first, where[0])
        read, every = set(wanted), self.columns is None and self.fitted is None
        for schema, name in zip(schemas, where, strict=True):
            there = set(schema.names)
            missing = [column for column in wanted if column not in there]
            if missing:
                raise DataError(
                    f"{name} has no column {missing[0]!r}, which {where[0]} has; pass files of "
                    "one table"
                )
            more = [column for column in own_names(schema) if column not in read]
            if every and more:
                raise DataError(
                    f"{name} has a column {more[0]!r}, which {where[0]} lacks; pass files of one "
                    "table, or name columns="
                )
        kinds = {
            name: _common_kind(name, [schema.field(name).type for schema in schemas], where)
            for name in wanted
        }
        return pyarrow().schema(list(kinds.items()))


def own_names(schema: Any) -> list[str]:
    """Return the columns of a table without those that hold the index of a pandas frame."""
    about = schema.pandas_metadata or {}
    index = about.get("index_columns", ())  # an index that is a range is not a name
    return [name for name in schema.names if name not in index]


def _common_kind(name: str, kinds: list[Any], where: Sequence[str]) -> Any:
    """Return the type of a column of several files."""
    pa = pyarrow()
    found = pa.null()
    first = where[0]
    for kind, file in zip(kinds, where, strict=True):
        if pa.types.is_null(kind) or kind == found:
            continue
        if pa.types.is_null(found):
            found, first = kind, file
        elif is_number(found) and is_number(kind):
            found = pa.float64()
        elif is_text(found) and is_text(kind):
            found = pa.string()
        else:
            raise DataError(
                f"column {name!r} holds {found} in {first} and {kind} in {file}; make them alike, "
                "or leave it out by columns="
            )
    return found


def assigned(
    schema: Any, where: str, asked: Asked, batches: Callable[[str], Iterator[Any]]
) -> Roles:
    """Return which column of a schema is what.

    ``batches(name)`` yields a column of texts piece by piece, for its levels.
    """
    chosen, known = asked.chosen(schema, where), asked.known_levels(own_names(schema), where)
    for name in chosen:
        kind = schema.field(name).type
        if not is_text(kind) and not is_number(kind):
            raise DataError(
                f"{where}: column {name!r} holds {kind}, expected numbers or texts; leave it out "
                "by columns="
            )
        if known is not None and known[name] is None and is_text(kind):
            raise DataError(f"{where}: column {name!r} holds texts, in the model it has numbers")
    if known is not None:
        levels = tuple(known.values())
    else:
        levels = tuple(
            _levels(batches(name), name, where) if is_text(schema.field(name).type) else None
            for name in chosen
        )
    kinds = {str(_kind(schema.field(name).type)) for name in chosen}
    exact = bool(kinds & {"double", "int64", "int32", "uint32", "uint64"})
    return Roles(
        chosen,
        levels,
        asked.targets,
        asked.weight,
        asked.offset,
        "float64" if exact else "float32",
        asked.one_target,
    )


def is_text(kind: Any) -> bool:
    """Say whether a column of this type holds texts."""
    pa, inner = pyarrow(), _kind(kind)
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def is_number(kind: Any) -> bool:
    """Say whether a column of this type holds numbers, or nothing at all."""
    types, inner = pyarrow().types, _kind(kind)
    return bool(
        types.is_integer(inner)
        or types.is_floating(inner)
        or types.is_boolean(inner)
        or types.is_null(inner)
    )


def _kind(kind: Any) -> Any:
    """Return the type of the values of a column, behind their dictionary."""
    return kind.value_type if pyarrow().types.is_dictionary(kind) else kind


def _levels(batches: Iterator[Any], name: str, where: str) -> tuple[str, ...]:
    found: set[str] = set()
    for batch in batches:
        found |= set(_texts(_decoded(batch[name]).unique()))
        if len(found) > MOST_LEVELS:
            raise DataError(
                f"column {name!r} of {where} has more than {MOST_LEVELS:,} different texts; "
                "leave it out by columns="
            )
    return tuple(sorted(found))
