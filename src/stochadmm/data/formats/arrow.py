"""Parquet and Arrow IPC files, columns taken by name."""

from __future__ import annotations

from .._parquet import ArrowFiles
from .._protocol import Source
from . import Format, Request


def _open(asked: Request) -> Source:
    scratch = None if asked.scratch is None else str(asked.scratch)
    return ArrowFiles.of(asked.paths, asked.of_table(), scratch)


ENDINGS = frozenset({".parquet", ".pq", ".arrow", ".feather", ".ipc"})
FORMAT = Format(ENDINGS, _open, in_folders=ENDINGS)
