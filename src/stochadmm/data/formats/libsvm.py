"""libsvm text, read once into raw CSR files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .._copies import spill
from .._files import CSRFiles
from .._protocol import Block, DataError, Origins, Shard, Source, decoding
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
    """``label index:value ...`` a line, in one file or several."""

    paths: tuple[str, ...]
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

        first = 0
        for path in self.paths:
            for start in range(0, Path(path).stat().st_size, PIECE):
                with decoding(path, "libsvm text"):
                    X, y = load_svmlight_file(
                        path, n_features=WIDEST, offset=start, length=PIECE, zero_based=True
                    )
                if X.shape[0]:
                    yield Block(first, X, y)
                    first += X.shape[0]
        if not first:
            raise DataError(f"{self.paths[0]} has no rows")


def _open(asked: Request) -> Source:
    asked.refuse("libsvm text has targets of its own", "target")
    asked.refuse("libsvm text has labels and entries only", "columns", "weight", "offset")
    origins = Origins.of(asked.paths, copied=True)

    def write(folder: Path) -> CSRFiles:
        text: Any = LibsvmText(origins.paths)  # a source for one reading: it knows no sizes
        made: Any = spill(text, folder)
        width = asked.width(_from_zero(made.indices.path))
        if width < 1:
            raise DataError(f"{origins.paths[0]} has labels but no entries: nothing to fit")
        found: CSRFiles = replace(made, n_columns=width, origins=origins)
        return found

    return asked.spilled(write)


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


ENDINGS = frozenset({".svm", ".libsvm", ".svmlight"})
FORMAT = Format(ENDINGS, _open, in_folders=ENDINGS, is_text=True)
