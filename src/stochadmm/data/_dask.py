"""Dask arrays and data frames as a source: a partition is computed when a pass reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import has_members
from ..base.protocols import Array
from ._protocol import Block, DataError, Described, Shard, check_csr, rows_per_block, width
from .rows import bytes_per_row, wide


@dataclass(frozen=True)
class DaskShard:
    """One partition: a description of how to compute it, on whichever worker asks."""

    first: int
    n_rows: int
    parts: tuple[Any, ...] = field(repr=False)
    """Delayed X, y, weight and offset; None where absent."""

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Compute the partition and yield it in blocks."""
        X, *others = _dask().compute(*self.parts, scheduler="synchronous")
        X, others = _rows(X, self.first), [_numbers(part) for part in others]
        for part in (X, *others):
            if part is not None and part.shape[0] != self.n_rows:
                raise DataError(
                    f"a partition that begins at row {self.first} has {part.shape[0]} rows in one "
                    f"collection and {self.n_rows} in another; partition them alike"
                )
        step = rows_per_block(max_bytes, bytes_per_row(X))
        for start in range(0, self.n_rows, step):
            rows = slice(start, start + step)
            y, weight, offset = (None if part is None else part[rows] for part in others)
            assert y is not None
            yield Block(self.first + start, X[rows], y, weight, offset)


def _numbers(part: Any) -> Array | None:
    """Return an array at an even address: what a message left elsewhere rounds differently."""
    return None if part is None else np.require(part, requirements="A")


def _rows(part: Any, first: int) -> Any:
    """Return the X of a partition as floats, dense or CSR."""
    is_sparse: bool = sparse.issparse(part)
    X: Any = part.tocsr() if is_sparse else _numbers(part)
    if is_sparse:
        check_csr(X, f"the partition that begins at row {first}")
    if X.dtype in (np.float32, np.float64):
        return X
    if X.dtype.kind not in "fiub":
        raise DataError(
            f"the partition that begins at row {first} holds {X.dtype}, expected numbers; encode "
            "its texts first, e.g. with dask.dataframe.get_dummies"
        )
    return X.astype(np.float64) if is_sparse else wide(X)


def dask_source(X: Any, y: Any, weight: Any = None, offset: Any = None) -> Described:
    """Describe collections that are cut alike; only the numbers of rows are computed."""
    names = [str(name) for name in X.columns] if is_frame(X) else None
    given = {"X": X, "y": y, "weight": weight, "offset": offset}
    columns = [None if p is None else _partitions(p, name) for name, p in given.items()]
    count = len(columns[0] or ())
    for name, parts in zip(("y", "weight", "offset"), columns[1:], strict=True):
        if parts is not None and len(parts) != count:
            raise ValueError(
                f"{name} has {len(parts)} partitions and X has {count}; rechunk them alike"
            )
    lengths = _lengths(y)
    shards: list[Shard] = []
    first = 0
    for k, length in enumerate(lengths):
        if length:
            own = tuple(None if parts is None else parts[k] for parts in columns)
            shards.append(DaskShard(first, length, own))
            first += length
    if not shards:
        raise ValueError("the Dask collection has no rows")
    token = _dask().base.tokenize(X, y, weight, offset)
    columns_of_X = len(names) if names is not None else int(X.shape[1])
    kind = np.dtype(np.float64) if names is not None else np.dtype(X.dtype)
    return Described(shards, columns_of_X, kind, token, names, width(y.shape), on_dask=True)


def is_dask(value: Any) -> bool:
    """Tell Dask arrays and data frames from anything else, without importing Dask."""
    return type(value).__module__.split(".")[0] in {"dask", "dask_expr"}


def is_frame(value: Any) -> bool:
    """Tell Dask data frames from Dask arrays and series."""
    return has_members(value, "columns", "npartitions")


def _partitions(part: Any, name: str) -> list[Any]:
    if not is_dask(part):
        raise TypeError(
            f"X is a Dask collection and {name} a {type(part).__name__}; pass {name} as a Dask "
            "collection that is cut like X"
        )
    if has_members(part, "chunks") and part.ndim == 2 and len(part.chunks[1]) > 1:
        raise ValueError(f"{name} is cut along its columns; rechunk it with X.rechunk({{1: -1}})")
    # optimizing forgets partitions that a cluster holds
    tasks = dict(part.__dask_graph__()).values()
    is_held = any(type(task).__name__ == "Future" for task in tasks)  # by ``persist``
    made = part.to_delayed(optimize_graph=False) if is_held else part.to_delayed()
    found = []
    for each in np.ravel(np.asarray(made, dtype=object)):
        kind: Any = type(each)  # without the tasks of the others it is small to send
        found.append(kind(each.key, dict(each.dask.cull({each.key}))))
    return found


def _lengths(y: Any) -> list[int]:
    if has_members(y, "chunks") and not np.isnan(y.chunks[0]).any():
        return [int(size) for size in y.chunks[0]]
    dask = _dask()
    counts = dask.compute(*(dask.delayed(len)(part) for part in _partitions(y, "y")))
    return [int(size) for size in counts]


def _dask() -> Any:
    import dask

    return dask
