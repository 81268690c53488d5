"""Real data sets, read from files, and generated ones too large to hold twice.

``load(name)`` returns a :class:`stochadmm.datasets.Dataset`; ``names()`` lists what there is.
Files are looked for in the folder named by ``STOCHADMM_DATA``, then in the cache
(``STOCHADMM_CACHE``, or the platform's cache folder), and at last downloaded from
``STOCHADMM_DATA_URL``. Nothing is read or downloaded at import.

    python -m stochadmm_reproduction.datasets list | info NAME | fetch NAME ...
"""

from ._registry import Entry, describe, load, names
from ._scaling import scale_columns, scale_rows
from ._store import cache_folder, data_folder, fetch, find

__all__ = [
    "Entry",
    "cache_folder",
    "data_folder",
    "describe",
    "fetch",
    "find",
    "load",
    "names",
    "scale_columns",
    "scale_rows",
]
