"""Rows: in memory, with the products that solvers take; and sources that need not be.

A source is a description: how many rows and columns there are, and shards that can be read again
and again, in this process or in another. Nothing is read before a pass asks for it.
"""

from ._arrays import ArraySource
from ._as_source import as_source, is_source
from ._columns import Asked, Fitted
from ._csr import CSRRows
from ._csr_files import CSRFiles
from ._dask import DaskSource, is_dask, is_frame
from ._dense import DenseRows
from ._files import NpyFiles
from ._float16 import HalfRows, half_rows
from ._moments import columns_of, mean_and_deviation, moments
from ._open import list_files, open_for, open_source
from ._origins import Origins, check_origins
from ._parquet import ArrowFiles
from ._protocol import (
    Block,
    DataError,
    Shard,
    Source,
    check_block,
    in_parts,
    is_numeric,
    n_outputs,
    part_of,
    pieces_of,
)
from ._scratch import Scratch, ScratchOptions, decodes, scratch_for
from ._shuffle import Lanes, shuffle_for
from ._source_of_arrays import Rows, as_rows, check_finite, checked_rows
from ._spill import spill
from ._streams import ArrowStreams
from ._views import (
    Changed,
    Combined,
    Fold,
    Labels,
    Rescaled,
    SomeRows,
    bytes_of,
    is_on_dask,
    toss,
)
from .rows import ALL, CSR, DENSE, Blocking, ColumnMoments, Reads, cut

__all__ = [
    "ALL",
    "CSR",
    "DENSE",
    "ArraySource",
    "ArrowFiles",
    "ArrowStreams",
    "Asked",
    "Block",
    "Blocking",
    "CSRFiles",
    "CSRRows",
    "Changed",
    "ColumnMoments",
    "Combined",
    "DaskSource",
    "DataError",
    "DenseRows",
    "Fitted",
    "Fold",
    "HalfRows",
    "Labels",
    "Lanes",
    "NpyFiles",
    "Origins",
    "Reads",
    "Rescaled",
    "Rows",
    "Scratch",
    "ScratchOptions",
    "Shard",
    "SomeRows",
    "Source",
    "as_rows",
    "as_source",
    "bytes_of",
    "check_block",
    "check_finite",
    "check_origins",
    "checked_rows",
    "columns_of",
    "cut",
    "decodes",
    "half_rows",
    "in_parts",
    "is_dask",
    "is_frame",
    "is_numeric",
    "is_on_dask",
    "is_source",
    "list_files",
    "mean_and_deviation",
    "moments",
    "n_outputs",
    "open_for",
    "open_source",
    "part_of",
    "pieces_of",
    "scratch_for",
    "shuffle_for",
    "spill",
    "toss",
]
