"""The spill: rows of any source in files that read fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ..base.protocols import Array
from ..base.validation import is_sparse
from ._csr_files import CSRFiles
from ._files import Npy, NpyFiles
from ._protocol import Source

SPILL_BYTES = 1 << 24


def spill(source: Source, folder: str | Path) -> Source:
    """Write the rows of a source to files that read fast, and return these as a source.

    Dense rows become one row-major ``.npy`` file, sparse ones the three arrays of CSR; targets,
    weights and offsets a file each. It takes one read of the source.

    Parameters
    ----------
    source : Source
        What ``stochadmm.open`` returns, or any other source of rows.
    folder : path
        Where the files are written; it is created if it does not exist.

    Returns
    -------
    Source
        The same rows, read from the files.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> import stochadmm as sa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = sa.data.spill(sa.data.ArraySource(np.ones((5, 2)), np.zeros(5)), folder)
    ...     source.n_rows, source.n_columns
    (5, 2)
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, _Writer] = {}
    entries = 0
    for shard in source.shards:
        for block in shard.blocks(SPILL_BYTES):
            arrays: dict[str, Any] = {"y": block.y, "weight": block.weight, "offset": block.offset}
            if is_sparse(block.X):
                arrays |= {"data": block.X.data, "indices": block.X.indices.astype(np.int32)}
                starts = block.X.indptr.astype(np.int64) + entries
                arrays["indptr"] = (
                    starts if not entries and "indptr" not in writers else starts[1:]
                )
                entries += int(block.X.nnz)
            else:
                arrays["X"] = np.ascontiguousarray(block.X)
            for name, array in arrays.items():
                if array is not None:
                    if name not in writers:
                        writers[name] = _Writer(folder / f"{name}.npy", array)
                    writers[name].add(array)
    made: dict[str, Any] = {name: writer.close() for name, writer in writers.items()}
    if "X" in made:
        weight, offset = (made.get(name) for name in ("weight", "offset"))
        return NpyFiles(made["X"], made["y"], weight, offset, source.names)
    return CSRFiles(**made, n_columns=source.n_columns, names=source.names)


class _Writer:
    """Appends to a ``.npy`` file whose length is written at the end."""

    def __init__(self, path: Path, like: Array) -> None:
        if like.dtype.kind not in "fiub":  # the longest text is not known beforehand
            raise TypeError(
                f"{path.stem} holds {like.dtype}, expected numbers; number the classes"
            )
        self.path, self.dtype, self.shape, self.n = path, like.dtype, like.shape[1:], 0
        self.file = open(path, "wb")
        self._header()

    def _header(self) -> None:
        # a number of rows with many digits, so that the header keeps its length
        spec = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.n, *self.shape),
        }
        text = repr(spec).ljust(240)
        body = text.encode("latin1") + b"\n"
        self.file.write(npy.magic(1, 0) + len(body).to_bytes(2, "little") + body)

    def add(self, array: Array) -> None:
        if array.shape[1:] != self.shape:
            raise ValueError(f"a block has shape {array.shape}, expected (..., {self.shape})")
        self.file.write(np.ascontiguousarray(array, dtype=self.dtype).data)
        self.n += len(array)

    def close(self) -> Npy:
        self.file.seek(0)
        self._header()
        self.file.close()
        return Npy.of(self.path)
