"""Rows stored in what NumPy and SciPy write, as sources."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import ArraySource, spill


def stored(kind, X, y, w, folder, cuts):
    """Return the rows as a source of that kind, None for kinds that need Arrow or are text.

    Archives hold the rows between two ``cuts`` each.
    """
    if kind == "array":
        return ArraySource(X, y, w)
    if kind == "csr":
        return ArraySource(sparse.csr_array(X), y, w)
    if kind == "memory map":
        np.save(folder / "X.npy", X)
        return ArraySource(np.load(folder / "X.npy", mmap_mode="r"), y, w)
    if kind == "npy":
        for name, array in {"X": X, "y": y, "w": w}.items():
            np.save(folder / f"{name}.npy", array)
        return sa.open(folder / "X.npy", folder / "y.npy", weight=folder / "w.npy")
    if kind == "zarr":  # two chunks in a shard; the last one is not full
        group = pytest.importorskip("zarr").open_group(folder / "rows.zarr", mode="w")
        size = -(-len(X) // (2 * len(cuts)))
        group.create_array("X", data=X, chunks=(size, 2))
        group.create_array("y", data=y)
        group.create_array("w", data=w)
        return sa.open(folder / "rows.zarr", weight="w")
    if kind == "raw csr":
        return spill(ArraySource(sparse.csr_array(X), y, w), folder)
    if not kind.startswith("npz"):
        return None
    save = np.savez if kind == "npz" else np.savez_compressed
    for number, (a, b) in enumerate(cuts):
        S = sparse.csr_array(X[a:b])
        parts = {name: getattr(S, name) for name in ("data", "indices", "indptr", "shape")}
        rows = {"X": X[a:b]} if kind == "npz" else parts
        save(folder / f"{number}.npz", **rows, y=y[a:b], w=w[a:b])
    return sa.open(folder, weight="w")
