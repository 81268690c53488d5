"""Tables from files: named columns of numbers or text, for the commands that fit and predict."""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from stochadmm.base.files import replacing
from stochadmm.base.names import did_you_mean
from stochadmm.base.protocols import Array

TEXT = {".csv": ",", ".tsv": "\t", ".txt": ","}
ARROW = {".parquet", ".pq", ".feather", ".arrow", ".ipc"}
LIBSVM = {".svm", ".libsvm", ".svmlight"}


@dataclass(frozen=True)
class Table:
    """Columns by name; ``matrix`` holds them where a file has one matrix and no names."""

    path: str
    columns: dict[str, Array]
    matrix: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.matrix is not None:
            return int(self.matrix.shape[0])
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str, role: str) -> Array:
        """Return one column; a wrong name lists the nearest ones."""
        if name not in self.columns:
            hint = did_you_mean(name, self.columns, _listed(list(self.columns)))
            raise ValueError(f"{self.path} has no column {name!r} for the {role}; {hint}")
        return self.columns[name]

    def numbers(self, name: str, role: str) -> Array:
        """Return one column of finite numbers."""
        values = self.column(name, role)
        if values.dtype == object:
            bad = _first_text(values)
            raise ValueError(
                f"column {name!r} of {self.path} has the text {values[bad]!r} in row {bad + 1}; "
                f"the {role} needs numbers"
            )
        missing = np.flatnonzero(~np.isfinite(values))
        if missing.size:
            raise ValueError(
                f"column {name!r} of {self.path} has {missing.size} empty or infinite values, the "
                f"first in row {missing[0] + 1}; fill or drop these rows"
            )
        return values


def read_table(path: str) -> Table:
    """Read a file by the end of its name; ``-`` is CSV on standard input.

    CSV and TSV with a header, Parquet and Arrow files, libsvm text, and NumPy ``.npz`` files with
    ``X`` (dense, or the parts of a CSR matrix) and optionally ``y`` and ``names``.
    """
    kind = Path(path).suffix.lower()
    if path == "-" or kind in TEXT:
        table = _read_text(path, TEXT.get(kind, ","))
    elif not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    elif kind in ARROW:
        table = _read_arrow(path, kind)
    elif kind in LIBSVM:
        table = _read_libsvm(path)
    elif kind == ".npz":
        table = _read_npz(path)
    else:
        known = ", ".join(sorted([*TEXT, *ARROW, *LIBSVM, ".npz"]))
        raise ValueError(f"{path} ends in {kind!r}, expected one of {known}")
    if not table.n_rows:
        raise ValueError(f"{path} has no rows; a header and at least one row are needed")
    return table


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdin
        return
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    with open(path, encoding="utf-8-sig", newline="") as file:
        yield file


def _read_text(path: str, delimiter: str) -> Table:
    parts = list(_text_chunks(path, delimiter, sys.maxsize, frozenset()))
    return parts[0]


def column_names(path: str) -> list[str]:
    """Return the names of the columns of a text or Arrow file; no rows are read."""
    kind = Path(path).suffix.lower()
    if kind in ARROW:
        return [str(name) for name in _arrow_batches(path, kind, 1)[0]]
    with _opened(path) as file, _decoded(path):
        return [name.strip() for name in next(csv.reader(file, delimiter=TEXT[kind]), [])]


def read_chunks(path: str, rows: int = 1 << 16, texts: frozenset[str] = frozenset()) -> Any:
    """Yield the rows of a file as tables of so many rows; other files come as one table.

    ``texts`` names the columns that are text even where all cells of a chunk are numbers.
    """
    for file in files_of(path):
        kind = Path(file).suffix.lower()
        if file == "-" or kind in TEXT:
            yield from _text_chunks(file, TEXT.get(kind, ","), rows, texts)
        elif kind in ARROW and Path(file).is_file():
            _, batches = _arrow_batches(file, kind, rows)
            for batch in batches:
                yield Table(file, _arrow_columns(batch))
        elif kind == ".npy":
            yield from _npy_chunks(path, file, rows)
        else:
            yield read_table(file)


def files_of(path: str) -> list[str]:
    """Return the files of a folder or pattern; a name that is neither stands for itself."""
    if path == "-" or not (has_magic(path) or Path(path).is_dir()):
        return [path]
    from stochadmm.data import list_files

    return list_files(path)


def _npy_chunks(path: str, file: str, rows: int) -> Iterator[Table]:
    """Yield the rows of a ``.npy`` file, or of a folder with the arrays of a CSR matrix."""
    from scipy import sparse

    try:
        if Path(file).name != "indptr.npy":
            X: Any = np.load(file, mmap_mode="r", allow_pickle=False)
        else:
            folder = Path(file).parent
            data, indices, indptr = (
                np.load(folder / f"{name}.npy", mmap_mode="r")
                for name in ("data", "indices", "indptr")
            )
            width = folder / "n_columns.txt"
            count = int(width.read_text()) if width.is_file() else 1 + int(indices.max(initial=-1))
            X = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, count))
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as .npy: {error}") from error
    if X.ndim != 2 or not X.shape[0]:
        raise ValueError(f"{path} has the shape {X.shape}, expected rows and columns")
    for first in range(0, X.shape[0], rows):
        part = X[first : first + rows]
        yield Table(path, {}, part if sparse.issparse(part) else np.asarray(part))


def _text_chunks(path: str, delimiter: str, rows: int, texts: frozenset[str]) -> Iterator[Table]:
    with _opened(path) as file, _decoded(path):
        reader = csv.reader(file, delimiter=delimiter)
        names = _header(path, next(reader, []))
        kept: list[list[str]] = []
        empty = True
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise ValueError(_ragged(path, reader.line_num, len(row), len(names)))
            kept.append(row)
            empty = False
            if len(kept) == rows:
                yield _table(path, names, kept, texts)
                kept = []
        if kept:
            yield _table(path, names, kept, texts)
        if empty:
            raise ValueError(f"{path} has no rows; a header and at least one row are needed")


def _table(path: str, names: list[str], rows: list[list[str]], texts: frozenset[str]) -> Table:
    cells = zip(names, zip(*rows, strict=True), strict=True)
    return Table(
        path, {name: _text(cell) if name in texts else _typed(cell) for name, cell in cells}
    )


@contextmanager
def _decoded(path: str) -> Iterator[None]:
    """Tell bytes that are no UTF-8 in one line."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text (byte {error.start}); convert it, e.g. with iconv"
        ) from error


def _header(path: str, cells: list[str]) -> list[str]:
    names = [name.strip() for name in cells]
    if not names:
        raise ValueError(f"{path} is empty; a header and at least one row are needed")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"{path} has two columns named {sorted(repeated)[0]!r}; rename one")
    return names


def _ragged(path: str, line: int, found: int, expected: int) -> str:
    return f"line {line} of {path} has {found} fields, expected {expected} as in the header"


def _text(cells: Sequence[str]) -> Array:
    return np.array([cell.strip() for cell in cells], dtype=object)


def _typed(cells: Sequence[str]) -> Array:
    """Return numbers where every cell is one or empty, text otherwise."""
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    except ValueError:
        return _text(cells)


def _read_arrow(path: str, kind: str) -> Table:
    names, batches = _arrow_batches(path, kind, 1 << 20)
    parts = [_arrow_columns(batch) for batch in batches]
    return Table(
        path,
        {
            name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0)
            for name in names
        },
    )


def _arrow_batches(path: str, kind: str, rows: int) -> tuple[list[str], Iterator[Any]]:
    """Return the names of the columns, and the rows in batches."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a table, or - for standard input")
    try:
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"reading {path} needs pyarrow; pip install 'stochadmm[parquet]'"
        ) from None
    try:
        if kind in {".parquet", ".pq"}:
            file = pyarrow.parquet.ParquetFile(path)
            return list(file.schema_arrow.names), file.iter_batches(batch_size=rows)
        reader = pyarrow.ipc.open_file(pyarrow.memory_map(path))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} cannot be read as {kind[1:]}: {error}") from error
    batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
    return list(reader.schema.names), batches


def _arrow_columns(batch: Any) -> dict[str, Array]:
    import pyarrow.types as types

    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        numeric = types.is_floating(column.type) or types.is_integer(column.type)
        if numeric or types.is_boolean(column.type):
            columns[name] = np.asarray(column.to_pandas(), dtype=np.float64)
        else:
            columns[name] = np.array([str(cell) for cell in column.to_pylist()], dtype=object)
    return columns


def _read_libsvm(path: str) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as libsvm text: {error}") from error
    return Table(path, {"y": y}, X)


def _read_npz(path: str) -> Table:
    from scipy import sparse

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a .npz file: {error}") from error
    if {"data", "indices", "indptr", "shape"} <= set(arrays):
        X: Any = sparse.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"])
        )
        X.check_format(full_check=True)
    elif "X" in arrays and arrays["X"].ndim == 2:
        X = arrays["X"]
    else:
        raise ValueError(
            f"{path} has {_listed(sorted(arrays))}; expected X with two dimensions, or data, "
            "indices, indptr and shape of a CSR matrix"
        )
    if "names" in arrays and not sparse.issparse(X):
        names = [str(name) for name in arrays["names"]]
        if len(names) != X.shape[1]:
            raise ValueError(f"{path} has {len(names)} names for {X.shape[1]} columns")
        columns = {name: X[:, j] for j, name in enumerate(names)}
        return Table(path, columns | ({"y": arrays["y"]} if "y" in arrays else {}))
    return Table(path, {"y": arrays["y"]} if "y" in arrays else {}, X)


def _first_text(values: Array) -> int:
    for k, value in enumerate(values):
        try:
            float(value)
        except ValueError:
            return k
    return 0


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:8])
    return f"columns: {shown}{', ...' if len(names) > 8 else ''}" if names else "no named columns"


# ---------------------------------------------------------------- structures from files


def read_edges(path: str, columns: Collection[str]) -> list[tuple[str, str, float]]:
    """Read edges between columns: one ``name,name[,weight]`` a line."""
    edges = []
    for number, row in _below_heading(path, columns, slice(0, 2)):
        if len(row) not in (2, 3):
            raise ValueError(
                f"line {number} of {path} has {len(row)} fields, expected name,name or "
                "name,name,weight"
            )
        try:
            weight = float(row[2]) if len(row) == 3 else 1.0
        except ValueError:
            raise ValueError(
                f"line {number} of {path} has the weight {row[2]!r}, expected a number"
            ) from None
        edges.append((row[0], row[1], weight))
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
    lines = list(_lines(path))
    known = [[name in columns for name in row[named]] for _, row in lines]
    if len(lines) < 2 or any(known[0]) or not all(map(all, known[1:])):
        return lines
    print(f"Line {lines[0][0]} of {path} is taken as a heading.", file=sys.stderr)
    return lines[1:]


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} is not a file; name a file of edges or groups")
    with open(path, encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if row:
                yield number, [cell.strip() for cell in row if cell.strip()]


def write_table(out: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write CSV to a file, whole or absent, or to standard output."""
    if out == "-":
        _write_rows(sys.stdout, header, rows)
        return
    try:
        with (
            replacing(out) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            _write_rows(file, header, rows)
    except OSError as error:
        raise OSError(f"cannot write {out} ({error.strerror or error}); name another") from error


def _write_rows(file: TextIO, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
