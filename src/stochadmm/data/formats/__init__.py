"""Formats of files that ``stochadmm.open`` reads: one module each, found by its presence.

A module here offers ``FORMAT``. Nothing else has to be told of a new one.
"""

from __future__ import annotations

import pkgutil
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

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

    def named_target(self) -> Any:
        """Return the target, which must be given."""
        if self.target is None:
            raise ValueError(f"target is missing; name the target column of {self.paths[0]}")
        return self.target

    def scratch_folder(self) -> Path:
        """Return the folder that rows are spilled to."""
        made = tempfile.mkdtemp(prefix="stochadmm-") if self.scratch is None else self.scratch
        folder = Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def kept_while(self, source: S, folder: Path) -> S:
        """Return the source; a scratch folder of our own is deleted together with it."""
        if self.scratch is None:
            weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
        return source


@dataclass(frozen=True)
class Format:
    """Endings of the names of files, and who reads them."""

    endings: frozenset[str]
    open: Callable[[Request], Source]
    in_folders: bool = False
    """A folder stands for all its files of this format."""
    marker: str | None = None
    """A file that makes its folder one source of this format."""


@cache
def formats() -> tuple[Format, ...]:
    """Return the formats of all modules of this folder, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").FORMAT for name in names)


__all__ = ["Format", "Request", "formats"]
