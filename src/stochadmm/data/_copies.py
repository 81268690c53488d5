"""Copies of rows in files that read fast."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..base.capabilities import fact
from ..base.protocols import Array
from ..base.validation import is_sparse
from ._files import CSRFiles, Npy, NpyFiles
from ._protocol import Block, Source, decodes
from ._views import toss


@dataclass(frozen=True)
class ScratchOptions:
    """When a copy is made.

    Parameters
    ----------
    room : float
        Free space on the disk, in units of the copy, below which none is made: others write too.
    cached : float
        Share of the memory above which a copy goes past the page cache: beyond about a fifth,
        systems make who writes wait for the disk in any case, and other files would be pushed out.
    """

    room: float = 1.5
    cached: float = 0.2


OPTIONS = ScratchOptions()


@dataclass(frozen=True)
class Scratch:
    """Files for the rows of a source, written block by block in any order, by any process."""

    files: NpyFiles
    passing: bool = False
    """Whether the rows are too many for the page cache."""

    def write(self, block: Block) -> None:
        """Write some rows to their place."""
        for file, rows in self.parts(block):
            file.write(block.first, rows, self.passing)

    def parts(self, block: Block) -> Iterator[tuple[Npy, Array]]:
        """Yield the file of each part of a block with what belongs there."""
        parts = (block.X, block.y, block.weight, block.offset)
        files = (self.files.X, self.files.y, self.files.weight, self.files.offset)
        for file, rows in zip(files, parts, strict=True):
            if file is not None:
                assert rows is not None, "weights and offsets belong to all rows or to none"
                yield file, rows


def scratch_for(source: Source, options: ScratchOptions = OPTIONS) -> Scratch | None:
    """Return files for a copy of the rows, None where none pays or the disk has no room.

    They are deleted when nobody holds the source that they make (``files``) any more.
    """
    if not decodes(source):
        return None
    cut = tuple((shard.first, shard.n_rows) for shard in source.shards)
    files = reserved(source, cut, options)
    if files is None:
        return None
    return Scratch(files, files.n_rows * files.X.row_bytes > options.cached * _memory())


def _memory() -> float:
    """Return the bytes of memory of this machine; infinite where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def reserved(
    source: Source,
    cut: tuple[tuple[int, int], ...] | None = None,
    options: ScratchOptions = OPTIONS,
    copies: int = 1,
) -> NpyFiles | None:
    """Return files of the size of dense rows, None where the disk has no room for them.

    ``copies`` counts those that are written at the same time, this one included.
    """
    like = next(source.shards[0].blocks(1 << 12))
    size = source.n_rows * source.n_columns * like.X.dtype.itemsize
    place = _place(fact(source, "scratch"))
    if is_sparse(like.X):
        return None
    if shutil.disk_usage(place).free < (options.room + copies - 1) * size:
        return None
    folder = Path(tempfile.mkdtemp(prefix="stochadmm-", dir=place))

    def file(name: str, array: Any) -> Npy | None:
        if array is None:
            return None
        return Npy.reserve(folder / f"{name}.npy", (n, *array.shape[1:]), array.dtype)

    n = source.n_rows
    X, y = file("X", like.X), file("y", np.asarray(like.y))
    assert X is not None and y is not None
    made = NpyFiles(
        X, y, file("weight", like.weight), file("offset", like.offset), source.names, cut
    )
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


def _place(wanted: str | None) -> str:
    """Return the folder for copies: as asked, or one that is on a disk and not in memory."""
    if wanted is not None:
        Path(wanted).mkdir(parents=True, exist_ok=True)
        return wanted
    on_disk = "/var/tmp"
    if "TMPDIR" not in os.environ and os.access(on_disk, os.W_OK):
        return on_disk
    return tempfile.gettempdir()


@dataclass(frozen=True)
class Lanes:
    """Where the rows of a source lie in the copy: a function of their numbers alone.

    Parameters
    ----------
    n_rows : int
        Rows of the source.
    count, length : int
        Extents of a neighbourhood, and rows of each.
    seed : int
        Of the coin.

    Examples
    --------
    >>> from stochadmm.data import Lanes
    >>> Lanes(12, count=2, length=3).places(0, 12)
    array([ 3,  0,  1,  4,  2,  5,  6,  9,  7, 10,  8, 11])
    """

    n_rows: int
    count: int
    length: int
    seed: int = 0

    def places(self, first: int, n: int) -> NDArray[np.int64]:
        """Return the places of consecutive rows."""
        around, end = self.count * self.length, first + n
        last = self.n_rows - self.n_rows % around  # from here on rows do not fill all extents
        found = [np.empty(0, dtype=np.int64)]
        if first < last:
            start, stop = first - first % self.count, min(end, last)
            stop += -stop % self.count
            coin = toss(self.seed, start, stop - start).reshape(-1, self.count)
            group = np.arange(start // self.count, stop // self.count)
            base = group // self.length * around + group % self.length
            places = (base[:, None] + _ranks(coin) * self.length).ravel()
            found.append(places[first - start : min(end, last) - start])
        if end > last:
            places = last + _ranks(toss(self.seed, last, self.n_rows - last))
            found.append(places[max(first, last) - last : end - last])
        return np.concatenate(found)


def _ranks(coin: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(coin, axis=-1), axis=-1).astype(np.int64)


@dataclass(frozen=True)
class Shuffle(Scratch):
    """Files for the rows of a source in another order."""

    lanes: Lanes = field(kw_only=True)

    def write(self, block: Block) -> None:
        """Write some rows to their places, in as long runs as there are."""
        places = self.lanes.places(block.first, len(block))
        order = np.argsort(places)
        places = places[order]
        edges = np.flatnonzero(np.diff(places, prepend=-2, append=-2) != 1)
        for file, rows in self.parts(block):
            file.scatter(places[edges[:-1]], edges, rows[order])


def shuffle_for(source: Source, lanes: Lanes, beside: Scratch | None = None) -> Shuffle | None:
    """Return files for a copy of dense rows of files in another order; None where none is made.

    ``beside`` is a copy in the order of the source that is written at the same time.
    """
    if beside is None and not fact(source, "on_disk"):
        return None
    files = reserved(source, copies=1 if beside is None else 2)
    return None if files is None else Shuffle(files, lanes=lanes)


SPILL_BYTES = 1 << 24


def spill(source: Source, folder: str | Path) -> Source:
    """Write the rows of a source to files that read fast, and return these as a source.

    Dense rows become one row-major ``.npy`` file, sparse ones the three arrays of CSR; targets,
    weights and offsets a file each. It takes one read of the source.

    Parameters
    ----------
    source : Source
        What ``stochadmm.open`` returns, or any other source of rows.
    folder : path
        Where the files are written; it is created if it does not exist.

    Returns
    -------
    Source
        The same rows, read from the files.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import stochadmm as sa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = sa.data.spill(sa.data.ArraySource(np.ones((5, 2)), np.zeros(5)), folder)
    ...     source.n_rows, source.n_columns
    (5, 2)
    """
    made = written((b for shard in source.shards for b in shard.blocks(SPILL_BYTES)), folder)
    if "X" in made:
        weight, offset = (made.get(name) for name in ("weight", "offset"))
        return NpyFiles(made["X"], made["y"], weight, offset, source.names)
    return CSRFiles(**made, n_columns=source.n_columns, names=source.names)


def written(blocks: Iterable[Block], folder: str | Path) -> dict[str, Any]:
    """Write blocks of rows one below the other; return the files by the names of the arrays."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, _Writer] = {}
    entries = 0
    for block in blocks:
        arrays: dict[str, Any] = {"y": block.y, "weight": block.weight, "offset": block.offset}
        if is_sparse(block.X):
            arrays |= {"data": block.X.data, "indices": block.X.indices.astype(np.int32)}
            starts = block.X.indptr.astype(np.int64) + entries
            arrays["indptr"] = starts[1:] if "indptr" in writers else starts
            entries += int(block.X.nnz)
        else:
            arrays["X"] = np.ascontiguousarray(block.X)
        for name, array in arrays.items():
            if array is not None:
                if name not in writers:
                    writers[name] = _Writer(folder / f"{name}.npy", array)
                writers[name].add(array)
    return {name: writer.close() for name, writer in writers.items()}


class _Writer:
    """Appends to a ``.npy`` file whose length is written at the end."""

    def __init__(self, path: Path, like: Array) -> None:
        if like.dtype.kind not in "fiub":  # the longest text is not known beforehand
            raise TypeError(
                f"{path.stem} holds {like.dtype}, expected numbers; number the classes"
            )
        self.path, self.dtype, self.shape, self.n = path, like.dtype, like.shape[1:], 0
        self.file = open(path, "wb")
        self._header()

    def _header(self) -> None:
        # a number of rows with many digits, so that the header keeps its length
        spec = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.n, *self.shape),
        }
        text = repr(spec).ljust(240)
        body = text.encode("latin1") + b"\n"
        self.file.write(npy.magic(1, 0) + len(body).to_bytes(2, "little") + body)

    def add(self, array: Array) -> None:
        if array.shape[1:] != self.shape:
            raise ValueError(f"a block has shape {array.shape}, expected (..., {self.shape})")
        self.file.write(np.ascontiguousarray(array, dtype=self.dtype).data)
        self.n += len(array)

    def close(self) -> Npy:
        self.file.seek(0)
        self._header()
        self.file.close()
        return Npy.of(self.path)
