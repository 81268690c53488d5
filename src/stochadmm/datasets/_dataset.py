"""The container that loaders and generators return, and the transformations they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from ..base.validation import is_sparse

Array = NDArray[Any]
Seed = int | np.random.Generator | None
Matrix = Any
"""An ndarray or a ``scipy.sparse.csr_array``, rows are examples."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, targets, and the structure over the columns where there is one.

    Attributes
    ----------
    name : str
        Name given to ``load``, or of the generator.
    X, X_test : ndarray or csr_array of shape (n_rows, n_features)
        ``X_test`` is None when there is no test part.
    y, y_test : ndarray
        Two classes: -1.0 / +1.0. More classes: integers ``0 .. C-1``, named by ``target_names``.
        Regression: floats, one column per task if there are several.
    feature_names, target_names, task_names : tuple of str or None
        Names of the columns, the classes and the tasks.
    graph : ndarray of shape (n_edges, 2) or None
        Pairs of columns, each edge once, smaller index first.
    groups : dict or None
        Name of the group -> indices of its columns; groups may overlap.
    tasks, tasks_test : ndarray or None
        Task of each row, an index into ``task_names``.
    grid : tuple of int or None
        Shape of the image that a row holds, in C order.
    coef : ndarray or None
        The coefficients that a generator planted.
    description : str
        What it is and where it comes from.
    """

    name: str
    X: Matrix
    y: Array
    X_test: Matrix | None = None
    y_test: Array | None = None
    feature_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    graph: NDArray[np.intp] | None = None
    groups: dict[str, NDArray[np.intp]] | None = None
    tasks: NDArray[np.intp] | None = None
    tasks_test: NDArray[np.intp] | None = None
    task_names: tuple[str, ...] | None = None
    grid: tuple[int, ...] | None = None
    coef: Array | None = None
    description: str = ""

    def __repr__(self) -> str:
        parts = [f"X={_summary(self.X)}", f"y={_summary(self.y)}"]
        if self.X_test is not None:
            parts.append(f"X_test={_summary(self.X_test)}")
        if self.graph is not None:
            parts.append(f"graph: {len(self.graph)} edges")
        if self.groups is not None:
            parts.append(f"groups: {len(self.groups)}")
        if self.task_names is not None:
            parts.append(f"tasks: {len(self.task_names)}")
        if self.grid is not None:
            parts.append("grid: " + "x".join(map(str, self.grid)))
        return f"Dataset({self.name!r}, {', '.join(parts)})"


def finish(data: Dataset, unit_rows: bool, dtype: DTypeLike) -> Dataset:
    """Return the data in one floating type, with rows of unit norm if asked for."""

    def rows(X: Matrix) -> Matrix:
        X = X.astype(dtype, copy=False)
        return scale_rows(X) if unit_rows else X

    def target(y: Array) -> Array:
        return y.astype(dtype, copy=False) if y.dtype.kind == "f" else y

    return replace(
        data,
        X=rows(data.X),
        y=target(data.y),
        X_test=None if data.X_test is None else rows(data.X_test),
        y_test=None if data.y_test is None else target(data.y_test),
    )


def scale_rows(X: Matrix) -> Matrix:
    """Return X with rows of unit Euclidean norm; rows of zeros stay zero."""
    dense = not is_sparse(X)
    squares = np.einsum("ij,ij->i", X, X) if dense else X.multiply(X).sum(axis=1)
    norms = np.sqrt(squares)
    norms[norms == 0.0] = 1.0
    if dense:
        return X / norms[:, None]
    scaled = X.copy()
    scaled.data /= np.repeat(norms, np.diff(X.indptr))
    return scaled


def scale_columns(X: Matrix, X_test: Matrix | None) -> tuple[Matrix, Matrix | None]:
    """Return both parts with columns whose root mean square is one in the first part.

    Nothing is centered, so that sparse rows stay sparse; columns of zeros stay zero.
    """
    dense = not is_sparse(X)
    squares = np.einsum("ij,ij->j", X, X) if dense else np.asarray(X.multiply(X).sum(axis=0))
    scale = np.sqrt(squares.astype(np.float64).ravel() / X.shape[0])
    scale[scale == 0.0] = 1.0

    def scaled(part: Matrix) -> Matrix:
        if dense:
            return part / scale.astype(part.dtype)
        changed = part.copy()
        changed.data = (changed.data / scale[changed.indices]).astype(part.dtype, copy=False)
        return changed

    return scaled(X), None if X_test is None else scaled(X_test)


def standardize_columns(
    X: Array, X_test: Array | None, columns: slice = slice(None)
) -> tuple[Array, Array | None]:
    """Return both parts with columns of mean 0 and deviation 1 in the first part."""
    mean = X[:, columns].mean(axis=0)
    deviation = X[:, columns].std(axis=0)
    deviation[deviation == 0.0] = 1.0

    def scaled(part: Array) -> Array:
        part = part.copy()
        part[:, columns] = (part[:, columns] - mean) / deviation
        return part

    return scaled(X), None if X_test is None else scaled(X_test)


def halves(n_rows: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return two random halves of the rows, in random order; the first has the odd one."""
    order = np.random.default_rng(seed).permutation(n_rows)
    cut = (n_rows + 1) // 2
    return order[:cut], order[cut:]


def signs(positive: Array) -> NDArray[np.float64]:
    """Return +1.0 where true and -1.0 elsewhere."""
    return np.where(positive, 1.0, -1.0)


def _summary(array: Matrix) -> str:
    shape = "x".join(map(str, array.shape))
    kind = "csr " if sp.issparse(array) else ""
    return f"{shape} {kind}{array.dtype}"
