"""Sources made of another source: blocks changed on their way out, or some of the rows only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base.capabilities import fact
from ..base.fingerprint import fingerprint
from ..base.protocols import Array
from ..base.validation import is_sparse
from ._protocol import Block, Shard, Source, bytes_of, decodes, is_on_dask, n_outputs, part_of


class Change(Protocol):
    """A pure function of a block that travels to other processes; rows stay where they are."""

    def __call__(self, block: Block) -> Block:
        """Return a block of as many rows."""


@dataclass(frozen=True)
class ChangedShard:
    """A shard whose blocks are changed as they are read."""

    shard: Shard
    change: Change

    @property
    def first(self) -> int:
        return self.shard.first

    @property
    def n_rows(self) -> int:
        return self.shard.n_rows

    def part(self, first: int, n_rows: int) -> ChangedShard | None:
        """Return some of its rows, None where its own shard cannot be read in parts."""
        some = part_of(self.shard, first, n_rows)
        return None if some is None else ChangedShard(some, self.change)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the changed blocks."""
        return map(self.change, self.shard.blocks(max_bytes))


@dataclass(frozen=True, eq=False)
class View:
    """What a view of a source has from it."""

    source: Source

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def n_outputs(self) -> int | None:
        return n_outputs(self.source)

    @property
    def n_bytes(self) -> int:
        return bytes_of(self.source)

    @property
    def origins(self) -> Any:
        """The files behind the rows, as they were when they were opened."""
        return fact(self.source, "origins")

    @property
    def on_dask(self) -> bool:
        """Whether the rows are partitions of Dask collections."""
        return is_on_dask(self.source)

    @property
    def on_disk(self) -> bool:
        """Whether the rows are in row-major files, which are read in the order of the rows."""
        return bool(fact(self.source, "on_disk"))


@dataclass(frozen=True, eq=False)
class Changed(View):
    """A source whose blocks are changed as they are read.

    Parameters
    ----------
    source : Source
        The rows.
    change : Change
        What is done with every block.
    n_columns : int
        Columns afterwards.
    names : list of str, optional
        Names of the columns afterwards.
    targets : int, optional
        Targets of a row afterwards, as many as before by default.
    """

    change: Change
    n_columns: int
    names: list[str] | None = None
    targets: int | None = None

    @classmethod
    def of(cls, source: Source, change: Change, targets: int | None = None) -> Changed:
        """Change what leaves the columns as they are: targets, weights, offsets."""
        return cls(source, change, source.n_columns, source.names, targets)

    @property
    def n_outputs(self) -> int | None:
        return n_outputs(self.source) if self.targets is None else self.targets

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def decodes(self) -> bool:
        """Whether the rows have to be decoded at every pass."""
        return decodes(self.source)

    @property
    def scratch(self) -> str | None:
        """Folder for a copy that a run makes."""
        found: str | None = fact(self.source, "scratch")
        return found

    @property
    def shards(self) -> Sequence[Shard]:
        return [ChangedShard(shard, self.change) for shard in self.source.shards]

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.source.fingerprint, self.change)


@dataclass(frozen=True)
class Labels:
    """Labels to signs (two classes) or class numbers, with weights of the classes.

    ``classes`` are sorted; a label that is none of them is refused where it is read. ``each`` asks
    for a column of signs per class (one against the rest), ``numbers`` for class numbers of two.
    """

    classes: tuple[Any, ...]
    weights: tuple[float, ...] | None = None
    each: bool = False
    numbers: bool = False

    def __call__(self, block: Block) -> Block:
        """Return the block with encoded targets."""
        known = np.array(self.classes)
        place = np.minimum(np.searchsorted(known, block.y), len(known) - 1)
        if (known[place] != block.y).any():
            bad = block.first + int(np.flatnonzero(known[place] != block.y)[0])
            raise ValueError(
                f"row {bad} has the label {block.y[bad - block.first]!r}, which is none of "
                f"{', '.join(f'{label}' for label in self.classes)}"
            )
        weight = block.weight
        if self.weights is not None:
            own = np.array(self.weights)[place]
            weight = own if weight is None else own * weight
        if self.each:
            y = np.where(place[:, None] == np.arange(len(known)), 1.0, -1.0)
        else:
            numbers = self.numbers or len(known) > 2
            y = place if numbers else np.where(place == 1, 1.0, -1.0)
        return replace(block, y=y, weight=weight)


@dataclass(frozen=True, eq=False)
class Rescaled:
    """Columns as ``(x_j - center_j) / scale_j``; sparse rows are not centered."""

    center: Array | None
    scale: Array

    def __call__(self, block: Block) -> Block:
        """Return the block with other units."""
        X = block.X
        if not is_sparse(X):
            moved = X if self.center is None else X - self.center.astype(X.dtype)
            return replace(block, X=moved / self.scale.astype(X.dtype))
        triple = (X.data / self.scale.astype(X.dtype)[X.indices], X.indices, X.indptr)
        return replace(block, X=sparse.csr_array(triple, shape=X.shape))


@dataclass(frozen=True, eq=False)
class Combined:
    """Columns of the product of the rows and a matrix: chosen ones, repeated ones, sums.

    ``added`` is one number per column that is added to every row.
    """

    matrix: Any
    added: Array | None = None

    def __call__(self, block: Block) -> Block:
        """Return the block with other columns."""
        X = block.X @ self.matrix.astype(block.X.dtype)
        if self.added is not None:
            X = np.asarray(X) + self.added.astype(X.dtype)
        return replace(block, X=X if is_sparse(X) else np.ascontiguousarray(X))


def toss(seed: int, first: int, n: int) -> Array:
    """Return one number in [0, 1) per row, from the seed and the number of the row alone.

    The finalizer of splitmix64 (Steele, Lea, Flood 2014) on a counter.

    Examples
    --------
    >>> from stochadmm.data import toss
    >>> bool((toss(1, 0, 5)[2:] == toss(1, 2, 3)).all())
    True
    """
    with np.errstate(over="ignore"):
        x = np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)
        x = x * np.uint64(0x9E3779B97F4A7C15)
        x = x + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Fold:
    """Rows that a coin deals to one of several folds, or all the others.

    Whatever order the rows have, each fold is a fair sample of them.
    """

    number: int
    count: int
    inside: bool
    seed: int = 0

    def mask(self, first: int, n: int) -> NDArray[np.bool_]:
        """Say which of consecutive rows belong here."""
        place = (toss(self.seed, first, n) * self.count).astype(np.intp)
        inside: NDArray[np.bool_] = place == self.number
        return inside if self.inside else np.logical_not(inside)


@dataclass(frozen=True)
class FoldShard:
    """The rows of a shard that belong to a fold, numbered anew."""

    shard: Shard
    fold: Fold
    first: int
    n_rows: int

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield what is left of the blocks."""
        first = self.first
        for block in self.shard.blocks(max_bytes):
            kept = np.flatnonzero(self.fold.mask(block.first, len(block)))
            if kept.size:
                weight, offset = (
                    None if part is None else part[kept] for part in (block.weight, block.offset)
                )
                yield Block(first, block.X[kept], block.y[kept], weight, offset)
                first += kept.size


@dataclass(frozen=True, eq=False)
class SomeRows(View):
    """The rows of a source that belong to a fold."""

    fold: Fold

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    @property
    def names(self) -> list[str] | None:
        return self.source.names

    @property
    def n_rows(self) -> int:
        return sum(shard.n_rows for shard in self.shards)

    @property
    def shards(self) -> Sequence[Shard]:
        found: list[Shard] = []
        first = 0
        for shard in self.source.shards:
            count = int(np.count_nonzero(self.fold.mask(shard.first, shard.n_rows)))
            if count:
                found.append(FoldShard(shard, self.fold, first, count))
                first += count
        return found

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.source.fingerprint, self.fold)
