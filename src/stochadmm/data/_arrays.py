"""Arrays, memory maps and CSR matrices as a source: slices are taken as blocks are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.fingerprint import fingerprint
from ..base.protocols import Array
from ..base.validation import is_sparse
from ._protocol import Block, DataError, Shard, check_csr, cuts, rows_per_block, width


@dataclass(frozen=True)
class ArrayShard:
    """Some rows of arrays."""

    first: int
    n_rows: int
    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: Any = field(default=None, repr=False)
    offset: Any = field(default=None, repr=False)

    def part(self, first: int, n_rows: int) -> ArrayShard:
        """Return some of its rows, by their numbers in the source."""
        return replace(self, first=first, n_rows=n_rows)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield slices; those of a memory map are read now."""
        step = rows_per_block(max_bytes, bytes_per_row(self.X))
        stop = self.first + self.n_rows
        for start in range(self.first, stop, step):
            rows = slice(start, min(start + step, stop))
            X = self.X[rows]
            if not sparse.issparse(X):
                X = np.asarray(X) if X.dtype.kind == "f" and X.itemsize > 2 else wide(X)
            yield Block(
                start,
                X,
                np.asarray(self.y[rows]),
                _part(self.weight, rows),
                _part(self.offset, rows),
            )


@dataclass(frozen=True, eq=False)
class ArraySource:
    """Arrays or memory maps of the same length.

    Parameters
    ----------
    X : array, memory map or CSR matrix of shape (n, d)
        Rows; float16 and integers are read as float32 and float64, block by block.
    y : array of shape (n,) or (n, C)
        Targets.
    weight, offset : array, optional
        One per row.
    names : list of str, optional
        Names of the columns.
    """

    X: Any
    y: Any
    weight: Any = None
    offset: Any = None
    names: list[str] | None = None

    def __post_init__(self) -> None:
        if is_sparse(self.X) and self.X.format != "csr":
            raise ValueError(f"X is {self.X.format}, expected CSR; convert it with X.tocsr()")
        if self.X.ndim != 2:
            raise ValueError(f"X has {self.X.ndim} dimension(s), expected 2 (rows, columns)")
        if not all(self.X.shape):
            raise DataError(f"X has shape {self.X.shape}: no numbers to fit")
        if is_sparse(self.X):
            check_csr(self.X, "X")
        arrays = {"y": self.y, "weight": self.weight, "offset": self.offset}
        for name, array in arrays.items():
            rows = np.shape(array)[:1]
            if array is not None and rows != self.X.shape[:1]:
                given = f"has {rows[0]} rows" if rows else f"is {array}"
                raise ValueError(f"{name} {given}, X has {self.X.shape[0]}; pass one per row")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows."""
        return bytes_per_row(self.X) * self.n_rows

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return width(np.shape(self.y))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored rows."""
        kind: np.dtype[Any] = self.X.dtype
        return kind

    @property
    def shards(self) -> Sequence[Shard]:
        """Row ranges."""
        return [
            ArrayShard(a, b - a, self.X, self.y, self.weight, self.offset)
            for a, b in cuts(self.n_rows, bytes_per_row(self.X))
        ]

    @property
    def fingerprint(self) -> str:
        """By content; memory maps by name, size and time of their files."""
        parts = (self.X, self.y, self.weight, self.offset)
        return fingerprint(*(_mapped(part) or part for part in parts))


def bytes_per_row(X: Any) -> int:
    """Return the mean size of a row."""
    if is_sparse(X):
        size = X.data.itemsize + X.indices.itemsize
        return max(1, int(X.nnz * size) // max(1, int(X.shape[0])))
    return int(X.shape[1] * np.dtype(X.dtype).itemsize)


def _mapped(array: Any) -> str | None:
    """Return what stands for the content of a memory map."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    about = os.stat(array.filename)
    return f"{array.filename} {about.st_size} {about.st_mtime_ns} {array.shape} {array.offset}"


def wide(X: Array) -> Array:
    """Return float16 as float32, whole numbers as float64."""
    return np.asarray(X, dtype=np.float32 if X.dtype == np.float16 else np.float64)


def _part(array: Any, rows: slice) -> Array | None:
    return None if array is None else np.asarray(array[rows])
