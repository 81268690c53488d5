"""libsvm text, read once into raw CSR files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._csr_files import CSRFiles
from .._protocol import Block, DataError, Shard, Source
from .._spill import spill
from . import Format, Request

PIECE = 1 << 25
"""Bytes of text that are parsed at a time."""
WIDEST = 2**31 - 1


@dataclass(frozen=True)
class Piece:
    """Rows that are parsed once, on their way to the spill."""

    first: int
    n_rows: int
    source: Any

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield them all."""
        yield from self.source.parse()


@dataclass(frozen=True)
class LibsvmText:
    """``label index:value ...`` a line."""

    path: str
    names: None = None

    @property
    def n_columns(self) -> int:
        """Unknown before the whole text is read."""
        return 0

    @property
    def shards(self) -> Sequence[Shard]:
        """The text as one piece."""
        return [Piece(0, 0, self)]

    def parse(self) -> Iterator[Block]:
        """Yield blocks of rows as they are parsed, one piece of text after the other."""
        from sklearn.datasets import load_svmlight_file

        first, size = 0, Path(self.path).stat().st_size
        for start in range(0, size, PIECE):
            try:
                X, y = load_svmlight_file(
                    self.path, n_features=WIDEST, offset=start, length=PIECE, zero_based=True
                )
            except ValueError as error:
                raise DataError(f"{self.path} cannot be read as libsvm text: {error}") from error
            if X.shape[0]:
                yield Block(first, X, y)
                first += X.shape[0]


def _open(asked: Request) -> Source:
    folder = asked.scratch_folder()
    text: Any = LibsvmText(asked.paths[0])  # a source for one reading: it knows no sizes
    made = spill(text, folder)
    if isinstance(made, CSRFiles):
        width = _from_zero(made.indices.path)
        made = CSRFiles(made.data, made.indices, made.indptr, made.y, width)
        (folder / "n_columns.txt").write_text(str(width))
    return asked.kept_while(made, folder)


def _from_zero(path: str) -> int:
    """Count columns from zero in a file of column numbers; return how many there are."""
    indices = np.load(path, mmap_mode="r+")
    pieces = [slice(k, k + PIECE) for k in range(0, len(indices), PIECE)]
    least = min((int(indices[piece].min()) for piece in pieces), default=0)
    most = max((int(indices[piece].max()) for piece in pieces), default=-1)
    if least >= 1:
        for piece in pieces:
            indices[piece] -= 1
        most -= 1
    indices.flush()
    return most + 1


FORMAT = Format(frozenset({".svm", ".libsvm", ".svmlight"}), _open)
