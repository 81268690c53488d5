"""``.npy`` files as a source."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.lib import format as npy

from ..base.protocols import Array
from ._arrays import wide
from ._origins import Origins
from ._protocol import (
    Block,
    DataError,
    Shard,
    cuts,
    decoding,
    joined,
    no_targets,
    rows_per_block,
    width,
)

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
        """Number of rows."""
        return self.X.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.X.shape[1]

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return 0 if self.y is None else width(self.y.shape)

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
        if self.origins is not None:
            return self.origins.fingerprint
        parts = (self.X, self.y, self.weight, self.offset)
        return Origins.of([part.path for part in parts if part is not None]).fingerprint


def _takes_advice() -> bool:
    """Say whether the system wants to know what will be read, and what will not."""
    return hasattr(os, "posix_fadvise")
