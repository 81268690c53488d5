"""``.npy`` files, and folders with the arrays of a CSR matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._files import CSRFiles, Npy, NpyFiles
from .._protocol import DataError, Origins, Source
from . import Format, Request


def _open(asked: Request) -> Source:
    paths, target = asked.paths, asked.target
    if len(paths) > 1:
        raise ValueError("several .npy files cannot be joined; pass one")
    asked.refuse(f"the columns of {paths[0]} have no names", "columns")
    folder = Path(paths[0]).parent
    more: dict[str, Any] = {
        name: Npy.of(value)
        for name, value in (("weight", asked.weight), ("offset", asked.offset))
        if value is not None
    }
    if Path(paths[0]).name == "indptr.npy":
        parts: dict[str, Any] = {
            name: Npy.of(folder / f"{name}.npy") for name in ("data", "indices", "indptr")
        }
        y = folder / "y.npy" if target is None else target
        width = folder / "n_columns.txt"
        if width.is_file():
            n_columns = int(width.read_text())
        else:
            indices = np.load(folder / "indices.npy", mmap_mode="r")
            n_columns = 1 + int(indices.max(initial=-1))
            if n_columns < 1:
                raise DataError(f"{folder / 'indices.npy'} names no column: nothing to fit")
            if n_columns > max(1_000_000, 100 * indices.size):
                raise DataError(
                    f"{folder / 'indices.npy'} names column {n_columns - 1:,} in {indices.size:,} "
                    "entries; if that is no mistake, write the number of columns to n_columns.txt"
                )
        parts["y"] = Npy.of(y) if asked.needs_target else None
        return CSRFiles(
            **parts, n_columns=asked.width(n_columns), **more, origins=_origins(parts, more)
        )
    if target is None and asked.needs_target:
        raise ValueError(f"target is missing; name the .npy file of the targets of {paths[0]}")
    parts = {"X": Npy.of(paths[0]), "y": None if target is None else Npy.of(target)}
    return NpyFiles(**parts, **more, origins=_origins(parts, more))


def _origins(*parts: dict[str, Any]) -> Origins:
    """Return the files behind arrays."""
    files = [file for some in parts for file in some.values() if file is not None]
    return Origins.of([file.path for file in files])


FORMAT = Format(frozenset({".npy"}), _open, marker="indptr.npy")
