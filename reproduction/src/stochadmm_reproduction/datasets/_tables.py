"""Tables of numbers: a9a, covtype, protein, school."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from stochadmm.datasets import Dataset

from ._scaling import Array, halves, signs, standardize_columns
from ._store import Arrays, fetch, parsed

_COVER_TYPES = (
    "spruce/fir",
    "lodgepole pine",
    "ponderosa pine",
    "cottonwood/willow",
    "aspen",
    "douglas-fir",
    "krummholz",
)


def read_svmlight(path: Path, n_features: int) -> tuple[sp.csr_array, Array]:
    """Return the rows and labels of a libsvm file."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=n_features)
    return sp.csr_array(X), y


def load_a9a(*, sparse: bool = True) -> Dataset:
    """Return the census data, CSR unless ``sparse=False``."""
    parts = [read_svmlight(fetch(path), 123) for path in ("a9a/a9a.gz", "a9a/a9a.t.gz")]
    (X, y), (X_test, y_test) = parts
    return Dataset(
        name="a9a",
        X=X if sparse else X.toarray(),
        y=y,
        X_test=X_test if sparse else X_test.toarray(),
        y_test=y_test,
        target_names=("at most 50K", "above 50K"),
    )


def load_covtype(
    *, binary: bool = True, split: bool = False, standardize: bool = False, seed: int = 0
) -> Dataset:
    """Return the forest data: class 2 against the rest, or all seven classes.

    ``split`` makes two random halves; ``standardize`` scales the ten quantitative columns.
    """
    arrays = parsed("covtype", ["covtype/covtype.csv.xz"], _read_covtype)
    cover = arrays["cover"].astype(np.int64) - 1
    X = arrays["X"].astype(np.float64)
    data = _split(X, signs(cover == 1) if binary else cover, split, seed)
    X, y, X_test, y_test = data
    if standardize:
        X, X_test = standardize_columns(X, X_test, slice(10))
    return Dataset(
        name="covtype",
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        feature_names=tuple(arrays["columns"].tolist()),
        target_names=("other", _COVER_TYPES[1]) if binary else _COVER_TYPES,
    )


def load_protein(*, split: bool = True, standardize: bool = False, seed: int = 0) -> Dataset:
    """Return the homology data in two random halves, or whole with ``split=False``."""
    arrays = parsed("protein", ["protein/bio_train.dat.xz"], _read_protein)
    X, y, X_test, y_test = _split(arrays["X"], signs(arrays["homologous"]), split, seed)
    if standardize:
        X, X_test = standardize_columns(X, X_test)
    return Dataset(
        name="protein",
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        target_names=("not homologous", "homologous"),
    )


def load_school() -> Dataset:
    """Return the exam scores, one task per school."""
    from scipy.io import loadmat

    cells = loadmat(fetch("school/school.mat"))
    rows, scores = cells["X"].ravel(), cells["Y"].ravel()
    return Dataset(
        name="school",
        X=np.concatenate(rows).astype(np.float64),
        y=np.concatenate(scores).ravel().astype(np.float64),
        tasks=np.repeat(np.arange(len(rows)), [len(part) for part in rows]),
        task_names=tuple(f"school {k + 1}" for k in range(len(rows))),
    )


def _split(
    X: Array, y: Array, split: bool, seed: int
) -> tuple[Array, Array, Array | None, Array | None]:
    if not split:
        return X, y, None, None
    train, test = halves(len(X), seed)
    return X[train], y[train], X[test], y[test]


def _read_covtype(path: Path) -> Arrays:
    with lzma.open(path, "rt", encoding="ascii") as stream:
        columns = stream.readline().strip().split(",")
        table = np.loadtxt(stream, delimiter=",", dtype=np.int16)
    return {"X": table[:, :-1], "cover": table[:, -1], "columns": np.array(columns[:-1])}


def _read_protein(path: Path) -> Arrays:
    with lzma.open(path, "rt", encoding="ascii") as stream:
        table = np.loadtxt(stream)
    return {"X": table[:, 3:], "homologous": table[:, 2] == 1.0}
