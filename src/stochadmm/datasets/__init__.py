"""Data to try things on: real sets read from files, and generated ones with a known answer.

``load(name)`` returns a :class:`Dataset`; ``names()`` lists what there is. Files are looked for in
the folder named by ``STOCHADMM_DATA``, then in the cache (``STOCHADMM_CACHE``, or the platform's
cache folder), and at last downloaded from ``STOCHADMM_DATA_URL``. Nothing is read or downloaded at
import.
"""

from stochadmm.datasets._dataset import Dataset, scale_columns, scale_rows
from stochadmm.datasets._registry import Entry, describe, load, names
from stochadmm.datasets._store import cache_folder, data_folder, fetch, find
from stochadmm.datasets.generators import (
    make_chain,
    make_graph_fused,
    make_low_rank_tasks,
    make_onehot_dna,
    make_overlapping_groups,
)

__all__ = [
    "Dataset",
    "Entry",
    "cache_folder",
    "data_folder",
    "describe",
    "fetch",
    "find",
    "load",
    "make_chain",
    "make_graph_fused",
    "make_low_rank_tasks",
    "make_onehot_dna",
    "make_overlapping_groups",
    "names",
    "scale_columns",
    "scale_rows",
]
