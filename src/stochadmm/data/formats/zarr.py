"""Zarr groups in folders: ``X`` of rows and columns, targets beside it, decoded chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._protocol import (
    Block,
    DataError,
    Described,
    Origins,
    Source,
    cuts,
    decoding,
    no_targets,
    rows_per_block,
    width,
)
from . import Format, Request


@dataclass(frozen=True)
class ZarrShard:
    """Rows of a group, whole chunks of ``X``."""

    first: int
    n_rows: int
    path: str
    dtype: str
    members: tuple[str | None, ...]
    """Names of targets, weights and offsets."""

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows, every chunk of them decoded once."""
        with decoding(self.path, "a Zarr group"):
            group = _group(self.path)
            X, names = group["X"], self.members
            others = [None if name is None else group[name] for name in names]
            chunk = X.chunks[0]
            step = rows_per_block(max_bytes, X.shape[1] * np.dtype(self.dtype).itemsize)
            stop = self.first + self.n_rows
            for start in range(self.first, stop, chunk):
                end = min(start + chunk, stop)
                rows = np.ascontiguousarray(X[start:end], dtype=self.dtype)
                y, *more = (None if part is None else part[start:end] for part in others)
                y = no_targets(len(rows)) if y is None else y
                for a in range(0, len(rows), step):
                    b = slice(a, a + step)
                    weight, offset = (None if part is None else part[b] for part in more)
                    yield Block(start + a, rows[b], y[b], weight, offset, self.path)


def _group(path: str) -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError("reading Zarr needs zarr; pip install 'stochadmm[zarr]'") from None
    return zarr.open_group(path, mode="r")


def _open(asked: Request) -> Source:
    asked.refuse("the columns of Zarr arrays have no names", "columns")
    if len(asked.paths) > 1:
        raise ValueError("several Zarr groups cannot be joined; pass one")
    path, usual = asked.paths[0], "y" if asked.needs_target else None
    members = (usual if asked.target is None else asked.target, asked.weight, asked.offset)
    with decoding(path, "a Zarr group"):
        group = _group(path)
        found = {name: group.get(name) for name in ("X", *members) if name is not None}
    for name, array in found.items():
        if array is None:
            raise ValueError(f"{path} has no array {name!r}; it has {', '.join(group)}")
        numbers, n = array.dtype.kind in "fiub", found["X"].shape[0]
        if not numbers or array.shape[:1] != (n,):
            raise ValueError(
                f"{name} in {path} has {array.dtype} of shape {array.shape}, expected {n} numbers "
                "or rows of numbers"
            )
    shape = found["X"].shape
    if len(shape) != 2 or not all(shape):
        raise DataError(f"X in {path} has shape {shape}, expected (rows, columns)")
    itemsize, kind = found["X"].dtype.itemsize, found["X"].dtype.kind
    dtype = np.dtype(np.float32 if kind == "f" and itemsize <= 4 else np.float64)
    # shards are made of whole chunks, that none is decoded twice
    chunk = found["X"].chunks[0]
    ranges = cuts(-(-shape[0] // chunk), chunk * shape[1] * dtype.itemsize)
    shards = [
        ZarrShard(a * chunk, min(b * chunk, shape[0]) - a * chunk, path, dtype.str, members)
        for a, b in ranges
    ]
    outputs = 0 if members[0] is None else width(found[members[0]].shape)
    origins = Origins.of(sorted(str(file) for file in Path(path).rglob("*") if file.is_file()))
    return Described(
        shards,
        shape[1],
        dtype,
        origins.fingerprint,
        n_outputs=outputs,
        origins=origins,
        decodes=True,
        scratch=None if asked.scratch is None else str(asked.scratch),
    )


FORMAT = Format(frozenset({".zarr"}), _open)
