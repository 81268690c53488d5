"""Files that are whole or absent, and archives of arrays that are trusted with nothing.

A file is written under another name and then renamed. Archives have the ``.npz`` format of NumPy,
uncompressed; what they declare is compared with what they hold before any memory is taken.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

LONGEST = 100
"""Characters of a file's name in that of its unfinished copy: 255 bytes are allowed."""
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that are commands to terminals."""
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


@contextmanager
def replacing(path: str | Path, keep: Path | None = None) -> Iterator[Path]:
    """Give the name of an empty file that becomes ``path`` at once when the block ends.

    Until then, and for good if the block raises or the process is killed, ``path`` is what it was
    before. The content is on the disk before the name is; permissions of an older file are kept,
    a link stays a link. Devices and pipes, which cannot be replaced, are written to directly.
    The older file becomes ``keep``, where that is given; ``path`` is never absent meanwhile.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    if target.exists() and not target.is_file():
        yield target
        return
    # a name of its own: two processes may write the same file
    temporary = _beside(target)
    try:
        with open(temporary, "xb"):
            pass
        if target.exists():
            shutil.copymode(target, temporary)
        yield temporary
        _flush(temporary)
        if keep is not None and target.exists():
            _keep(target, keep)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    if os.name == "posix":
        _flush(target.parent)


def _keep(target: Path, older: Path) -> None:
    """Give a file a second name, at once; copy it where the disk knows no second names."""
    second = _beside(target)
    try:
        try:
            os.link(target, second)
        except OSError:
            shutil.copyfile(target, second)
        os.replace(second, older)
    finally:
        second.unlink(missing_ok=True)


def sweep(path: str | Path) -> None:
    """Remove what processes that were killed have left half written beside a file."""
    target = Path(os.path.realpath(path))
    half = re.compile(re.escape(f".{target.name[:LONGEST]}.") + r"[0-9a-f]{32}\.part")
    for left in target.parent.iterdir() if target.parent.is_dir() else ():
        if half.fullmatch(left.name):
            left.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    """Return a name in the same folder that nothing else has."""
    return target.with_name(f".{target.name[:LONGEST]}.{uuid4().hex}.part")


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8 that is never seen half written; folders are made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def write_rows(file: IO[str], rows: Iterable[Iterable[Any]]) -> None:
    r"""Write rows of a table as CSV, with texts that programs only show.

    Spreadsheets run what begins like a formula: a quote before it keeps it a text. Terminals obey
    escape sequences: control characters but tabs and ends of lines are left out.

    Examples
    --------
    >>> import io
    >>> from stochadmm.base.files import write_rows
    >>> write_rows(file := io.StringIO(), [["=1+1", "-5", -0.5, "a\x1b[2J"]])
    >>> file.getvalue()
    "'=1+1,-5,-0.5,a[2J\n"
    """
    csv.writer(file, lineterminator="\n").writerows(map(_cell, row) for row in rows)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = CONTROLS.sub("", value)
    if text[:1] not in ("=", "+", "-", "@", "\t"):
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


def _flush(path: Path) -> None:
    """Wait until the disk has what was written."""
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_arrays(path: str | Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of numbers as an uncompressed ``.npz`` archive that is whole or absent."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        save_arrays(file, arrays)


def save_arrays(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an archive of arrays of numbers into a file that is open."""
    objects = [name for name, array in arrays.items() if array.dtype.hasobject]
    if objects:  # NumPy 2.0 would pickle them
        raise ValueError(f"{objects[0]} holds Python objects, expected numbers or text")
    save: Any = np.savez  # names of arrays are ours, not its options
    save(file, **arrays)


def read_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive written by ``write_arrays``.

    Nothing in it is run, and no more memory is taken than the file is long.

    Raises
    ------
    ValueError
        The file is no such archive, is cut short, or declares what it does not hold.
    """
    with open(path, "rb") as file:
        return load_arrays(file)


def load_arrays(file: IO[bytes]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive that ends an open file; errors as for `read_arrays`."""
    try:
        return _members(file, os.fstat(file.fileno()).st_size)
    except (ValueError, MemoryError):
        raise
    except Exception as error:  # damage shows as almost any error of the readers below
        raise ValueError(str(error) or "it is damaged") from error


def _members(file: IO[bytes], size: int, most: int = 1000) -> dict[str, NDArray[Any]]:
    with ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > most or len({m.filename for m in members}) < len(members):
            raise ValueError("it has too many members, or one twice")
        if sum(m.file_size for m in members) > size:
            raise ValueError("it declares more data than it contains")
        return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}


def _member(archive: ZipFile, member: ZipInfo) -> NDArray[Any]:
    if member.compress_type != ZIP_STORED or not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename!r} is no plain array")
    with archive.open(member) as stream:
        shape, by_column, dtype = _header(stream)
        if dtype.hasobject:
            raise ValueError(f"{member.filename!r} is no plain array")
        _refuse_false_size(member, shape, dtype, stream.tell())
        content = np.frombuffer(stream.read(), dtype=dtype)  # reading to the end checks the sum
    return content.reshape(shape, order="F" if by_column else "C").copy()


def refuse_false_sizes(path: str | Path) -> None:
    """Raise ValueError where an array of an archive declares another size than it has.

    Whoever reads it would first take the memory that is declared.
    """
    with ZipFile(path) as archive:
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as stream:
                    shape, _, dtype = _header(stream)
                    if not dtype.hasobject:
                        _refuse_false_size(member, shape, dtype, stream.tell())


def _refuse_false_size(
    member: ZipInfo, shape: tuple[int, ...], dtype: np.dtype[Any], begin: int
) -> None:
    if prod(shape) * dtype.itemsize != member.file_size - begin:
        raise ValueError(f"{member.filename!r} declares another size than it has")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise ValueError(f"it has an array of the unknown version {version}")
    return HEADERS[version](stream)
