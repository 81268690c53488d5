"""``.npy`` files, and folders with the arrays of a CSR matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._csr_files import CSRFiles
from .._files import Npy, NpyFiles
from .._protocol import Source
from . import Format, Request


def _open(asked: Request) -> Source:
    paths, target = asked.paths, asked.target
    if len(paths) > 1:
        raise ValueError("several .npy files cannot be joined; pass one")
    if asked.columns is not None:
        raise ValueError(f"columns are named, and those of {paths[0]} have no names; save fewer")
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


FORMAT = Format(frozenset({".npy"}), _open, marker="indptr.npy")
