"""Operators made of few entries per row: edges, overlapping groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.immutable import as_float, frozen, set_field, store
from ..base.protocols import Array
from ._base import SparseMap


def _check_weights(weights: Array, count: int, owner: str, most: float) -> None:
    if weights.shape != (count,) or not ((weights >= 0) & (weights <= most)).all():
        raise ValueError(f"weights must be {count} non-negative numbers, one per {owner}")


@dataclass(frozen=True, eq=False)
class Incidence(SparseMap):
    """Differences along the edges of a graph: row e is ``c_e (x_i - s_e x_j)``.

    Parameters
    ----------
    edges : array of int, shape (m, 2)
        Pairs (i, j) of nodes.
    n_nodes : int
        Number of columns; nodes may have no edges.
    weights : array of shape (m,), optional
        Non-negative c_e, ones by default. An infinite one is an exact tie: the row is
        ``x_i - s_e x_j``, and ``tied`` says that the penalty is to hold it at zero.
    signs : array of shape (m,), optional
        s_e, +1 or -1: whether the two ends pull to the same or to opposite values. All +1 by
        default.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Incidence
    >>> A = Incidence([(0, 1), (1, 2)], n_nodes=4, weights=[1.0, 2.0])
    >>> A @ np.array([5.0, 3.0, 0.0, 9.0])
    array([2., 6.])
    >>> A.shape
    (2, 4)
    """

    edges: ArrayLike
    n_nodes: int
    weights: ArrayLike | None = None
    signs: ArrayLike | None = None

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges)
        if edges.size == 0:
            edges = np.empty((0, 2), dtype=np.intp)
        if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
            raise ValueError(f"edges must be pairs of node indices, got shape {edges.shape}")
        if edges.size and (edges.min() < 0 or edges.max() >= self.n_nodes):
            raise ValueError(
                f"edges name the nodes {edges.min()} to {edges.max()} "
                f"but nodes go from 0 to {self.n_nodes - 1}"
            )
        loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
        if loops.size:
            raise ValueError(f"edge {loops[0]} joins node {edges[loops[0], 0]} to itself; drop it")
        set_field(self, "edges", frozen(edges, np.intp))
        if self.weights is not None:
            weights = frozen(self.weights)
            _check_weights(weights, len(edges), "edge", np.inf)
            set_field(self, "weights", weights)
        if self.signs is not None:
            signs = frozen(self.signs)
            if signs.shape != (len(edges),) or not (np.abs(signs) == 1).all():
                raise ValueError(f"signs must be {len(edges)} numbers +1 or -1, one per edge")
            set_field(self, "signs", signs)
        pointers, columns, values = self.csr_parts()
        parts, shape = (values, columns, pointers), (len(edges), self.n_nodes)
        matrix = sparse.csr_array(parts, shape=shape, copy=True)
        matrix.sort_indices()
        self._settle(matrix)

    @property
    def tied(self) -> Array:
        """Mask of the edges whose weight is infinite."""
        if self.weights is None:
            return np.zeros(len(np.asarray(self.edges)), dtype=bool)
        return np.isinf(self.weights)

    def csr_parts(self) -> tuple[Array, Array, Array]:
        edges = np.asarray(self.edges)
        m = len(edges)
        head = np.ones(m) if self.weights is None else np.where(self.tied, 1.0, self.weights)
        tail = -head if self.signs is None else -head * np.asarray(self.signs)
        return np.arange(0, 2 * m + 1, 2), edges.ravel(), np.column_stack([head, tail]).ravel()


@dataclass(frozen=True, eq=False)
class Selection(SparseMap):
    """Copies of overlapping groups, one after the other: ``(c_g x_g for g in groups)``.

    With `stochadmm.penalties.GroupL2` on ``sizes`` it is the overlapping group lasso.

    Parameters
    ----------
    groups : sequence of int arrays
        Columns of each group; groups may overlap but must not be empty.
    n : int
        Number of columns; columns may be in no group.
    weights : array, optional
        Non-negative c_g, one per group. Ones by default.

    Attributes
    ----------
    sizes : ndarray of int
        Rows of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Selection
    >>> A = Selection([[0, 1], [1, 2]], n=3)
    >>> A @ np.array([1.0, 2.0, 3.0])
    array([1., 2., 2., 3.])
    >>> A.sizes
    array([2, 2])
    """

    groups: Sequence[ArrayLike]
    n: int
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        groups = [np.asarray(group) for group in self.groups]
        for g, group in enumerate(groups):
            if group.size == 0:
                raise ValueError(f"group {g} is empty; leave it out")
            if group.ndim != 1 or group.dtype.kind not in "iu":
                raise ValueError(f"group {g} must be a list of column indices")
        sizes = np.array([group.size for group in groups], dtype=np.intp)
        columns = np.concatenate([np.empty(0, dtype=np.intp), *groups]).astype(np.intp)
        owner = np.repeat(np.arange(sizes.size), sizes)
        outside = (columns < 0) | (columns >= self.n)
        if outside.any():
            g = owner[outside.argmax()]
            raise ValueError(f"group {g} names columns outside 0 to {self.n - 1}")
        members = np.sort(owner * self.n + columns)
        twice = members[1:] == members[:-1]
        if twice.any():
            g = members[twice.argmax()] // self.n
            raise ValueError(f"group {g} names a column twice")
        set_field(self, "groups", tuple(tuple(group.tolist()) for group in groups))
        if self.weights is not None:
            weights = frozen(self.weights)
            _check_weights(weights, len(groups), "group", np.finfo(float).max)
            set_field(self, "weights", weights)
        scales = np.ones(len(groups)) if self.weights is None else np.asarray(self.weights)
        parts = (np.repeat(scales, sizes), columns, np.arange(columns.size + 1))
        self._settle(sparse.csr_array(parts, shape=(columns.size, self.n)))

    @property
    def sizes(self) -> Array:
        """Rows of each group."""
        return frozen([np.size(group) for group in self.groups], np.int64)

    @property
    def norm2(self) -> float:
        matrix = self.tosparse()
        sums = np.bincount(matrix.indices, weights=matrix.data**2)
        return float(sums.max(initial=0.0)) * (1.0 + 1e-14)

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        if self.weights is not None:
            return super().matvec(x, out)
        return store(as_float(x)[self._forward.indices], out)
