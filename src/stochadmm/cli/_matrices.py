"""Files with one matrix: libsvm text, NumPy archives, and folders of arrays."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from stochadmm.base.files import refuse_false_sizes
from stochadmm.base.protocols import Array

from ._columns import Expected, Table, check_names, listed
from ._text import DAMAGED, opened_bytes

COMPRESSED = ("data", "indices", "indptr", "shape")
PARTS = {"csr": COMPRESSED, "csc": COMPRESSED, "coo": ("data", "row", "col", "shape")}
"""Members of an archive with a sparse matrix, by format, as ``scipy.sparse.save_npz`` has them."""


def read_libsvm(path: str, expected: Expected) -> Table:
    """Read ``label index:value ...`` a line.

    Where no model says it, columns are counted from one unless there is a column zero.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        with opened_bytes(path) as file:
            X, y = load_svmlight_file(file, zero_based=True)
    except (ValueError, OverflowError, *DAMAGED) as error:
        raise ValueError(f"{path} cannot be read as libsvm text: {error}") from error
    least = int(X.indices.min(initial=1))
    from_zero = least == 0 if expected.from_zero is None else expected.from_zero
    if not from_zero and least == 0:
        raise ValueError(f"{path} has a column 0, but those of the model are counted from 1")
    start = 0 if from_zero else 1
    width = max(int(X.shape[1]) - start, expected.n_columns)
    parts = (X.data, X.indices - start, X.indptr)
    X = sparse.csr_array(parts, shape=(X.shape[0], width))
    return Table(path, {"y": y}, X, from_zero=from_zero)


def read_npz(path: str) -> Table:
    """Read ``X``, or the parts of a sparse matrix, with ``y`` and ``names`` where they are."""
    try:
        refuse_false_sizes(path)
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as a .npz file: {error}") from error
    X = _matrix(path, arrays)
    if "names" not in arrays or sparse.issparse(X):
        parts = {"X", "names", "format", *COMPRESSED, *PARTS["coo"]}
        known = [name for name in arrays if name not in parts]
        return Table(path, _beside(path, {name: arrays[name] for name in known}, X), X)
    beside = _beside(path, {"y": arrays["y"]} if "y" in arrays else {}, X)
    names = [str(name) for name in arrays["names"]]
    if len(names) != X.shape[1]:
        raise ValueError(f"{path} has {len(names)} names for {X.shape[1]} columns")
    check_names(path, [*names, *beside])
    return Table(path, {name: X[:, j] for j, name in enumerate(names)} | beside)


def _matrix(path: str, arrays: dict[str, Array]) -> Any:
    """Return ``X``, or a sparse matrix by its format, as ``scipy.sparse.save_npz`` names it."""
    if "X" in arrays and arrays["X"].ndim == 2:
        return _numeric(path, "X", arrays["X"])
    kind = np.asarray(arrays.get("format", "csr")).astype(str).item()
    if kind not in PARTS:
        raise ValueError(f"{path} holds a sparse matrix as {kind}; save it as csr, csc or coo")
    if not set(PARTS[kind]) <= set(arrays):
        raise ValueError(
            f"{path} has {listed(sorted(arrays))}; expected X with two dimensions, or "
            f"{', '.join(PARTS[kind])} of a {kind.upper()} matrix"
        )
    data, first, second, shape = (arrays[name] for name in PARTS[kind])
    data = _numeric(path, "data", data)
    try:
        if kind == "coo":
            X: Any = sparse.coo_array((data, (first, second)), shape=tuple(shape))
        else:
            make = sparse.csr_array if kind == "csr" else sparse.csc_array
            X = make((data, first, second), shape=tuple(shape))
            X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} does not hold a {kind.upper()} matrix: {error}") from error
    X = sparse.csr_array(X)
    X.sum_duplicates()
    return X


def _numeric(path: str, name: str, values: Array) -> Array:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} in {path} holds {values.dtype}, expected numbers")
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _beside(path: str, arrays: dict[str, Array], X: Any) -> dict[str, Array]:
    """Return the arrays with one value per row: targets, weights, offsets."""
    rows = X.shape[0]
    if "y" in arrays and arrays["y"].shape not in ((rows,), (rows, 1)):
        shape = arrays["y"].shape
        raise ValueError(f"y in {path} has the shape {shape}, expected one value for {rows} rows")
    return {
        name: _column(path, name, values)
        for name, values in arrays.items()
        if values.shape in ((rows,), (rows, 1)) and (name == "y" or values.dtype.kind in "fiubUS")
    }


def _column(path: str, name: str, values: Array) -> Array:
    """Return one number, truth or text per row."""
    flat = values.ravel()
    if flat.dtype.kind in "US":
        return flat.astype(str).astype(object)
    return flat if flat.dtype.kind == "b" else _numeric(path, name, flat)


def npy_chunks(path: str, file: str, rows: int, expected: Expected) -> Iterator[Table]:
    """Yield the rows of a ``.npy`` file, or of a folder with the arrays of a CSR matrix."""
    try:
        if Path(file).name != "indptr.npy":
            X: Any = np.load(file, mmap_mode="r", allow_pickle=False)
        else:
            folder = Path(file).parent
            data, indices, indptr = (
                np.load(folder / f"{name}.npy", mmap_mode="r")
                for name in ("data", "indices", "indptr")
            )
            width = folder / "n_columns.txt"
            count = int(width.read_text()) if width.is_file() else 1 + int(indices.max(initial=-1))
            shape = (len(indptr) - 1, max(count, expected.n_columns))
            X = sparse.csr_array((data, indices, indptr), shape=shape)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as .npy: {error}") from error
    if X.ndim != 2 or not X.shape[0]:
        raise ValueError(f"{path} has the shape {X.shape}, expected rows and columns")
    _numeric(path, "the array", X[:0])
    for first in range(0, X.shape[0], rows):
        part = X[first : first + rows]
        yield Table(path, {}, part if sparse.issparse(part) else np.asarray(part), first=first)
