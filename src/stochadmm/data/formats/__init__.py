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
