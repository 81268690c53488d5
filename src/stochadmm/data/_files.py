"""``.npy`` files and raw CSR triples as a source, and the spill that makes them from any other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from ..base.immutable import field_values
from ..base.protocols import Array
from ..base.validation import is_sparse
from ._arrays import wide
from ._protocol import Block, Shard, Source, cuts, joined, rows_per_block, width

SPILL_BYTES = 1 << 24
AHEAD = 1 << 17
"""Bytes that one call announces: of more, systems fetch only the beginning."""


@dataclass(frozen=True)
class Npy:
    """A ``.npy`` file of one or two dimensions in C order: where its numbers begin."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    start: int

    @classmethod
    def of(cls, path: str | Path) -> Npy:
        """Read the header of a file."""
        try:
            with open(path, "rb") as file:
                version = npy.read_magic(file)
                read = (
                    npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                )
                shape, fortran, dtype = read(file)
                start = file.tell()
        except FileNotFoundError:
            raise
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path} is not a .npy file ({error})") from error
        if fortran and len(shape) > 1:
            raise ValueError(f"{path} is in column-major order; save np.ascontiguousarray(X)")
        if dtype.hasobject or dtype.kind not in "fiub":
            raise ValueError(f"{path} holds {dtype}, expected numbers")
        held = os.path.getsize(path) - start
        if held < int(np.prod(shape, dtype=np.int64)) * dtype.itemsize:
            raise ValueError(
                f"{path} is cut short: shape {shape} is declared, {held} bytes are held"
            )
        return cls(str(path), shape, dtype.str, start)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @classmethod
    def reserve(cls, path: str | Path, shape: tuple[int, ...], dtype: Any) -> Npy:
        """Make a file whose rows are written later, in any order."""
        with open(path, "wb") as file:
            about = {
                "descr": npy.dtype_to_descr(np.dtype(dtype)),
                "fortran_order": False,
                "shape": shape,
            }
            npy.write_array_header_1_0(file, about)
            start = file.tell()
            file.truncate(start + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize)
        return cls(str(path), shape, np.dtype(dtype).str, start)

    def write(self, first: int, rows: Array, passing: bool = False) -> None:
        """Write some rows to their place; ``passing``: they need not stay in the page cache."""
        self.scatter([first], [0, len(rows)], rows)
        if passing and _takes_advice():
            # the system begins to write these to the disk, and forgets those that are there
            end = self.start + (first + len(rows)) * self.row_bytes
            with open(self.path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, end, os.POSIX_FADV_DONTNEED)

    def scatter(self, firsts: Any, edges: Any, rows: Array) -> None:
        """Write runs of rows, run k from ``edges[k]`` to ``edges[k + 1]``, to their places."""
        data = np.ascontiguousarray(rows, dtype=self.dtype)
        whole = memoryview(data.data).cast("B")
        with open(self.path, "r+b", buffering=0) as file:
            for k, first in enumerate(firsts):
                file.seek(self.start + int(first) * self.row_bytes)
                view = whole[int(edges[k]) * self.row_bytes : int(edges[k + 1]) * self.row_bytes]
                while view:
                    view = view[file.write(view) :]

    def announce(self, file: IO[bytes], first: int, stop: int) -> None:
        """Let the system fetch rows that will be read next, while others are worked on."""
        if not _takes_advice() or first >= stop:
            return
        start, end = (self.start + row * self.row_bytes for row in (first, stop))
        for place in range(start, end, AHEAD):
            size = min(AHEAD, end - place)
            os.posix_fadvise(file.fileno(), place, size, os.POSIX_FADV_WILLNEED)

    def read(self, file: IO[bytes], *ranges: tuple[int, int]) -> Array:
        """Return the rows of some ranges, joined, by plain reads: faster than a memory map."""
        n, size = sum(stop - first for first, stop in ranges), self.row_bytes
        out = np.empty((n, *self.shape[1:]), dtype=self.dtype)
        view = memoryview(out.data).cast("B")
        done = 0
        for first, stop in ranges:
            file.seek(self.start + first * size)
            end = done + (stop - first) * size
            while done < end:
                count = file.readinto(view[done:end])  # type: ignore[attr-defined]
                if not count:
                    raise OSError(f"{self.path} ended early; was it changed while it was read?")
                done += count
        return out


@dataclass(frozen=True)
class NpyShard:
    """Rows of ``.npy`` files."""

    first: int
    n_rows: int
    X: Npy
    y: Npy
    weight: Npy | None = None
    offset: Npy | None = None

    def part(self, first: int, n_rows: int) -> NpyShard:
        """Return some of its rows, by their numbers in the source."""
        return replace(self, first=first, n_rows=n_rows)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield rows as they are read."""
        step, stop = rows_per_block(max_bytes, self.X.row_bytes), self.first + self.n_rows
        starts = range(self.first, stop, step)
        yield from self._read([[(start, min(start + step, stop))] for start in starts])

    def pieces(self, ranges: Sequence[tuple[int, int]], max_bytes: int) -> Iterator[Block]:
        """Yield the rows of many short ranges, some of them joined to a block at a time."""
        yield from self._read(joined(ranges, rows_per_block(max_bytes, self.X.row_bytes)))

    def _read(self, groups: list[list[tuple[int, int]]]) -> Iterator[Block]:
        """Yield the rows of each group of ranges; files are opened once."""
        parts = {"X": self.X, "y": self.y, "weight": self.weight, "offset": self.offset}
        files = {
            name: open(p.path, "rb", buffering=0) for name, p in parts.items() if p is not None
        }
        try:
            for group, following in zip(groups, [*groups[1:], []], strict=True):
                read = {name: parts[name].read(file, *group) for name, file in files.items()}  # type: ignore[union-attr]
                for first, stop in following:
                    self.X.announce(files["X"], first, stop)
                X = read["X"] if read["X"].dtype in (np.float32, np.float64) else wide(read["X"])
                yield Block(group[0][0], X, read["y"], read.get("weight"), read.get("offset"))
        finally:
            for file in files.values():
                file.close()


@dataclass(frozen=True)
class NpyFiles:
    """Rows in one ``.npy`` file, targets, weights and offsets in others.

    Parameters
    ----------
    X, y : Npy
        Files of the rows and the targets.
    weight, offset : Npy, optional
        One number per row.
    names : list of str, optional
        Names of the columns.
    cut : tuple of pairs, optional
        First row and number of rows of each shard; from sizes alone by default.
    """

    on_disk: ClassVar[bool] = True

    X: Npy
    y: Npy
    weight: Npy | None = None
    offset: Npy | None = None
    names: list[str] | None = None
    cut: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if len(self.X.shape) != 2:
            raise ValueError(f"{self.X.path} has shape {self.X.shape}, expected (rows, columns)")
        for part in (self.y, self.weight, self.offset):
            if part is not None and part.shape[:1] != self.X.shape[:1]:
                raise ValueError(
                    f"{part.path} has shape {part.shape}, expected as many rows as the "
                    f"{self.X.shape[0]} of {self.X.path}"
                )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return width(self.y.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored rows."""
        return np.dtype(self.X.dtype)

    @property
    def shards(self) -> Sequence[Shard]:
        """Row ranges."""
        cut = self.cut
        if cut is None:
            cut = tuple((a, b - a) for a, b in cuts(self.n_rows, self.X.row_bytes))
        return [NpyShard(first, n, self.X, self.y, self.weight, self.offset) for first, n in cut]

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files."""
        return stamps(
            [p.path for p in (self.X, self.y, self.weight, self.offset) if p is not None]
        )


@dataclass(frozen=True)
class CSRShard:
    """Rows of raw CSR files."""

    first: int
    n_rows: int
    n_columns: int
    data: Npy
    indices: Npy
    indptr: Npy
    y: Npy
    weight: Npy | None = None
    offset: Npy | None = None

    def part(self, first: int, n_rows: int) -> CSRShard:
        """Return some of its rows, by their numbers in the source."""
        return replace(self, first=first, n_rows=n_rows)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield rows as they are read."""
        entry = self.data.row_bytes + self.indices.row_bytes
        names = ("data", "indices", "indptr", "y", "weight", "offset")
        held = field_values(self)
        parts = {name: held[name] for name in names if held[name] is not None}
        files = {name: open(part.path, "rb", buffering=0) for name, part in parts.items()}

        def read(name: str, first: int, stop: int) -> Array:
            return np.asarray(parts[name].read(files[name], (first, stop)))

        try:
            indptr = read("indptr", self.first, self.first + self.n_rows + 1)
            start = 0
            while start < self.n_rows:
                most = indptr[start] + max(1, max_bytes // entry)
                end = max(int(np.searchsorted(indptr, most, side="right")) - 1, start + 1)
                low, high = int(indptr[start]), int(indptr[end])
                X = sparse.csr_array(
                    (
                        read("data", low, high),
                        read("indices", low, high),
                        indptr[start : end + 1] - low,
                    ),
                    shape=(end - start, self.n_columns),
                )
                a, b = self.first + start, self.first + end
                more = {name: read(name, a, b) for name in ("weight", "offset") if name in parts}
                yield Block(a, X, read("y", a, b), **more)
                start = end
        finally:
            for file in files.values():
                file.close()


@dataclass(frozen=True)
class CSRFiles:
    """The three arrays of a CSR matrix in ``.npy`` files, and targets beside them.

    Parameters
    ----------
    data, indices, indptr : Npy
        The arrays of the matrix.
    y : Npy
        Targets.
    n_columns : int
        Columns of the matrix.
    weight, offset : Npy, optional
        One number per row.
    names : list of str, optional
        Names of the columns.
    """

    data: Npy
    indices: Npy
    indptr: Npy
    y: Npy
    n_columns: int
    weight: Npy | None = None
    offset: Npy | None = None
    names: list[str] | None = None

    def __post_init__(self) -> None:
        if self.indptr.shape[0] != self.y.shape[0] + 1:
            raise ValueError(
                f"{self.indptr.path} has {self.indptr.shape[0]} entries, expected one more than "
                f"the {self.y.shape[0]} rows of {self.y.path}"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.y.shape[0]

    @property
    def n_bytes(self) -> int:
        """Bytes of the entries and their columns."""
        return self.data.shape[0] * (self.data.row_bytes + self.indices.row_bytes)

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return width(self.y.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return np.dtype(self.data.dtype)

    @property
    def shards(self) -> Sequence[Shard]:
        """Row ranges of about the same number of entries."""
        entry = self.data.row_bytes + self.indices.row_bytes
        mean = max(1, self.data.shape[0] * entry // self.n_rows)
        return [
            CSRShard(a, b - a, self.n_columns, self.data, self.indices, self.indptr, self.y,
                     self.weight, self.offset)
            for a, b in cuts(self.n_rows, mean)
        ]  # fmt: skip

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files."""
        parts = (self.data, self.indices, self.indptr, self.y, self.weight, self.offset)
        return stamps([part.path for part in parts if part is not None])


def _takes_advice() -> bool:
    """Say whether the system wants to know what will be read, and what will not."""
    return hasattr(os, "posix_fadvise")


def stamps(paths: Sequence[str]) -> str:
    """Return a text that changes when a file does: name, size, time of the last change."""
    found = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths]
    return blake2b(json.dumps(found).encode(), digest_size=16).hexdigest()


def spill(source: Source, folder: str | Path) -> Source:
    """Write the rows of a source to files that read fast, and return these as a source.

    Dense rows become one row-major ``.npy`` file, sparse ones the three arrays of CSR; targets,
    weights and offsets a file each. It takes one read of the source.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, _Writer] = {}
    entries = 0
    for shard in source.shards:
        for block in shard.blocks(SPILL_BYTES):
            arrays: dict[str, Any] = {"y": block.y, "weight": block.weight, "offset": block.offset}
            if is_sparse(block.X):
                arrays |= {"data": block.X.data, "indices": block.X.indices.astype(np.int32)}
                starts = block.X.indptr.astype(np.int64) + entries
                arrays["indptr"] = (
                    starts if not entries and "indptr" not in writers else starts[1:]
                )
                entries += int(block.X.nnz)
            else:
                arrays["X"] = np.ascontiguousarray(block.X)
            for name, array in arrays.items():
                if array is not None:
                    if name not in writers:
                        writers[name] = _Writer(folder / f"{name}.npy", array)
                    writers[name].add(array)
    made = {name: writer.close() for name, writer in writers.items()}
    if "X" in made:
        weight, offset = (made.get(name) for name in ("weight", "offset"))
        return NpyFiles(made["X"], made["y"], weight, offset, source.names)
    return CSRFiles(**made, n_columns=source.n_columns, names=source.names)


class _Writer:
    """Appends to a ``.npy`` file whose length is written at the end."""

    def __init__(self, path: Path, like: Array) -> None:
        self.path, self.dtype, self.shape, self.n = path, like.dtype, like.shape[1:], 0
        self.file = open(path, "wb")
        self._header()

    def _header(self) -> None:
        # a number of rows with many digits, so that the header keeps its length
        spec = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False,
                "shape": (self.n, *self.shape)}  # fmt: skip
        text = repr(spec).ljust(240)
        body = text.encode("latin1") + b"\n"
        self.file.write(npy.magic(1, 0) + len(body).to_bytes(2, "little") + body)

    def add(self, array: Array) -> None:
        if array.shape[1:] != self.shape:
            raise ValueError(f"a block has shape {array.shape}, expected (..., {self.shape})")
        self.file.write(np.ascontiguousarray(array, dtype=self.dtype).data)
        self.n += len(array)

    def close(self) -> Npy:
        self.file.seek(0)
        self._header()
        self.file.close()
        return Npy.of(self.path)
