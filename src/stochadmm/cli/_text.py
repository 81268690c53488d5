"""Text files: tables as CSV, edges and groups of columns; errors name the file and the line."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import math
import sys
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from ..base.files import replacing, write_rows
from ._columns import ANYTHING, Expected, Table, check_names, is_number, texts, typed

OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""What divides the fields of text files in place of commas, which names may have in them."""


PACKED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What opens text that is compressed, by the end of its name."""
DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""Errors of reading what is compressed."""


FORMATS = {
    "csv": ".csv",
    "tsv": ".tsv",
    "parquet": ".parquet",
    "arrow": ".arrow",
    "libsvm": ".svm",
    "npz": ".npz",
}
"""The formats that ``--format`` names, by the end of a name."""


@dataclass(frozen=True)
class Dialect:
    """How a file is written where the end of its name does not say it."""

    sep: str = ""
    """What divides fields; as the format has it by default."""
    decimal: str = "."
    encoding: str = "utf-8"
    format: str = ""

    def __post_init__(self) -> None:
        sep = {"tab": "\t", "\\t": "\t", "space": " "}.get(self.sep, self.sep)
        object.__setattr__(self, "sep", sep)
        if len(sep) > 1 or sep == '"':
            raise ValueError(f"--sep is {sep!r}, expected one character, tab or space")
        if self.decimal not in (".", ","):
            raise ValueError(f"--decimal is {self.decimal!r}, expected . or ,")
        if self.format and self.format not in FORMATS:
            raise ValueError(f"--format is {self.format!r}, expected one of {', '.join(FORMATS)}")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(
                f"--encoding is {self.encoding!r}, which is not known; such are utf-8, latin-1 "
                "and utf-16"
            ) from None

    def kind_of(self, path: str) -> str:
        """Return the end of a name that tells the format: ``.csv`` of ``rows.csv.gz``."""
        if self.format:
            return FORMATS[self.format]
        name = Path(path)
        return Path(name.stem if is_packed(path) else name).suffix.lower()

    def delimiter(self, path: str) -> str:
        """Return what divides the fields of a file."""
        return self.sep or ("\t" if self.kind_of(path) == ".tsv" else ",")


PLAIN = Dialect()


def is_packed(path: str) -> bool:
    """Say whether a file is compressed."""
    return Path(path).suffix.lower() in PACKED


@contextmanager
def _opened(path: str, encoding: str) -> Iterator[TextIO]:
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"
    if path == "-":
        given: Any = sys.stdin
        given.reconfigure(encoding=encoding, newline="")  # as files are read, on any system
        yield given
        return
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    with opened_bytes(path) as file:
        try:
            yield io.TextIOWrapper(file, encoding=encoding, newline="")
        except DAMAGED as error:
            raise ValueError(f"{path} cannot be read ({error}); is it damaged?") from error


def opened_bytes(path: str) -> Any:
    """Open a file that may be compressed."""
    opening: Any = PACKED.get(Path(path).suffix.lower(), open)
    return opening(path, "rb")


def _records(path: str, dialect: Dialect = PLAIN) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where a record begins, and its cells; empty lines are left out."""
    line = 1
    with _opened(path, dialect.encoding) as file:
        # Strict: else a quote that is never closed makes one cell of the rest of the file.
        reader = csv.reader(file, delimiter=dialect.delimiter(path), strict=True)
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"line {line} of {path} cannot be read as CSV ({error}); is a quote not closed?"
            ) from error
        except UnicodeError as error:
            where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
            raise ValueError(
                f"{path} is not {dialect.encoding.upper()} text{where}; name its encoding, such "
                "as --encoding latin-1 (of tables), or convert it with iconv"
            ) from error


def heading(path: str) -> Table:
    """Return a table without rows, for those that are streamed."""
    names = _header(path, next(_records(path), (1, []))[1], PLAIN.delimiter(path))
    return _table(path, names, [], ANYTHING)


def chunks(path: str, rows: int, expected: Expected, dialect: Dialect = PLAIN) -> Iterator[Table]:
    """Yield the rows of a file as tables of so many rows."""
    records = _records(path, dialect)
    names = _header(path, next(records, (1, []))[1], dialect.delimiter(path))
    kept: list[list[str]] = []
    done = 0
    for line, row in records:
        if len(row) != len(names):
            raise ValueError(
                f"line {line} of {path} has {len(row)} fields, expected {len(names)} as in the "
                "header"
            )
        kept.append(row)
        if len(kept) == rows:
            yield _table(path, names, kept, expected, done, dialect.decimal)
            done += rows
            kept = []
    if kept:
        yield _table(path, names, kept, expected, done, dialect.decimal)
    elif not done:
        raise ValueError(f"{path} has no rows; a header and at least one row are needed")


def _header(path: str, cells: list[str], delimiter: str) -> list[str]:
    names = [name.strip() for name in cells]
    if not names:
        raise ValueError(f"{path} is empty; a header and at least one row are needed")
    other = [mark for mark in (*OTHERS, ",") if mark != delimiter and mark in cells[0]]
    if len(names) == 1 and other:  # a table of one column hardly has such a name
        word = OTHERS.get(other[0], "commas")
        option = "tab" if other[0] == "\t" else f"'{other[0]}'"
        raise ValueError(
            f"{path} has one column, {names[0]!r}: its fields are divided by {word}, expected "
            f"{OTHERS.get(delimiter, 'commas')}; pass --sep {option}"
        )
    check_names(path, names)
    return names


def _table(
    path: str,
    names: list[str],
    rows: list[list[str]],
    expected: Expected,
    first: int = 0,
    decimal: str = ".",
) -> Table:
    cells = zip(*rows, strict=True) if rows else [()] * len(names)
    columns = {
        name: texts(cell) if name in expected.texts else typed(cell, decimal)
        for name, cell in zip(names, cells, strict=True)
    }
    return Table(path, columns, aside=("",) if "" in columns else (), first=first)


# ---------------------------------------------------------------- structures


def read_edges(path: str, columns: Collection[str]) -> list[tuple[str, str, float]]:
    """Read edges between columns: one ``name,name[,weight]`` a line."""
    edges = []
    for number, row in _below_heading(path, columns, slice(0, 2)):
        if len(row) not in (2, 3):
            raise ValueError(
                f"line {number} of {path} has {len(row)} fields, expected name,name or "
                "name,name,weight"
            )
        weight = row[2] if len(row) == 3 else "1"
        if not is_number(weight) or not 0 <= float(weight) < math.inf:
            raise ValueError(
                f"line {number} of {path} has the weight {weight!r}, expected a number >= 0"
            )
        edges.append((row[0], row[1], float(weight)))
    return edges


def read_groups(path: str, columns: Collection[str]) -> dict[str, list[str]]:
    """Read groups: ``group,column[,column ...]`` a line; lines of the same group add up."""
    groups: dict[str, list[str]] = {}
    for number, row in _below_heading(path, columns, slice(1, None)):
        if len(row) < 2:
            raise ValueError(f"line {number} of {path} names no column; expected group,column")
        groups.setdefault(row[0], []).extend(row[1:])
    return groups


def _below_heading(
    path: str, columns: Collection[str], named: slice
) -> list[tuple[int, list[str]]]:
    """Return the lines of a file of edges or groups, and say so where the first is a heading.

    It is one where it names no column and all other lines name nothing else.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a file of edges or groups")
    lines = [
        (number, [cell.strip() for cell in row if cell.strip()]) for number, row in _records(path)
    ]
    if not lines:
        raise ValueError(f"{path} is empty; expected names of columns in every line")
    known = [[name in columns for name in row[named]] for _, row in lines]
    if len(lines) < 2 or any(known[0]) or not all(map(all, known[1:])):
        return lines
    print(f"Line {lines[0][0]} of {path} is taken as a heading.", file=sys.stderr)
    return lines[1:]


# ---------------------------------------------------------------- answers


def write_table(out: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV to a file, whole or absent, or to standard output."""
    if out == "-":
        if sys.stdout is None:
            raise OSError("standard output is closed; name a file with --out")
        write_rows(sys.stdout, chain([header], rows))
        return
    try:
        with (
            replacing(out) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            write_rows(file, chain([header], rows))
    except OSError as error:
        raise OSError(f"cannot write {out} ({error.strerror or error}); name another") from error
