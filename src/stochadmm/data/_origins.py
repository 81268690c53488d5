"""The user's files behind a source: what tells them apart from other ones, and from later ones."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ..base.capabilities import fact
from ._protocol import DataError


@dataclass(frozen=True)
class Origins:
    """Files as they were when a source was opened.

    Parameters
    ----------
    paths : tuple of str
        The files that the user named.
    stamps : tuple of tuples of int
        Size, time of the last change and number on the disk of each.
    copied : bool
        Whether rows are read from a copy of them, which does not change with them.
    """

    paths: tuple[str, ...]
    stamps: tuple[tuple[int, int, int], ...]
    copied: bool = False

    @classmethod
    def of(cls, paths: Sequence[Any], copied: bool = False) -> Origins:
        """Look at files."""
        names = tuple(map(str, paths))
        return cls(names, tuple(map(_stamp, names)), copied)

    @property
    def fingerprint(self) -> str:
        """From names, sizes and times of the files: those of a file put back are the same."""
        found = [(path, *stamp[:2]) for path, stamp in zip(self.paths, self.stamps, strict=True)]
        return blake2b(json.dumps(found).encode(), digest_size=16).hexdigest()

    @property
    def where(self) -> str:
        """The files, for messages."""
        first, more = self.paths[0], len(self.paths) - 1
        return f"{first} and {more} more" if more else first

    def check(self) -> None:
        """Raise where a file that is read again and again is not the one that was opened."""
        if self.copied:
            return
        for path, stamp in zip(self.paths, self.stamps, strict=True):
            if _stamp(path) != stamp:
                raise DataError(
                    f"{path} has changed since it was opened; open it again, and leave it as it "
                    "is until a run has ended"
                )


def check_origins(source: object) -> None:
    """Raise where a file behind a source is not the one that was opened."""
    origins: Origins | None = fact(source, "origins")
    if origins is not None:
        origins.check()


def _stamp(path: str) -> tuple[int, int, int]:
    about = os.stat(path)
    return about.st_size, about.st_mtime_ns, about.st_ino
