"""What a provider of rows offers."""

from __future__ import annotations

import errno
import json
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..base.capabilities import fact, has_members
from ..base.protocols import Array
from ..base.validation import is_sparse
from .rows import Rows, as_rows


@dataclass(frozen=True)
class Sharding:
    """How a source is cut into shards.

    Parameters
    ----------
    shard_bytes : int
        Rows of a shard, about: a unit of work that costs far more than handing it out.
    most : int
        Shards at most: their sums are added up one by one.
    """

    shard_bytes: int = 1 << 26
    most: int = 512


SHARDING = Sharding()


class DataError(ValueError):
    """Rows that cannot be used; the message names the file and the rows."""


DAMAGED = (
    ValueError,  # pyarrow's errors too, among them and the next three
    LookupError,
    RuntimeError,  # NotImplementedError too
    OSError,
    ArithmeticError,
    EOFError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What decoders raise at content that is not what its format says."""


@contextmanager
def decoding(path: Any, kind: str = "") -> Iterator[None]:
    """Raise what a decoder says of a file's content as a `DataError` that names the file."""
    try:
        yield
    except DAMAGED as error:
        # what the disk says stays as it is: it may do better the next time
        of_disk = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
        if of_disk or str(path) in str(error):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        kind = f" as {kind}" if kind else ""
        raise DataError(f"{path} cannot be read{kind}: {reason}") from error


@dataclass(frozen=True)
class Block:
    """Consecutive rows in memory."""

    first: int
    """Number of the first row in its source."""
    X: Any
    """Dense in either order, or CSR; float32 or float64."""
    y: Array
    weight: Array | None = None
    offset: Array | None = None
    where: str = ""
    """The file that they are from, for messages."""

    def __post_init__(self) -> None:
        # a column of numbers, as files often have it, is as good as a vector
        if self.weight is not None and self.weight.shape[1:] == (1,):
            object.__setattr__(self, "weight", self.weight[:, 0])
        if self.offset is not None and self.offset.shape[1:] == (1,) and self.y.ndim == 1:
            object.__setattr__(self, "offset", self.offset[:, 0])
        if self.weight is not None and self.weight.ndim > 1:
            raise DataError(
                f"{self.place}: the weights have shape {self.weight.shape}, expected one per row"
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def rows(self) -> Rows:
        """Its rows, with the products that a pass takes."""
        return as_rows(self.X)

    @property
    def place(self) -> str:
        """Its file, where it has one, and its rows, for messages."""
        file = f"{self.where}, " if self.where else ""
        return f"{file}rows {self.first} to {self.first + len(self) - 1}"

    @property
    def weights(self) -> Array:
        """Its weights in float64, ones where none are given."""
        return np.ones(len(self)) if self.weight is None else self.weight.astype(np.float64)


@runtime_checkable
class Shard(Protocol):
    """A part of a source: small, picklable, and readable again and again."""

    @property
    def first(self) -> int:
        """Number of its first row."""

    @property
    def n_rows(self) -> int:
        """Number of its rows."""

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield its rows in their order, a block of about so many bytes at a time."""


@runtime_checkable
class Source(Protocol):
    """Rows, targets, weights and offsets, somewhere."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type in which the rows are stored."""

    @property
    def names(self) -> list[str] | None:
        """Names of the columns."""

    @property
    def shards(self) -> Sequence[Shard]:
        """Parts in the order of the rows; where they are cut depends on the data alone."""

    @property
    def fingerprint(self) -> str:
        """A text that changes when the rows do: names, sizes and times of files."""


def part_of(shard: Shard, first: int, n_rows: int) -> Shard | None:
    """Return some rows of a shard as a shard, None where it can be read from its beginning only.

    A shard that can be read in parts offers ``part(first, n_rows)``.
    """
    if not has_members(shard, "part"):
        return None
    found: Shard | None = shard.part(first, n_rows)  # type: ignore[attr-defined]
    return found


def pieces_of(shard: Shard, ranges: Sequence[tuple[int, int]], max_bytes: int) -> Iterator[Block]:
    """Yield the rows of many short ranges of a shard that can be read in parts, in their order.

    A shard that opens its files once for all of them offers ``pieces(ranges, max_bytes)``, and may
    join what it read; the others are asked for one part after the other.
    """
    if has_members(shard, "pieces"):
        yield from shard.pieces(ranges, max_bytes)  # type: ignore[attr-defined]
        return
    for first, stop in ranges:
        part = part_of(shard, first, stop - first)
        assert part is not None, "sources that cannot be read in parts are refused before"
        yield from part.blocks(max_bytes)


def joined(ranges: Sequence[tuple[int, int]], most: int) -> list[list[tuple[int, int]]]:
    """Return ranges of rows in groups of about so many rows.

    Examples
    --------
    >>> from stochadmm.data._protocol import joined
    >>> joined([(0, 2), (7, 9), (20, 24)], 4)
    [[(0, 2), (7, 9)], [(20, 24)]]
    """
    groups: list[list[tuple[int, int]]] = []
    room = 0
    for first, stop in ranges:
        if not groups or room < stop - first:
            groups.append([])
            room = most
        groups[-1].append((first, stop))
        room -= stop - first
    return groups


def in_parts(source: Source) -> bool:
    """Say whether any rows of a source can be read without those before them."""
    shard = source.shards[0]
    return part_of(shard, shard.first, 1) is not None


def n_outputs(source: Source) -> int | None:
    """Return how many targets a row has, None for one number.

    A source says so by ``n_outputs``; one that does not has one target.
    """
    found: int | None = fact(source, "n_outputs")
    return found


def width(shape: Sequence[int]) -> int | None:
    """Return the second length of a shape, None where there is none."""
    return None if len(shape) < 2 else int(shape[1])


def no_targets(n_rows: int) -> Array:
    """Return the targets of rows that have none: predictions do not ask for them."""
    return np.empty((n_rows, 0))


def cuts(n_rows: int, bytes_per_row: int) -> list[tuple[int, int]]:
    """Return the row ranges of the shards of ``n_rows`` rows, from sizes alone.

    Examples
    --------
    >>> from stochadmm.data._protocol import cuts
    >>> cuts(10, 1 << 24)
    [(0, 3), (3, 6), (6, 10)]
    """
    wanted = -(-n_rows * max(bytes_per_row, 1) // SHARDING.shard_bytes)
    count = int(np.clip(wanted, 1, min(n_rows, SHARDING.most)))
    edges = [n_rows * k // count for k in range(count + 1)]
    return list(pairwise(edges))


def rows_per_block(max_bytes: int, bytes_per_row: int) -> int:
    """Return how many rows fit into a block, at least one."""
    return max(1, max_bytes // max(bytes_per_row, 1))


def check_csr(X: Any, where: str) -> None:
    """Raise where the arrays of a CSR matrix do not fit each other: compiled loops trust them."""
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"{where} is no CSR matrix: {error}") from error


def is_numeric(array: Array) -> bool:
    """Say whether an array holds numbers or truth values."""
    return array.dtype.kind in "fiub"


LARGEST = 1e150
"""Of numbers beyond, squares overflow."""


def check_block(block: Block, labels: bool = False) -> Block:
    """Return a block whose numbers can be squared; raise with the place of the first that cannot.

    Targets that are ``labels`` may be texts.
    """
    if not labels and not is_numeric(block.y):
        raise DataError(
            f"{block.place}: y holds {block.y.dtype}, expected numbers; a classifier takes texts"
        )
    values = block.X.data if is_sparse(block.X) else block.X
    for name, array in (
        ("X", values),
        ("y", block.y),
        ("weight", block.weight),
        ("offset", block.offset),
    ):
        if array is None or array.dtype.kind != "f" or array.size == 0:
            continue
        if max(float(array.max()), -float(array.min())) <= LARGEST:  # false for NaN
            continue
        entry = int(np.flatnonzero(~(np.abs(array.ravel().astype(np.float64)) <= LARGEST))[0])
        if name == "X" and is_sparse(block.X):
            bad = int(np.searchsorted(block.X.indptr, entry, side="right")) - 1
        else:
            bad = entry // (array.size // len(block))
        value = array.flat[entry]
        what = (
            f"{value:.3g}, which is too large"
            if np.isfinite(value)
            else "a missing or infinite value"
        )
        remedy = "rescale the column" if np.isfinite(value) else "remove or impute such rows"
        raise DataError(f"{block.place}: {name} has {what} in row {block.first + bad}; {remedy}")
    return block


def decodes(source: Source) -> bool:
    """Say whether a source says that its rows have to be decoded at every pass."""
    return bool(fact(source, "decodes"))


def is_on_dask(source: Source) -> bool:
    """Say whether the rows of a source are partitions of Dask collections."""
    return bool(fact(source, "on_dask"))


def bytes_of(source: Source) -> int:
    """Return the bytes of the rows of a source as numbers in memory, about.

    Those of CSR rows are their entries where a source knows them, and dense rows otherwise.
    """
    known: int | None = fact(source, "n_bytes")
    if known is not None:
        return known
    return source.n_rows * source.n_columns * np.dtype(source.dtype).itemsize


@dataclass(frozen=True)
class Origins:
    """Files as they were when a source was opened.

    Parameters
    ----------
    paths : tuple of str
        The files that the user named.
    stamps : tuple of tuples of int
        Size, time of the last change and number on the disk of each.
    copied : bool
        Whether rows are read from a copy of them, which does not change with them.
    """

    paths: tuple[str, ...]
    stamps: tuple[tuple[int, int, int], ...]
    copied: bool = False

    @classmethod
    def of(cls, paths: Sequence[Any], copied: bool = False) -> Origins:
        """Look at files."""
        names = tuple(map(str, paths))
        return cls(names, tuple(map(_stamp, names)), copied)

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files: those of a file put back are the same."""
        found = [(path, *stamp[:2]) for path, stamp in zip(self.paths, self.stamps, strict=True)]
        return blake2b(json.dumps(found).encode(), digest_size=16).hexdigest()

    @property
    def where(self) -> str:
        """The files, for messages."""
        first, more = self.paths[0], len(self.paths) - 1
        return f"{first} and {more} more" if more else first

    def check(self) -> None:
        """Raise where a file that is read again and again is not the one that was opened."""
        if self.copied:
            return
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise DataError(
                    f"{path} has changed since it was opened; open it again, and leave it as it "
                    "is until a run has ended"
                )


@dataclass(frozen=True, eq=False)
class Described:
    """A source whose shards and facts are known when it is opened: what most formats make."""

    shards: Sequence[Shard]
    n_columns: int
    dtype: np.dtype[Any]
    fingerprint: str
    names: list[str] | None = None
    n_outputs: int | None = None
    """Targets of a row, None for one number."""
    origins: Origins | None = None
    """The user's files as they were when they were opened."""
    decodes: bool = False
    """Whether a pass takes far longer than one over rows as they are in memory."""
    scratch: str | None = None
    """Folder for a row-major copy that a run makes of rows that have to be decoded."""
    on_dask: bool = False
    """Whether the rows are partitions of Dask collections."""
    levels: dict[str, tuple[str, ...] | None] | None = None
    """Columns of the table that the rows are from; levels of texts, None for numbers."""

    @property
    def n_rows(self) -> int:
        return sum(shard.n_rows for shard in self.shards)


def check_origins(source: object) -> None:
    """Raise where a file behind a source is not the one that was opened."""
    origins: Origins | None = fact(source, "origins")
    if origins is not None:
        origins.check()


def _stamp(path: str) -> tuple[int, int, int]:
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns, about.st_ino
