"""Tables from files: named columns of numbers or text, for the commands that fit and predict."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from glob import has_magic
from pathlib import Path

from . import _arrow, _text
from ._columns import ANYTHING, Expected, Table
from ._text import PLAIN, Dialect

TEXT = {".csv", ".tsv", ".txt"}
ARROW = {*_arrow.PARQUET, ".feather", ".arrow", ".ipc"}
LIBSVM = {".svm", ".libsvm", ".svmlight"}


def read_table(path: str, expected: Expected = ANYTHING, dialect: Dialect = PLAIN) -> Table:
    """Read a file by the end of its name; ``-`` is CSV on standard input.

    CSV and TSV with a header, Parquet and Arrow files, libsvm text (text also as ``.gz``, ``.bz2``
    or ``.xz``), and NumPy ``.npz`` files with
    ``X`` (dense, or the parts of a sparse matrix) and optionally ``y`` and ``names``.
    """
    from . import _matrices

    kind = dialect.kind_of(path)
    if path == "-" or kind in TEXT:
        table = next(_text.chunks(path, sys.maxsize, expected, dialect))
    elif not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    elif kind in ARROW and not _text.is_packed(path):
        table = _arrow.read(path)
    elif kind in LIBSVM:
        table = _matrices.read_libsvm(path, expected)
    elif kind == ".npz" and not _text.is_packed(path):
        table = _matrices.read_npz(path)
    else:
        known = ", ".join(sorted([*TEXT, *ARROW, *LIBSVM, ".npz"]))
        raise ValueError(
            f"{path} ends in {Path(path).suffix!r}, expected one of {known}; text may be packed, "
            "such as .csv.gz; --format says what the name does not"
        )
    if not table.n_rows:
        raise ValueError(f"{path} has no rows; a header and at least one row are needed")
    return table


def heading(path: str) -> Table:
    """Return the columns of a text or Arrow file without rows; other files name none."""
    kind = PLAIN.kind_of(path)
    if kind in ARROW:
        return _arrow.heading(path)
    return _text.heading(path) if kind in TEXT else Table(path, {})


def read_chunks(
    path: str,
    rows: int = 1 << 16,
    expected: Expected = ANYTHING,
    dialect: Dialect = PLAIN,
) -> Iterator[Table]:
    """Yield the rows of a file as tables of so many rows; other files come as one table."""
    for file in files_of(path):
        kind = dialect.kind_of(file)
        if file == "-" or kind in TEXT:
            yield from _text.chunks(file, rows, expected, dialect)
        elif kind in ARROW and not _text.is_packed(file) and Path(file).is_file():
            yield from _arrow.chunks(file, rows)
        elif kind == ".npy":
            from . import _matrices

            yield from _matrices.npy_chunks(path, file, rows, expected)
        else:
            yield read_table(file, expected, dialect)


def files_of(path: str) -> list[str]:
    """Return the files of a folder or pattern; a name that is neither stands for itself."""
    if path == "-" or not (has_magic(path) or Path(path).is_dir()):
        return [path]
    from stochadmm.data import list_files

    return list_files(path)
