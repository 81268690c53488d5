"""Anybody's data: files of rows that an experiment names by their path."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stochadmm.datasets import Dataset

if TYPE_CHECKING:
    from .config import DataSpec

FORMATS = {
    "libsvm": (".libsvm", ".svm", ".svmlight", ".txt"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet",),
    "npz": (".npz",),
}
"""Formats of files, and the endings that they are told by; .gz, .bz2 and .xz may follow."""
PACKED = (".gz", ".bz2", ".xz")


def check(spec: DataSpec, where: str) -> None:
    """Raise where a data set of one's own cannot be read as it is asked for."""
    assert spec.path is not None
    if not Path(spec.path).is_file():
        raise ValueError(f"{where}: there is no file {spec.path}")
    form = format_of(spec, where)
    if form in ("csv", "parquet") and spec.target is None:
        raise ValueError(f"{where}: {spec.name} needs a target, the name of a column")
    if form == "libsvm" and spec.target is not None:
        raise ValueError(f"{where}: LIBSVM rows begin with their target; leave out target")
    if spec.graph == "given" and spec.edges is None:
        raise ValueError(f"{where}: graph is 'given', but {spec.name} names no edges")
    if spec.edges is not None and not Path(spec.edges).is_file():
        raise ValueError(f"{where}: edges: there is no file {spec.edges}")


def format_of(spec: DataSpec, where: str = "") -> str:
    """Return the format of a file: as it is named, or by its ending."""
    begin = f"{where}: " if where else ""
    if spec.format is not None:
        if spec.format not in FORMATS:
            raise ValueError(f"{begin}format is {spec.format!r}, expected {', '.join(FORMATS)}")
        return spec.format
    endings = [e for e in Path(str(spec.path)).suffixes if e not in PACKED]
    for form, known in FORMATS.items():
        if endings and endings[-1] in known:
            return form
    raise ValueError(
        f"{begin}the format of {spec.path} is not told by its ending; add format: "
        f"{', '.join(FORMATS)}"
    )


def load(spec: DataSpec, problem: str) -> Dataset:
    """Return the rows and targets of a file, with the graph over the columns that was named."""
    X, y, names = _read(spec)
    if len(y) != X.shape[0]:
        raise ValueError(f"{spec.path} has {X.shape[0]} rows and {len(y)} targets")
    if not np.isfinite(X.data if isinstance(X, sparse.csr_array) else X).all():
        raise ValueError(f"{spec.path} has missing or infinite numbers; fill or leave them out")
    return Dataset(
        spec.name,
        X,
        _target(y, problem, spec),
        feature_names=names,
        graph=_graph(spec, X.shape[1], names),
        grid=_grid(spec, X.shape[1]),
    )


def _read(spec: DataSpec) -> tuple[Any, Any, tuple[str, ...] | None]:
    form, path = format_of(spec), str(spec.path)
    try:
        if form == "libsvm":
            return _libsvm(path)
        if form == "npz":
            with np.load(path, allow_pickle=False) as arrays:
                name = spec.target or "y"
                for key in ("X", name):
                    if key not in arrays:
                        known = ", ".join(arrays.files)
                        raise ValueError(f"there is no array {key!r}; it has {known}")
                return np.asarray(arrays["X"], dtype=float), arrays[name], None
        return _table(path, form, str(spec.target))
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as {form}: {error}") from error


def _libsvm(path: str) -> tuple[Any, Any, None]:
    import lzma

    from sklearn.datasets import load_svmlight_file

    if path.endswith(".xz"):
        with lzma.open(path) as stream:
            X, y = load_svmlight_file(stream)
    else:  # packed by gzip or bzip2, or not
        X, y = load_svmlight_file(path)
    # half full or more: dense rows are smaller and faster
    return (X.toarray() if X.nnz > 0.5 * np.prod(X.shape) else sparse.csr_array(X)), y, None


def _table(path: str, form: str, target: str) -> tuple[Any, Any, tuple[str, ...]]:
    import pandas as pd

    if form == "parquet":
        frame = pd.read_parquet(path)
    else:
        frame = pd.read_csv(path, sep="\t" if ".tsv" in path else ",")
    if target not in frame:
        from ._names import did_you_mean

        hint = did_you_mean(target, map(str, frame), f"columns: {', '.join(map(str, frame))}")
        raise ValueError(f"there is no column {target!r}; {hint[:300]}")
    rows = frame.drop(columns=target)
    texts = [str(c) for c in rows if rows[c].dtype.kind not in "biuf"]
    if texts:
        raise ValueError(f"the column {texts[0]!r} is not of numbers; encode or drop it")
    return rows.to_numpy(dtype=float), frame[target].to_numpy(), tuple(map(str, rows))


def _target(y: Any, problem: str, spec: DataSpec) -> Any:
    """Return targets as the problem takes them: numbers, signs, or classes 0, 1, ..."""
    if problem == "lasso":
        if np.asarray(y).dtype.kind not in "biuf":
            raise ValueError(f"the target of {spec.path} is not of numbers")
        return np.asarray(y, dtype=float)
    levels, codes = np.unique(y, return_inverse=True)
    if problem in ("multitask", "rows-and-rank"):
        return codes.astype(np.int64)
    if len(levels) != 2:
        raise ValueError(
            f"the target of {spec.path} has {len(levels)} values, expected the two classes of "
            f"{problem!r}; 'lasso' takes numbers, 'multitask' classes"
        )
    return np.where(codes == 1, 1.0, -1.0)


def _graph(spec: DataSpec, d: int, names: tuple[str, ...] | None) -> Any:
    """Return the edges between columns, None where they are estimated or of a grid."""
    if spec.graph == "chain":
        return np.stack([np.arange(d - 1), np.arange(1, d)], axis=1)
    if spec.edges is None:
        return None
    known = {name: k for k, name in enumerate(names or map(str, range(d)))}
    edges = []
    for number, line in enumerate(Path(spec.edges).read_text("utf-8").splitlines(), start=1):
        ends = [part.strip() for part in re.split(r"[,\t ]+", line.strip())][:2]
        if ends == [""]:
            continue
        wrong = [end for end in ends if end not in known]
        if wrong or len(ends) < 2:
            raise ValueError(
                f"{spec.edges}, line {number}: {line[:60]!r} names no two columns of the data; "
                + ("columns are " if names else "columns are numbers from 0, ")
                + (", ".join(list(known)[:5]) + " ..." if names else f"{d} of them")
            )
        edges.append(sorted(known[end] for end in ends))
    if not edges:
        raise ValueError(f"{spec.edges} has no edges, expected lines such as a,b")
    return np.unique(np.array(edges, dtype=np.intp), axis=0)


def _grid(spec: DataSpec, d: int) -> tuple[int, int] | None:
    shape = grid_shape(spec.graph)
    if shape is not None and shape[0] * shape[1] != d:
        raise ValueError(f"graph is {spec.graph!r}, but {spec.path} has {d} columns")
    return shape


def grid_shape(graph: str) -> tuple[int, int] | None:
    """Return the shape that a graph such as "28x28" names, None for any other."""
    found = re.fullmatch(r"(\d+)x(\d+)", graph)
    return None if found is None else (int(found[1]), int(found[2]))


def content(spec: DataSpec) -> list[str]:
    """Return what tells the files of a data set from others: what was run on them is not kept."""
    files = [path for path in (spec.path, spec.edges) if path is not None]
    return [_digest(path, Path(path).stat().st_mtime_ns) for path in files]


@cache
def _digest(path: str, changed: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]
