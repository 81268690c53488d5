"""``.npz`` archives, one or a folder of them: dense or CSR rows with their targets.

An archive is the unit of reading, compressed or not: a pass holds one at a time.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from scipy import sparse

from ...base.files import refuse_false_sizes
from ...base.fingerprint import fingerprint
from .._protocol import (
    Block,
    DataError,
    Described,
    Origins,
    Source,
    decoding,
    no_targets,
    rows_per_block,
    width,
)
from . import Format, Request

CSR_PARTS = ("data", "indices", "indptr", "shape")
"""Members of a CSR matrix, named as ``scipy.sparse.save_npz`` does."""


@dataclass(frozen=True)
class Members:
    """Names of the arrays beside the rows."""

    y: str | None = "y"
    weight: str | None = None
    offset: str | None = None

    @property
    def all(self) -> list[str]:
        """Return those that every archive must hold."""
        return [name for name in (self.y, self.weight, self.offset) if name is not None]


@dataclass(frozen=True)
class NpzShard:
    """One archive."""

    first: int
    n_rows: int
    path: str
    members: Members
    dtype: str

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows of the archive, which is read as a whole."""
        with (
            decoding(self.path, "a .npz archive"),
            np.load(self.path, allow_pickle=False) as archive,
        ):
            X = _rows(archive, self.path, np.dtype(self.dtype))
            read = {name: archive[name] for name in self.members.all}
        if X.shape[0] != self.n_rows:
            raise DataError(f"{self.path} has changed while it was read; open it again")
        bytes_per_row = -(-X.data.nbytes // max(self.n_rows, 1))
        step, m = rows_per_block(max_bytes, bytes_per_row), self.members
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            y, weight, offset = (
                None if name is None else read[name][rows] for name in (m.y, m.weight, m.offset)
            )
            y = no_targets(rows.stop - rows.start) if y is None else y
            yield Block(self.first + start, X[rows], y, weight, offset, self.path)


def _open(asked: Request) -> Source:
    asked.refuse("the columns of .npz archives have no names", "columns")
    usual = "y" if asked.needs_target else None
    members = Members(usual if asked.target is None else asked.target, asked.weight, asked.offset)
    for name in members.all:
        if type(name) is not str:
            raise ValueError(f"{name!r} must be the name of an array in {asked.paths[0]}")
    origins = Origins.of(asked.paths)
    found = [(path, _header(path, members)) for path in asked.paths]
    found = [(path, header) for path, header in found if header.n_rows]  # parts may be empty
    if not found:
        raise DataError(f"{asked.paths[0]} has no rows")
    headers = [header for _, header in found]
    if len({header.in_csr for header in headers}) > 1:
        raise ValueError("some archives hold dense rows, some CSR; save all in the same way")
    widths = {header.n_columns for header in headers}
    if len(widths) > 1:
        raise ValueError(f"the archives have different numbers of columns: {sorted(widths)}")
    firsts = accumulate((header.n_rows for header in headers), initial=0)
    dtype = np.result_type(*(header.dtype for header in headers))
    shards = [
        NpzShard(first, header.n_rows, path, members, dtype.str)
        for first, (path, header) in zip(firsts, found, strict=False)
    ]
    outputs = {header.n_outputs for header in headers}
    if len(outputs) > 1:
        raise ValueError(f"the archives have different numbers of targets: {outputs}")
    stamp = fingerprint(origins.fingerprint, [members])
    return Described(shards, widths.pop(), dtype, stamp, n_outputs=outputs.pop(), origins=origins)


class Header(NamedTuple):
    """What is known of an archive before its rows are read."""

    n_rows: int
    n_columns: int
    dtype: np.dtype[Any]
    in_csr: bool
    n_outputs: int | None


def _header(path: str, members: Members) -> Header:
    with decoding(path, "a .npz archive"):
        refuse_false_sizes(path)
        with zipfile.ZipFile(path) as archive:
            held = {name.removesuffix(".npy") for name in archive.namelist()}
            in_csr = "X" not in held
            needed = [*(CSR_PARTS if in_csr else ("X",)), *members.all]
            missing = [name for name in needed if name not in held]
            if missing:
                raise ValueError(
                    f"{path} has no {', '.join(missing)}; save arrays X (or those of a CSR "
                    f"matrix: {', '.join(CSR_PARTS)}) and {', '.join(members.all)}"
                )
            shape, dtype = _declared(archive, path, "data" if in_csr else "X")
            lengths = {name: _declared(archive, path, name)[0] for name in members.all}
        if in_csr:
            with np.load(path, allow_pickle=False) as arrays:
                shape = tuple(int(n) for n in arrays["shape"])
                # compressed columns have members of the same names
                stored = arrays["format"].item() if "format" in held else b"csr"
    if in_csr and stored not in (b"csr", "csr"):
        raise ValueError(f"{path} holds a sparse matrix as {stored!r}, expected CSR")
    if len(shape) != 2:
        raise ValueError(f"the rows of {path} have shape {shape}, expected (rows, columns)")
    for name, length in lengths.items():
        if length[:1] != shape[:1]:
            raise ValueError(f"{path} has {shape[0]} rows, but {name} has shape {length}")
    kept = np.float32 if dtype in (np.float16, np.float32) else np.float64
    outputs = 0 if members.y is None else width(lengths[members.y])
    return Header(shape[0], shape[1], np.dtype(kept), in_csr, outputs)


def _declared(
    archive: zipfile.ZipFile, path: str, name: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with archive.open(f"{name}.npy") as file:
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.kind not in "fiub":
        raise ValueError(f"{name} in {path} holds {dtype}, expected numbers")
    return shape, dtype


def _rows(archive: Any, path: str, dtype: np.dtype[Any]) -> Any:
    if "X" in archive:
        return np.ascontiguousarray(archive["X"], dtype=dtype)
    data, indices, indptr, shape = (archive[name] for name in CSR_PARTS)
    try:
        X = sparse.csr_array((data.astype(dtype), indices, indptr), shape=tuple(shape))
        X.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"{path} does not hold a CSR matrix: {error}") from error
    X.sum_duplicates()
    return X


ENDINGS = frozenset({".npz"})
FORMAT = Format(ENDINGS, _open, in_folders=ENDINGS)
