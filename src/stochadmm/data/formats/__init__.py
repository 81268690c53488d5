"""Formats of files that ``stochadmm.open`` reads: one module each, found by its presence.

A module here offers ``FORMAT``. Nothing else has to be told of a new one.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ...base.validation import listed
from .._columns import Asked, Fitted
from .._protocol import Source

S = TypeVar("S")


@dataclass(frozen=True)
class Request:
    """What the user asks for: files of one format and what stands where in them."""

    paths: list[str]
    target: Any = None
    columns: Sequence[str] | None = None
    weight: Any = None
    offset: Any = None
    scratch: str | Path | None = None
    fitted: Fitted | None = None
    """The model that the rows are for, whose columns they have."""

    @property
    def needs_target(self) -> bool:
        """Whether the rows are for a fit or a score."""
        return self.fitted is None or self.fitted.with_targets

    def of_table(self) -> Asked:
        """Return what is asked of columns that have names; a target must be among it for a fit."""
        if self.target is None and self.needs_target:
            raise ValueError(f"target is missing; name the target column of {self.paths[0]}")
        return Asked(self.target, self.columns, self.weight, self.offset, self.fitted)

    def width(self, found: int) -> int:
        """Return how many columns rows have whose last ones may be empty, as those of a model."""
        return found if self.fitted is None else max(found, self.fitted.n_columns)

    def refuse(self, why: str, *names: str) -> None:
        """Raise where something is given that the format has no use for."""
        given = {
            "target": self.target,
            "columns": self.columns,
            "weight": self.weight,
            "offset": self.offset,
        }
        for name in names:
            if given[name] is not None:
                raise ValueError(f"{name} is {given[name]!r}, but {why}; leave {name} out")

    def spilled(self, write: Callable[[Path], S]) -> S:
        """Return the source that ``write`` makes in a folder of its own.

        The folder is deleted together with the source, or at once where none is made.
        """
        if self.scratch is not None:
            Path(self.scratch).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="stochadmm-", dir=self.scratch))
        try:
            source = write(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
        return source


@dataclass(frozen=True)
class Format:
    """Endings of the names of files, and who reads them."""

    endings: frozenset[str]
    open: Callable[[Request], Source]
    in_folders: frozenset[str] = frozenset()
    """Endings for which a folder stands for all its files of this format."""
    marker: str | None = None
    """A file that makes its folder one source of this format."""
    is_text: bool = False
    """A folder with other files as well stands for those: notes are text too."""


@cache
def formats() -> tuple[Format, ...]:
    """Return the formats of all modules of this folder, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").FORMAT for name in names)


__all__ = ["Format", "Request", "formats"]


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
        ``indices.npy``, ``indptr.npy`` and ``y.npy`` (the arrays of a CSR matrix); a Zarr group
        with ``X`` and ``y``, in a folder whose name ends in ``.zarr``; CSV (``.csv``,
        ``.txt``), TSV and libsvm text, which are read once, into a scratch folder of fast files.
        Several files are parts of one table. Or an Arrow stream that can be started again: a
        function that returns record batches, or an object with ``__arrow_c_stream__``; it is read
        once for its length, and is one shard.
    target : str, path or list of str
        Name of the target column, several for several targets; for ``.npy`` rows another ``.npy``
        file; for ``.npz`` and Zarr an array in them, ``"y"`` by default. libsvm text has its own.
    columns : list of str, optional
        Columns of the model; all but target, weight, offset and the index of a pandas frame by
        default.
    weight, offset : str or path, optional
        Column, ``.npy`` file or array in ``.npz`` and Zarr of row weights and of offsets.
    scratch : path, optional
        Where text is spilled to, into a folder of its own that is deleted with the source; the
        system's place for temporary files by default. Runs over Parquet and Zarr make a row-major
        copy there in their first pass, if the disk has room, and delete it at their end.

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
    from .arrow import arrow_streams, is_stream

    if columns is not None and listed(columns) is None:
        raise ValueError(f"columns is {columns!r}, expected a list of names")
    if is_stream(path):
        if target is None:
            raise ValueError("target is missing; name the target column of the stream")
        return arrow_streams(path, Asked(target, columns, weight, offset))
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
        endings = frozenset().union(*(known.endings for known in formats()))
        return [text] if Path(text).suffix.lower() in endings else _of_folder(Path(text))
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
