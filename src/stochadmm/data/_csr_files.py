"""The three arrays of a CSR matrix in ``.npy`` files as a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.immutable import field_values
from ..base.protocols import Array
from ._files import Npy
from ._origins import Origins
from ._protocol import Block, DataError, Shard, cuts, no_targets, width


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
        """Number of rows."""
        return self.indptr.shape[0] - 1

    @property
    def n_bytes(self) -> int:
        """Bytes of the entries and their columns."""
        return self.data.shape[0] * (self.data.row_bytes + self.indices.row_bytes)

    @property
    def n_outputs(self) -> int | None:
        """Targets of a row, None for one number."""
        return 0 if self.y is None else width(self.y.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        return np.dtype(self.data.dtype)

    @property
    def shards(self) -> Sequence[Shard]:
        """Row ranges of about the same number of entries."""
        entry = self.data.row_bytes + self.indices.row_bytes
        mean = max(1, self.data.shape[0] * entry // self.n_rows)
        origins = self.origins
        where = origins.where if origins is not None and origins.copied else ""
        return [
            CSRShard(
                a,
                b - a,
                self.n_columns,
                self.data,
                self.indices,
                self.indptr,
                self.y,
                self.weight,
                self.offset,
                where,
            )
            for a, b in cuts(self.n_rows, mean)
        ]

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files."""
        if self.origins is not None:
            return self.origins.fingerprint
        parts = (self.data, self.indices, self.indptr, self.y, self.weight, self.offset)
        return Origins.of([part.path for part in parts if part is not None]).fingerprint
