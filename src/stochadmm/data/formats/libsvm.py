"""libsvm text, read once into raw CSR files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .._copies import written
from .._files import CSRFiles
from .._protocol import Block, DataError, Origins, Source, decoding
from . import Format, Request

PIECE = 1 << 25
"""Bytes of text that are parsed at a time."""
WIDEST = 2**31 - 1


def _parsed(paths: Sequence[str]) -> Iterator[Block]:
    """Yield ``label index:value ...`` lines in blocks, one piece of text after the other."""
    from sklearn.datasets import load_svmlight_file

    first = 0
    for path in paths:
        for start in range(0, Path(path).stat().st_size, PIECE):
            with decoding(path, "libsvm text"):
                X, y = load_svmlight_file(
                    path, n_features=WIDEST, offset=start, length=PIECE, zero_based=True
                )
            if X.shape[0]:
                yield Block(first, X, y)
                first += X.shape[0]
    if not first:
        raise DataError(f"{paths[0]} has no rows")


def _open(asked: Request) -> Source:
    asked.refuse("libsvm text has targets of its own", "target")
    asked.refuse("libsvm text has labels and entries only", "columns", "weight", "offset")
    origins = Origins.of(asked.paths, copied=True)

    def write(folder: Path) -> CSRFiles:
        made = written(_parsed(origins.paths), folder)
        width = asked.width(_from_zero(made["indices"].path))
        if width < 1:
            raise DataError(f"{origins.paths[0]} has labels but no entries: nothing to fit")
        return CSRFiles(**made, n_columns=width, origins=origins)

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
