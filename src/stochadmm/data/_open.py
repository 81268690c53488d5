"""``stochadmm.open``: a source from names of files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from ..base.validation import listed
from ._columns import Asked, Fitted
from ._protocol import Source
from ._streams import ArrowStreams, is_stream
from .formats import Request, formats


def open_source(
    path: Any,
    target: Any = None,
    columns: Sequence[str] | None = None,
    weight: Any = None,
    offset: Any = None,
    *,
    scratch: str | Path | None = None,
) -> Source:
    """Describe rows in files; only headers (and columns of text) are read.

    Parameters
    ----------
    path : str, path, function or list of them
        One file, a folder, or a pattern such as ``"folder/*.parquet"``. Parquet and Arrow IPC
        files; ``.npy`` files; ``.npz`` archives with ``X``, or the arrays of a CSR matrix as
        ``scipy.sparse.save_npz`` names them, and ``y``; a folder with ``data.npy``,
        ``indices.npy``, ``indptr.npy`` and ``y.npy`` (the arrays of a CSR matrix); CSV (``.csv``,
        ``.txt``), TSV and libsvm text, which are read once, into a scratch folder of fast files.
        Several files are parts of one table. Or an Arrow stream that can be started again: a
        function that returns record batches, or an object with ``__arrow_c_stream__``; it is read
        once for its length, and is one shard.
    target : str, path or list of str
        Name of the target column, several for several targets; for ``.npy`` rows another ``.npy``
        file; for ``.npz`` an array in them, ``"y"`` by default. libsvm text has its own.
    columns : list of str, optional
        Columns of the model; all but target, weight, offset and the index of a pandas frame by
        default.
    weight, offset : str or path, optional
        Column, ``.npy`` file or array in ``.npz`` archives of row weights and of offsets.
    scratch : path, optional
        Where text is spilled to, into a folder of its own that is deleted with the source; the
        system's place for temporary files by default. Runs over Parquet make a row-major copy
        there in their first pass, if the disk has room, and delete it at their end.

    Returns
    -------
    Source
        To be passed where ``X`` stands: ``Problem.linear(loss, source, ...)``.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> import stochadmm as sa
    >>> folder = tempfile.TemporaryDirectory()
    >>> X, y = Path(folder.name) / "X.npy", Path(folder.name) / "y.npy"
    >>> np.save(X, np.ones((5, 2)))
    >>> np.save(y, np.zeros(5))
    >>> source = sa.open(X, target=y)
    >>> source.n_rows, source.n_columns
    (5, 2)
    >>> folder.cleanup()
    """
    if columns is not None and listed(columns) is None:
        raise ValueError(f"columns is {columns!r}, expected a list of names")
    if is_stream(path):
        if target is None:
            raise ValueError("target is missing; name the target column of the stream")
        return ArrowStreams.of(path, Asked(target, columns, weight, offset))
    return _opened(path, Request(list_files(path), target, columns, weight, offset, scratch))


def open_for(
    path: Any, fitted: Fitted, target: Any = None, weight: Any = None, offset: Any = None
) -> Source:
    """Return rows in files with the columns of a fitted model, which need no target.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from stochadmm.data import Fitted, open_for
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(Path(folder.name) / "X.npy", np.ones((5, 2)))
    >>> open_for(Path(folder.name) / "X.npy", Fitted(n_columns=2)).n_rows
    5
    >>> folder.cleanup()
    """
    return _opened(path, Request(list_files(path), target, None, weight, offset, None, fitted))


def _opened(path: Any, request: Request) -> Source:
    """Return what the format of the files makes of a request."""
    paths = request.paths
    if not paths:
        raise ValueError(f"{path!r} names no file; name one at least")
    kinds = {Path(p).suffix.lower() for p in paths}
    if len(kinds) > 1:
        raise ValueError(f"{path} names files of several kinds ({', '.join(sorted(kinds))})")
    kind = kinds.pop()
    for known in formats():
        if kind in known.endings:
            return known.open(request)
    endings = ", ".join(sorted(frozenset().union(*(known.endings for known in formats()))))
    raise ValueError(f"{paths[0]} ends in {kind!r}, expected one of {endings}")


def list_files(path: Any) -> list[str]:
    """Return the files that a name, a folder, a pattern or a list of them stands for."""
    parts = listed(path)
    if parts is not None:
        return [name for part in parts for name in list_files(part)]
    try:
        text = os.fspath(path)
    except TypeError:
        raise ValueError(
            f"{type(path).__name__} names no file; pass names of files, or a function that makes "
            "a stream of record batches each time it is called"
        ) from None
    if Path(text).is_dir():
        return _of_folder(Path(text))
    if Path(text).is_file():  # a name with brackets is no pattern where there is such a file
        return [text]
    if not has_magic(text):
        raise FileNotFoundError(f"{text} is not a file; name a file, a folder or a pattern")
    found = sorted(glob(text))
    if not found:
        raise FileNotFoundError(f"no file matches {text}")
    return found


def _of_folder(folder: Path) -> list[str]:
    """Return the file that marks a folder as one source, or all that it stands for."""
    for known in formats():
        if known.marker is not None and (folder / known.marker).is_file():
            return [str(folder / known.marker)]
    every: set[str] = set()
    for is_text in (False, True):
        endings = {e for known in formats() if known.is_text is is_text for e in known.in_folders}
        found = sorted(str(p) for p in folder.iterdir() if p.suffix.lower() in endings)
        if found:
            return found
        every |= endings
    kinds = ", ".join(sorted(every))
    raise FileNotFoundError(f"the folder {folder} holds no file that ends in {kinds}")
