"""Files that are larger than the memory limit, or several: rows are read block by block."""

from __future__ import annotations

import os
from glob import has_magic
from pathlib import Path
from typing import Any

import numpy as np

from stochadmm.data import n_outputs, open_source
from stochadmm.risk.looks import targets_of
from stochadmm.risk.streamed import as_bytes

from ._columns import check_names
from ._design import Design
from ._setting import FEW, Asked, Setting, check_offset, loss_for, prepare
from ._tables import ARROW, LIBSVM, TEXT, files_of, heading, read_table
from ._text import PLAIN, Dialect, is_packed

GROWTH = {
    **dict.fromkeys(TEXT, 12),
    **dict.fromkeys(ARROW, 4),
    **dict.fromkeys(LIBSVM, 6),
    ".npz": 3,
}
"""Bytes in memory per byte of a file, about: cells of text are read as Python objects first."""
UNPACKED = 4
"""Bytes of text per packed byte, about."""
HALF = "half"
"""The default of ``--memory``."""


def limit_of(memory: str) -> int:
    """Return the bytes of ``--memory``, half of this machine's by default (2 GiB if unknown)."""
    if memory != HALF:
        return as_bytes(memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 1 << 31


def why_streamed(path: str, memory: str, dialect: Dialect = PLAIN) -> str | None:
    """Return why rows are read block by block; None for one file that fits into memory."""
    if path == "-":
        return None
    if Path(path).is_dir() or (has_magic(path) and not Path(path).is_file()):
        return f"{path} stands for a folder or several files, which are streamed"
    kind = dialect.kind_of(path)
    if kind == ".npy":
        return f"{path} is a .npy file, which is streamed"
    if kind not in GROWTH or not Path(path).is_file():
        return None
    growth = GROWTH[kind] * (UNPACKED if is_packed(path) else 1)
    if growth * Path(path).stat().st_size > limit_of(memory):
        if is_packed(path):
            raise ValueError(
                f"{path} is larger than the memory limit, and packed rows are not streamed; "
                "unpack it first"
            )
        return f"{path} is larger than the memory limit, so its rows are streamed"
    return None


def opened(path: str, asked: Asked) -> Any:
    """Return the rows of files as a source; columns to drop are left out."""
    file = files_of(path)[0]
    kind, targets = Path(file).suffix.lower(), asked.targets
    target = targets[0] if len(targets) == 1 else targets
    beside = {"weight": asked.weight, "offset": asked.offset}
    if kind not in {*TEXT, *ARROW}:
        if asked.dropped:
            raise ValueError(f"--drop names columns, but {path} has one matrix without names")
        named = None if target == "y" and kind in {".npy", *LIBSVM} else target
        return open_source(path, target=named, **beside)
    known = heading(file)
    for name in targets:
        known.column(name, "target")
    kept = known.features(asked.taken, asked.dropped)
    return open_source(path, target=target, columns=kept, **beside)


def design_of(source: Any) -> Design:
    """Return how the columns of a source were made, as for a table."""
    if not source.names:
        return Design({}, int(source.n_columns))
    levels = {
        name: None if kinds is None else [kind.strip() for kind in kinds]
        for name, kinds in source.levels.items()
    }
    design = Design(levels, int(source.n_columns))
    check_names("the streamed table", design.names)
    return design


class StreamedSetting(Setting):
    """A setting whose rows, targets, weights and offsets are read block by block."""

    streamed = True

    def __init__(self, path: str, asked: Asked, beyond: str) -> None:
        needs = {
            "terms need": asked.has_terms,
            "--exposure needs": asked.exposure,
            "--missing needs": asked.missing,
        }
        for what, given in needs.items():
            if given:
                raise ValueError(f"{beyond}; {what} rows in memory: one file, within --memory")
        if asked.graph == "glasso":
            raise ValueError(
                f"{beyond}; --graph glasso needs rows in memory: one file, within --memory"
            )
        source = opened(path, asked)
        if n_outputs(source) is not None and len(asked.targets) == 1:
            raise ValueError(f"{beyond}; its target is a matrix, expected one number per row")
        default = "" if asked.loss else _default_loss(asked, source)
        super().__init__(path, asked, asked.checked_loss(default), design_of(source), source)
        known = heading(files_of(path)[0]).notes([*asked.taken, *asked.dropped])
        self.notes = ["rows were read block by block", *known]
        check_offset(self)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.n_rows)

    @property
    def labels(self) -> Any:
        """The different labels of a classifier; one read."""
        return targets_of(self.X, most_classes=self.n_rows).classes


def setting_of(data: str, asked: Asked, memory: str = HALF, dialect: Dialect = PLAIN) -> Setting:
    """Return rows in memory or in files, and the estimator of the options."""
    beyond = why_streamed(data, memory, dialect)
    if beyond is None:
        return prepare(read_table(data, dialect=dialect), asked)
    if dialect != PLAIN:
        raise ValueError(
            f"{beyond}; --sep, --decimal, --encoding and --format need rows in memory: one file, "
            "within --memory"
        )
    return StreamedSetting(data, asked, beyond)


def _default_loss(asked: Asked, source: Any) -> str:
    """Return the loss for the targets of a source; one read."""
    found = targets_of(source, most_classes=FEW)
    return "logistic" if np.isnan(found.low) else loss_for(asked.targets, found.classes)
