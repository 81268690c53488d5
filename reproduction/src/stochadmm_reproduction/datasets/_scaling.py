"""Transformations of rows and targets that the loaders share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from stochadmm.datasets import Dataset

Array = NDArray[Any]
Matrix = Any
"""An ndarray or a ``scipy.sparse.csr_array``, rows are examples."""


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
    dense = not sp.issparse(X)
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
    dense = not sp.issparse(X)
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
