"""Arrays, memory maps and CSR matrices as a source: slices are taken as blocks are asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
from scipy import sparse

from ..base.fingerprint import fingerprint
from ..base.protocols import Array
from ..base.validation import is_sparse, refuse_masked
from ._dask import dask_source, is_dask
from ._protocol import Block, DataError, Shard, Source, check_csr, cuts, rows_per_block, width
from .rows import bytes_per_row, wide


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
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_bytes(self) -> int:
        return bytes_per_row(self.X) * self.n_rows

    @property
    def n_outputs(self) -> int | None:
        return width(np.shape(self.y))

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: np.dtype[Any] = self.X.dtype
        return kind

    @property
    def shards(self) -> Sequence[Shard]:
        return [
            ArrayShard(a, b - a, self.X, self.y, self.weight, self.offset)
            for a, b in cuts(self.n_rows, bytes_per_row(self.X))
        ]

    @property
    def fingerprint(self) -> str:
        parts = (self.X, self.y, self.weight, self.offset)
        return fingerprint(*(_mapped(part) or part for part in parts))


def _mapped(array: Any) -> str | None:
    """Return what stands for the content of a memory map."""
    if not isinstance(array, np.memmap) or array.filename is None:
        return None
    about = os.stat(array.filename)
    return f"{array.filename} {about.st_size} {about.st_mtime_ns} {array.shape} {array.offset}"


def _part(array: Any, rows: slice) -> Array | None:
    return None if array is None else np.asarray(array[rows])


def is_source(X: object) -> TypeGuard[Source]:
    """Say whether rows are given as a source.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.data import ArraySource, is_source
    >>> is_source(ArraySource(np.eye(2), np.ones(2))), is_source(np.eye(2))
    (True, False)
    """
    return isinstance(X, Source)


def as_source(
    X: Any, y: Any = None, weight: Any = None, offset: Any = None, largest: float = math.inf
) -> Source | None:
    """Return a source, Dask collections or a large memory map as a source; None for other rows.

    Parameters
    ----------
    X, y, weight, offset : Any
        As the user gave them; a source has the last three itself.
    largest : float, default=inf
        Bytes up to which a memory map is worked on in memory.
    """
    if is_dask(X):
        if y is None:
            raise ValueError("y is missing; pass the targets as a Dask collection cut like X")
        return dask_source(X, y, weight, offset)
    if isinstance(X, np.memmap) and X.nbytes > largest and np.ndim(y) == 1:
        for name, part in (("y", y), ("sample_weight", weight), ("offset", offset)):
            refuse_masked(part, name)
        # a list or a column of a frame is an array then; a memory map stays one
        parts = (None if part is None else np.asanyarray(part) for part in (y, weight, offset))
        return ArraySource(X, *parts)
    if not is_source(X):
        return None
    for name, value in (("y", y), ("sample_weight", weight), ("offset", offset)):
        if value is not None:
            raise ValueError(
                f"{name} is given beside a source, which has its own; name it in stochadmm.open"
            )
    return X
