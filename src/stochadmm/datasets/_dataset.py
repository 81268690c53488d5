"""The container that generators, and loaders of real data, return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

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
        Of the generator, or given by whoever loaded the data.
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


def signs(positive: Array) -> NDArray[np.float64]:
    """Return +1.0 where true and -1.0 elsewhere."""
    return np.where(positive, 1.0, -1.0)


def _summary(array: Matrix) -> str:
    shape = "x".join(map(str, array.shape))
    kind = "csr " if sp.issparse(array) else ""
    return f"{shape} {kind}{array.dtype}"
