"""Rows that need not be in memory: sources, their shards, and blocks of rows.

A source is a description: how many rows and columns there are, and shards that can be read again
and again, in this process or in another. Nothing is read before a pass asks for it.
"""

from ._arrays import ArraySource
from ._dask import DaskSource, is_dask
from ._files import CSRFiles, NpyFiles, spill
from ._open import open_source
from ._parquet import ArrowFiles
from ._protocol import Block, DataError, Shard, Source, check_block

__all__ = [
    "ArraySource",
    "ArrowFiles",
    "Block",
    "CSRFiles",
    "DaskSource",
    "DataError",
    "NpyFiles",
    "Shard",
    "Source",
    "check_block",
    "is_dask",
    "open_source",
    "spill",
]
