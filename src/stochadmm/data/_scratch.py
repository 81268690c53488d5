"""A copy of rows that are slow to decode, in files that read fast, made on the way of a pass."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base.capabilities import fact
from ..base.protocols import Array
from ..base.validation import is_sparse
from ._files import Npy, NpyFiles
from ._protocol import Block, Source


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


def decodes(source: Source) -> bool:
    """Say whether a source says that its rows have to be decoded at every pass."""
    return bool(fact(source, "decodes"))


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
