"""``stochadmm.open``: a source from names of files."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any, cast

import numpy as np

from ._files import CSRFiles, Npy, NpyFiles, spill
from ._parquet import ArrowFiles, is_parquet, pyarrow
from ._protocol import Block, DataError, Shard, Source

ARROW = {".parquet", ".pq", ".arrow", ".feather", ".ipc"}
TEXT = {".csv", ".tsv"}
LIBSVM = {".svm", ".libsvm", ".svmlight"}
PIECE = 1 << 25
"""Bytes of text that are parsed at a time."""
WIDEST = 2**31 - 1


def open_source(
    path: Any, target: Any = None, columns: Sequence[str] | None = None, weight: Any = None,
    offset: Any = None, *, scratch: str | Path | None = None,
) -> Source:  # fmt: skip
    """Describe rows in files; nothing but headers (and columns of texts) is read.

    Parameters
    ----------
    path : str, path or list of them
        One file, a folder, or a pattern such as ``"folder/*.parquet"``. Parquet and Arrow IPC
        files; ``.npy`` files; a folder with ``data.npy``, ``indices.npy``, ``indptr.npy`` and
        ``y.npy`` (the arrays of a CSR matrix); CSV, TSV and libsvm text, which are read once, into
        a scratch folder of fast files.
    target : str, path or list of str
        Name of the target column, several for several targets; for ``.npy`` rows another ``.npy``
        file. libsvm text has its own.
    columns : list of str, optional
        Columns of the model; all but target, weight and offset by default.
    weight, offset : str or path, optional
        Column, or ``.npy`` file, of row weights and of offsets.
    scratch : path, optional
        Where text is spilled to; a temporary folder, deleted with the source, by default.

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
    paths = _files(path)
    kinds = {Path(p).suffix.lower() for p in paths}
    if len(kinds) > 1:
        raise ValueError(f"{path} names files of several kinds ({', '.join(sorted(kinds))})")
    kind = kinds.pop()
    if kind == ".npy":
        return _npy(paths, target, weight, offset)
    if kind in LIBSVM:
        return _spilled(LibsvmText(paths[0]), scratch)
    if kind not in ARROW | TEXT:
        known = ", ".join(sorted({".npy"} | ARROW | TEXT | LIBSVM))
        raise ValueError(f"{paths[0]} ends in {kind!r}, expected one of {known}")
    if target is None:
        raise ValueError(f"target is missing; name the target column of {paths[0]}")
    if kind in ARROW:
        return ArrowFiles.of(paths, target, columns, weight, offset)
    return _csv(paths, target, columns, weight, offset, scratch)


def _files(path: Any) -> list[str]:
    if isinstance(path, (list, tuple)):
        return [name for part in path for name in _files(part)]
    text = str(path)
    if has_magic(text):
        found = sorted(glob(text))
        if not found:
            raise FileNotFoundError(f"no file matches {text}")
        return found
    if Path(text).is_dir():
        if (Path(text) / "indptr.npy").is_file():
            return [str(Path(text) / "indptr.npy")]
        found = sorted(str(p) for p in Path(text).iterdir() if p.suffix.lower() in ARROW)
        if not found:
            raise FileNotFoundError(f"the folder {text} holds no Parquet or Arrow file")
        return found
    if not Path(text).is_file():
        raise FileNotFoundError(f"{text} is not a file; name a file, a folder or a pattern")
    return [text]


def _npy(paths: list[str], target: Any, weight: Any, offset: Any) -> Source:
    if len(paths) > 1:
        raise ValueError("several .npy files cannot be joined; pass one")
    folder = Path(paths[0]).parent
    more: dict[str, Any] = {
        name: Npy.of(value)
        for name, value in (("weight", weight), ("offset", offset))
        if value is not None
    }
    if Path(paths[0]).name == "indptr.npy":
        parts: dict[str, Any] = {
            name: Npy.of(folder / f"{name}.npy") for name in ("data", "indices", "indptr")
        }
        y = Npy.of(folder / "y.npy" if target is None else target)
        width = folder / "n_columns.txt"
        if width.is_file():
            n_columns = int(width.read_text())
        else:
            n_columns = 1 + int(np.load(folder / "indices.npy", mmap_mode="r").max(initial=-1))
        return CSRFiles(**parts, y=y, n_columns=n_columns, **more)
    if target is None:
        raise ValueError(f"target is missing; name the .npy file of the targets of {paths[0]}")
    return NpyFiles(Npy.of(paths[0]), Npy.of(target), **more)


# ---------------------------------------------------------------- text


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


def _spilled(text: Any, scratch: str | Path | None) -> Source:
    folder = _scratch(scratch)
    made = spill(text, folder)
    if isinstance(made, CSRFiles):
        width = _from_zero(made.indices.path)
        made = CSRFiles(made.data, made.indices, made.indptr, made.y, width)
        (folder / "n_columns.txt").write_text(str(width))
    return cast(Source, _kept_while(made, folder, scratch))


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


def _scratch(scratch: str | Path | None) -> Path:
    return Path(tempfile.mkdtemp(prefix="stochadmm-") if scratch is None else scratch)


def _kept_while(source: Any, folder: Path, scratch: str | Path | None) -> Any:
    """Delete a scratch folder of our own together with the source."""
    if scratch is None:
        weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
    return source


def _csv(
    paths: list[str], target: Any, columns: Any, weight: Any, offset: Any, scratch: Any
) -> Source:
    """Read text once into an Arrow file, whose columns are then taken by name."""
    pa = pyarrow()
    import pyarrow.csv as text

    folder = _scratch(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for number, path in enumerate(paths):
        out = folder / f"{number:05}.arrow"
        delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
        options = text.ReadOptions(block_size=PIECE)
        try:
            with text.open_csv(path, options, text.ParseOptions(delimiter=delimiter)) as reader:
                with pa.ipc.new_file(str(out), reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
        except pa.ArrowInvalid as error:
            raise DataError(f"{path} cannot be read as CSV: {error}") from error
        made.append(str(out))
    found = ArrowFiles.of(made, target, columns, weight, offset)
    return cast(Source, _kept_while(found, folder, scratch))


__all__ = ["is_parquet", "open_source"]
