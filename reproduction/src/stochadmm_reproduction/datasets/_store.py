"""Where the files of the real data sets are found, fetched to and kept after parsing."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import urllib.parse
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import replacing

Arrays = dict[str, NDArray[Any]]

# Part of the name of every parsed file: raise it when the parsers change what they write.
_FORMAT = 1

_md5 = partial(hashlib.md5, usedforsecurity=False)


@cache
def checksums() -> dict[str, str]:
    """Return the md5 of every known file, by its path in the data folder."""
    text = resources.files(__package__).joinpath("checksums.txt").read_text(encoding="utf-8")
    return {path: md5 for md5, path in (line.split(maxsplit=1) for line in text.splitlines())}


def data_folder() -> Path | None:
    """Return the folder named by ``STOCHADMM_DATA``, None when it is not set."""
    value = os.environ.get("STOCHADMM_DATA")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder for downloads and parsed copies; it may not exist yet.

    ``STOCHADMM_CACHE`` if set, otherwise ``stochadmm`` in the platform's cache folder.
    """
    if value := os.environ.get("STOCHADMM_CACHE"):
        return Path(value).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "stochadmm"


def find(path: str) -> Path | None:
    """Return where the file is, None when it is neither in the data folder nor in the cache.

    Parameters
    ----------
    path : str
        Path within the data folder, for example ``"a9a/a9a.gz"``.
    """
    for place in _places():
        if (place / path).is_file():
            return place / path
    return None


def fetch(path: str) -> Path:
    """Return where the file is, with its checksum verified; download it if there is a source.

    Parameters
    ----------
    path : str
        Path within the data folder, for example ``"a9a/a9a.gz"``.

    Raises
    ------
    FileNotFoundError
        The file is nowhere and ``STOCHADMM_DATA_URL`` is not set.
    ValueError
        The path is not known, or ``STOCHADMM_DATA_URL`` is no address.
    ConnectionError
        The download failed.
    OSError
        The checksum is wrong, or the cache cannot be written.
    """
    if path not in checksums():
        raise ValueError(
            f"{path!r} is no file of a known data set; the command "
            "`python -m stochadmm_reproduction.datasets list` shows them"
        )
    found = find(path)
    if found is not None:
        _verify(found, path, f"{found}", "replace or delete this file")
        return found
    url = os.environ.get("STOCHADMM_DATA_URL")
    if not url:
        places = ", ".join(str(place) for place in _places())
        raise FileNotFoundError(
            f"{path} is not in {places}; put it there, or set STOCHADMM_DATA to a folder that has "
            "it, or STOCHADMM_DATA_URL to an address to download it from"
        )
    if urllib.parse.urlsplit(url).scheme not in ("http", "https", "ftp", "file"):
        raise ValueError(
            f"STOCHADMM_DATA_URL is {url!r}, expected an address such as https://host/folder; a "
            "folder of this machine is named by STOCHADMM_DATA"
        )
    target = cache_folder() / path
    with _replacing(target) as temporary:
        source = f"{url.rstrip('/')}/{urllib.parse.quote(path)}"
        _download(source, temporary)
        _verify(temporary, path, source, "try again, or check STOCHADMM_DATA_URL")
    return target


def parsed(name: str, files: Sequence[str], read: Callable[..., Arrays]) -> Arrays:
    """Return ``read(*paths)``, kept in the cache as one ``.npz`` for the next time.

    The copy is named after the checksums of the files: another version is never mistaken for it.
    """
    known = checksums()
    key = repr((_FORMAT, [known[path] for path in files])).encode()
    copy = cache_folder() / "parsed" / f"{name}-{_md5(key).hexdigest()[:12]}.npz"
    # A copy that cannot be read is as good as none: the files are parsed again and replace it.
    try:
        with copy.open("rb") as source, np.load(source, allow_pickle=False) as stored:
            return {field: stored[field] for field in stored.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile):
        pass
    arrays: dict[str, Any] = read(*(fetch(path) for path in files))
    try:
        with _replacing(copy) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)
    except OSError as error:
        warnings.warn(f"data sets will be parsed at every load: {error}", stacklevel=2)
    return arrays


def _places() -> list[Path]:
    folder = data_folder()
    return [cache_folder()] if folder is None else [folder, cache_folder()]


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Give a file that becomes ``target`` at once on success and disappears otherwise."""
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = stack.enter_context(replacing(target))
        except OSError as error:
            raise PermissionError(
                f"cannot write to {target.parent} ({error.strerror}); name a folder that can be "
                "written in STOCHADMM_CACHE"
            ) from error
        yield temporary


def _download(url: str, target: Path, seconds: float = 60.0) -> None:
    # a tenth of the package's import, and few download
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    try:
        with (
            urllib.request.urlopen(url, timeout=seconds) as source,
            target.open("wb") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConnectionError(
            f"could not download {url} ({reason}); check the network and STOCHADMM_DATA_URL, or "
            "copy the file into the folder named by STOCHADMM_DATA"
        ) from error


def _verify(file: Path, path: str, origin: str, remedy: str) -> None:
    with file.open("rb") as stream:
        found = hashlib.file_digest(stream, _md5).hexdigest()
    expected = checksums()[path]
    if found != expected:
        raise OSError(
            f"{origin} has the md5 {found}, expected {expected}: damaged or another version; "
            f"{remedy}"
        )
