"""Rows in ``.npy`` files as a source: dense, or the three arrays of a CSR matrix."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from ..base.immutable import field_values
from ..base.protocols import Array
from ._protocol import (
    Block,
    DataError,
    Origins,
    Shard,
    cuts,
    decoding,
    joined,
    no_targets,
    rows_per_block,
    width,
)
from .rows import wide

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
        with decoding(path, "a .npy file"), open(path, "rb") as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(file)
            start = file.tell()
        if fortran and len(shape) > 1:
            raise ValueError(f"{path} is in column-major order; save np.ascontiguousarray(X)")
        if dtype.hasobject or dtype.kind not in "fiub":
            raise ValueError(f"{path} holds {dtype}, expected numbers")
        held = os.path.getsize(path) - start
        if held < math.prod(shape) * dtype.itemsize:
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
    y: Npy | None
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
                more = read.get("weight"), read.get("offset")
                y = read["y"] if "y" in read else no_targets(len(X))
                yield Block(group[0][0], X, y, *more, self.X.path)
        finally:
            for file in files.values():
                file.close()


@dataclass(frozen=True)
class NpyFiles:
    """Rows in one ``.npy`` file, targets, weights and offsets in others.

    Parameters
    ----------
    X, y : Npy
        Files of the rows and the targets; None for rows without targets.
    weight, offset : Npy, optional
        One number per row.
    names : list of str, optional
        Names of the columns.
    cut : tuple of pairs, optional
        First row and number of rows of each shard; from sizes alone by default.
    origins : Origins, optional
        The files as they were when they were opened; None for files of our own.
    """

    on_disk: ClassVar[bool] = True

    X: Npy
    y: Npy | None
    weight: Npy | None = None
    offset: Npy | None = None
    names: list[str] | None = None
    cut: tuple[tuple[int, int], ...] | None = None
    origins: Origins | None = None

    def __post_init__(self) -> None:
        if len(self.X.shape) != 2:
            raise ValueError(f"{self.X.path} has shape {self.X.shape}, expected (rows, columns)")
        for part in (self.y, self.weight, self.offset):
            if part is not None and part.shape[:1] != self.X.shape[:1]:
                raise ValueError(
                    f"{part.path} has shape {part.shape}, expected as many rows as the "
                    f"{self.X.shape[0]} of {self.X.path}"
                )
        if not all(self.X.shape):
            raise DataError(f"{self.X.path} has shape {self.X.shape}: no numbers to fit")

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_columns(self) -> int:
        return self.X.shape[1]

    @property
    def n_outputs(self) -> int | None:
        return 0 if self.y is None else width(self.y.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.X.dtype)

    @property
    def shards(self) -> Sequence[Shard]:
        cut = self.cut
        if cut is None:
            cut = tuple((a, b - a) for a, b in cuts(self.n_rows, self.X.row_bytes))
        return [NpyShard(first, n, self.X, self.y, self.weight, self.offset) for first, n in cut]

    @property
    def fingerprint(self) -> str:
        return _stamp(self.origins, self.X, self.y, self.weight, self.offset)


def _takes_advice() -> bool:
    """Say whether the system wants to know what will be read, and what will not."""
    return hasattr(os, "posix_fadvise")


@dataclass(frozen=True)
class CSRShard:
    """Rows of raw CSR files."""

    first: int
    n_rows: int
    n_columns: int
    data: Npy
    indices: Npy
    indptr: Npy
    y: Npy | None
    weight: Npy | None = None
    offset: Npy | None = None
    where: str = ""
    """The files that the user named, where these are copies of them."""

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
            indptr = self._edges(read("indptr", self.first, self.first + self.n_rows + 1))
            start = 0
            while start < self.n_rows:
                most = indptr[start] + max(1, max_bytes // entry)
                end = max(int(np.searchsorted(indptr, most, side="right")) - 1, start + 1)
                low, high = int(indptr[start]), int(indptr[end])
                a, b = self.first + start, self.first + end
                which = self._within(read("indices", low, high), a, b)
                entries = (read("data", low, high), which, indptr[start : end + 1] - low)
                X = sparse.csr_array(entries, shape=(end - start, self.n_columns))
                more = {name: read(name, a, b) for name in ("weight", "offset") if name in parts}
                y = read("y", a, b) if "y" in parts else no_targets(b - a)
                yield Block(a, X, y, **more, where=self.where or self.data.path)
                start = end
        finally:
            for file in files.values():
                file.close()

    def _edges(self, indptr: Array) -> Array:
        """Return where rows begin and end among the entries, in order and within them."""
        if indptr[0] < 0 or indptr[-1] > self.data.shape[0] or (np.diff(indptr) < 0).any():
            raise DataError(
                f"{self.indptr.path}, rows {self.first} to {self.first + self.n_rows - 1}: where "
                f"rows begin is not in order within the {self.data.shape[0]} entries; write the "
                "arrays of a CSR matrix"
            )
        return indptr

    def _within(self, indices: Array, first: int, stop: int) -> Array:
        """Return the columns of entries; compiled loops trust them, so they are looked at."""
        # below zero is very large without a sign: one look for both ends
        if indices.size and indices.view(f"u{indices.itemsize}").max() >= self.n_columns:
            raise DataError(
                f"{self.indices.path}, rows {first} to {stop - 1}: a column index is outside "
                f"0..{self.n_columns - 1}"
            )
        return indices


@dataclass(frozen=True)
class CSRFiles:
    """The three arrays of a CSR matrix in ``.npy`` files, and targets beside them.

    Parameters
    ----------
    data, indices, indptr : Npy
        The arrays of the matrix.
    y : Npy
        Targets; None for rows without.
    n_columns : int
        Columns of the matrix.
    weight, offset : Npy, optional
        One number per row.
    names : list of str, optional
        Names of the columns.
    origins : Origins, optional
        The user's files as they were when they were opened; None for files of our own.
    """

    data: Npy
    indices: Npy
    indptr: Npy
    y: Npy | None
    n_columns: int
    weight: Npy | None = None
    offset: Npy | None = None
    names: list[str] | None = None
    origins: Origins | None = None

    def __post_init__(self) -> None:
        if self.n_rows < 1:
            raise DataError(f"{self.indptr.path} has no rows")
        for part in (self.indices, self.indptr):
            if np.dtype(part.dtype).kind not in "iu":
                raise DataError(f"{part.path} holds {part.dtype}, expected whole numbers")
        if self.indices.shape != self.data.shape:
            raise DataError(
                f"{self.indices.path} has shape {self.indices.shape}, expected "
                f"{self.data.shape} as {self.data.path}"
            )
        for beside in (self.y, self.weight, self.offset):
            if beside is not None and beside.shape[0] != self.n_rows:
                raise ValueError(
                    f"{self.indptr.path} has {self.indptr.shape[0]} entries, expected one more "
                    f"than the {beside.shape[0]} rows of {beside.path}"
                )

    @property
    def n_rows(self) -> int:
        return self.indptr.shape[0] - 1

    @property
    def n_bytes(self) -> int:
        return self.data.shape[0] * (self.data.row_bytes + self.indices.row_bytes)

    @property
    def n_outputs(self) -> int | None:
        return 0 if self.y is None else width(self.y.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data.dtype)

    @property
    def shards(self) -> Sequence[Shard]:
        entry = self.data.row_bytes + self.indices.row_bytes
        mean = max(1, self.data.shape[0] * entry // self.n_rows)
        copied = self.origins is not None and self.origins.copied
        where = self.origins.where if self.origins is not None and copied else ""
        parts = (self.data, self.indices, self.indptr, self.y, self.weight, self.offset, where)
        return [CSRShard(a, b - a, self.n_columns, *parts) for a, b in cuts(self.n_rows, mean)]

    @property
    def fingerprint(self) -> str:
        parts = (self.data, self.indices, self.indptr, self.y, self.weight, self.offset)
        return _stamp(self.origins, *parts)


def _stamp(origins: Origins | None, *files: Npy | None) -> str:
    """Return what tells the files of a source from others: names, sizes and times."""
    if origins is None:
        origins = Origins.of([file.path for file in files if file is not None])
    return origins.fingerprint
