"""From what users own (edges, adjacency, graphs, grids, groups of columns) to operators.

Every function returns an operator on the coefficients, one column per feature; which penalty goes
on it is the caller's choice: `L1` on differences, `GroupL2` with ``operator.sizes`` on groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.names import near
from ..base.protocols import Array, Operator
from ..base.validation import check_sparse, is_whole, real_array, refuse_masked
from ..operators import Differences, Incidence, Selection
from .given import SYMMETRIC, Kind, edge_list, from_labels, given_graph, given_groups
from .glasso import glasso_edges
from .grid import Grid

__all__ = [
    "Grid",
    "chain",
    "from_adjacency",
    "from_edges",
    "from_labels",
    "from_networkx",
    "glasso_edges",
    "graph",
    "groups",
]


def graph(
    source: Any, *, names: Sequence[Any] | None = None, n_features: int | None = None
) -> Operator:
    """Return the operator of differences along the edges of a graph of features.

    Parameters
    ----------
    source : object
        ``"chain"`` for consecutive features; a tuple of integers for the cells of a grid, as in
        ``(28, 28)``, or a `Grid` with a mask; a list, array or frame of pairs, of indices or of
        names, or of triples with a weight; a square array, sparse matrix or frame for an adjacency
        matrix; a networkx graph; what `from_edges` returns. A negative weight or entry says that
        two coefficients are opposite. Where a square array may be both, a matrix of all features
        or two or three columns of edges, a symmetric or upper triangular one is a matrix. The rows
        and columns of a frame are found by their names.
    names : sequence, optional
        Names of the features, in the order of the columns.
    n_features : int, optional
        Number of columns, when ``names`` is not given.

    Examples
    --------
    >>> from stochadmm.structures import graph
    >>> graph([("age", "income")], names=["age", "height", "income"]).edges
    array([[0, 2]])
    >>> graph("chain", n_features=4).shape
    (3, 4)
    >>> graph((2, 3)).shape
    (7, 6)
    """
    n = _count(names, n_features)
    given = given_graph(source, () if n is None else (n,))
    if given.kind is Kind.NAME:
        if source != "chain":
            raise ValueError(
                f"unknown graph {source!r}; use 'chain', or 'glasso' in estimators and "
                "from_edges(glasso_edges(X)) elsewhere"
            )
        if n is None:
            raise ValueError("a chain needs n_features or names")
        return chain(n)
    if given.kind is Kind.GRID:
        return _fitting(_on_grid(given.source, n), n)
    if given.kind is Kind.NETWORK:
        return from_networkx(source, names=names, n_features=n_features)
    if given.kind is Kind.INCIDENCE:
        count = source.n_nodes if n is None else n
        if source.n_nodes > count:
            _fitting(source, n)
        return _merged(Incidence(source.edges, count, source.weights, source.signs))
    if given.kind is Kind.MATRIX:
        if n is None and given.labels is None:
            _refuse_two_by_two(given.source)
        matrix = from_adjacency(given.source, signed=True)
        if given.labels is None:
            return _fitting(matrix, n)
        return _placed(matrix, given.labels, NamedColumns(names, n_features))
    return from_edges(given.source, names=names, n_features=n_features)


def _placed(graph: Incidence, labels: Sequence[Any], columns: NamedColumns) -> Incidence:
    """Return a graph of named features on the columns that have these names."""
    places = np.array([columns(label) for label in labels], dtype=np.intp)
    if len(np.unique(places)) < len(places):
        raise ValueError("the adjacency matrix names a column twice")
    n = int(places.max(initial=-1)) + 1 if columns.count is None else columns.count
    return Incidence(places[np.asarray(graph.edges)], n, graph.weights, graph.signs)


def _on_grid(grid: Grid, n: int | None) -> Operator:
    if n is not None and grid.n_nodes != n == prod(grid.shape):
        raise ValueError(
            f"{grid} has {grid.n_nodes} nodes but there are {n} features, one per cell; "
            "keep those inside the mask, X[:, mask.ravel()]"
        )
    return grid.operator


def _refuse_two_by_two(matrix: Any) -> None:
    if matrix.shape == (2, 2) and not sparse.issparse(matrix):
        raise ValueError(
            "a 2 by 2 array may be two edges or an adjacency matrix; give n_features or names, or "
            "use from_edges or from_adjacency"
        )


def chain(n_features: int, order: int = 1) -> Differences:
    """Return differences of consecutive features.

    Examples
    --------
    >>> from stochadmm.structures import chain
    >>> chain(4)
    Differences(n=4, order=1)
    """
    return Differences(n_features, order)


def from_edges(
    edges: Iterable[Sequence[Any]] | Array,
    weights: ArrayLike | None = None,
    signs: ArrayLike | None = None,
    *,
    names: Sequence[Any] | None = None,
    n_features: int | None = None,
) -> Incidence:
    """Return differences along a list of edges.

    An edge listed twice, in either direction, is one edge with the sum of the weights; edges of
    opposite signs stay apart. Edges of weight zero are ignored. Features may have no edges.

    Parameters
    ----------
    edges : iterable of pairs, or of triples
        Indices or names of the two ends, and the weight in a triple. In an array of floats
        indices are whole numbers.
    weights : array, optional
        One per edge; a negative one says that the two coefficients should be opposite, and its
        size how strongly. An infinite one is an exact tie.
    signs : array, optional
        +1 where the two coefficients should be equal, -1 where they should be opposite; signs of
        weights are multiplied with it.
    names, n_features
        Names or number of the columns; the largest index plus one when neither is given.

    Examples
    --------
    >>> from stochadmm.structures import from_edges
    >>> operator = from_edges([(0, 1), (1, 0), (1, 3)], n_features=5)
    >>> operator.edges
    array([[0, 1],
           [1, 3]])
    >>> operator.weights
    array([2., 1.])
    >>> from_edges([(0, 1, -2.0), (1, 2, 1.0)]).signs
    array([-1.,  1.])
    """
    listed = edge_list(edges)
    lengths = {len(edge) for edge in listed}
    if not lengths <= {2} and (lengths != {3} or weights is not None):
        raise ValueError("edges must be pairs (i, j), or triples (i, j, weight) without weights")
    if lengths == {3}:
        weights = [edge[2] for edge in listed]
    columns = NamedColumns(names, n_features)
    pairs = np.array([[columns(i), columns(j)] for i, j, *_ in listed], dtype=np.intp)
    pairs = pairs.reshape(-1, 2)
    n = columns.count if columns.count is not None else int(pairs.max(initial=-1)) + 1
    sizes, signs = _sizes_and_signs(weights, signs, len(pairs))
    return _merged(Incidence(pairs, n, sizes, signs))


def from_adjacency(matrix: Any, *, signed: bool = False) -> Incidence:
    """Return differences along the edges of an adjacency matrix.

    The entries of the upper triangle count; a symmetric matrix and its upper triangle are the
    same graph. The weights are absolute values.

    Parameters
    ----------
    matrix : ndarray or SciPy sparse of shape (n_features, n_features)
        Zero where there is no edge. The diagonal is ignored: it is one or the variance in
        matrices of correlations.
    signed : bool
        True: features joined by a negative entry are pulled to opposite values.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.structures import from_adjacency
    >>> operator = from_adjacency(np.array([[0, 2, 0], [2, 0, -1], [0, -1, 0]]), signed=True)
    >>> operator.edges, operator.weights, operator.signs
    (array([[0, 1],
           [1, 2]]), array([2., 1.]), array([ 1., -1.]))
    """
    if sparse.issparse(matrix):
        check_sparse(matrix, "the adjacency matrix")
    refuse_masked(matrix, "the adjacency matrix")
    full = sparse.coo_array(matrix, dtype=np.float64)
    if full.ndim != 2 or full.shape[0] != full.shape[1]:
        raise ValueError(f"an adjacency matrix must be square, got shape {full.shape}")
    if np.isnan(full.data).any():
        raise ValueError("the adjacency matrix contains NaN")
    lower, upper = sparse.csr_array(sparse.tril(full, -1)), sparse.csr_array(sparse.triu(full, 1))
    if lower.nnz and _differ(lower.T, upper.copy()):
        raise ValueError(
            "the adjacency matrix is neither symmetric nor upper triangular; "
            "use (A + A.T) / 2, or np.triu(A)"
        )
    edges = sparse.coo_array(upper)
    kept = edges.data != 0
    values = edges.data[kept]
    pairs = np.column_stack([edges.coords[0][kept], edges.coords[1][kept]])
    weights = None if (np.abs(values) == 1).all() else np.abs(values)
    signs = np.sign(values) if signed and (values < 0).any() else None
    return Incidence(pairs, full.shape[0], weights, signs)


def _differ(one: Any, two: Any) -> bool:
    """Say whether two triangles of a matrix are not the same, but for rounding."""
    size = max(abs(part.data[np.isfinite(part.data)]).max(initial=0.0) for part in (one, two))
    for part in (one, two):  # infinity minus infinity is no number
        part.data = np.clip(part.data, -2.0 * size - 1.0, 2.0 * size + 1.0)
    return bool(abs(one - two).max() > SYMMETRIC * size)


def from_networkx(
    source: Any,
    *,
    names: Sequence[Any] | None = None,
    n_features: int | None = None,
    weight: str = "weight",
) -> Incidence:
    """Return differences along the edges of a networkx graph; directions are ignored.

    Nodes are names of features when ``names`` is given, and column indices otherwise.

    Parameters
    ----------
    source : networkx graph
        Nodes that are absent from it are features without edges.
    names, n_features
        Names or number of the columns.
    weight : str
        Attribute of the edges used as their weight, 1 where it is missing; negative where the two
        coefficients should be opposite.

    Examples
    --------
    >>> import networkx as nx
    >>> from stochadmm.structures import from_networkx
    >>> from_networkx(nx.Graph([("b", "c")]), names=["a", "b", "c"]).edges
    array([[1, 2]])
    """
    listed = [(i, j, data.get(weight, 1.0)) for i, j, data in source.edges(data=True)]
    columns = NamedColumns(names, n_features)
    nodes = [columns(node) for node in source.nodes]
    if columns.count is None:
        n_features = max(nodes, default=-1) + 1
    return from_edges(listed, names=names, n_features=n_features)


def groups(
    source: Mapping[Any, Sequence[Any]] | Sequence[Sequence[Any]],
    weights: ArrayLike | Mapping[Any, float] | None = None,
    *,
    names: Sequence[Any] | None = None,
    n_features: int | None = None,
) -> Selection:
    """Return the operator that copies overlapping groups of features one after the other.

    Parameters
    ----------
    source : mapping or sequence
        Group name to columns, or a list of lists of columns, indices or names; or one label per
        column, see `from_labels`.
    weights : array or mapping, optional
        One non-negative number per group, or a mapping from their names, or numbers in a list.
    names, n_features
        Names or number of the columns; the largest index plus one when neither is given.

    Examples
    --------
    >>> from stochadmm.structures import groups
    >>> operator = groups({"who": ["age", "sex"], "where": ["city"]}, names=["age", "city", "sex"])
    >>> operator.groups
    ((0, 2), (1,))
    """
    columns = NamedColumns(names, n_features)
    given = given_groups(source, columns.count)
    members = []
    for name, group in given.items():
        found = [columns(column) for column in group]
        if not found:
            raise ValueError(f"group {name!r} is empty; drop it, or name its columns")
        if len(set(found)) < len(found):
            raise ValueError(f"group {name!r} names a column twice")
        members.append(found)
    if isinstance(weights, Mapping):
        missing = [name for name in given if name not in weights]
        if missing:
            raise ValueError(f"weights must name every group; missing: {missing}")
        weights = [weights[name] for name in given]
    if weights is not None:
        try:
            weights = real_array(weights, "weights")
        except ValueError:
            raise ValueError(
                f"the weights of the groups are {weights!r}, expected one number per group, in a "
                "list or by name; for roots of sizes [len(group) ** 0.5 for group in groups]"
            ) from None
    largest = max((max(group) for group in members), default=-1)
    return Selection(members, largest + 1 if columns.count is None else columns.count, weights)


class NamedColumns:
    """Turns names or indices into column numbers, and says which name was probably meant."""

    def __init__(self, names: Sequence[Any] | None, n_features: int | None) -> None:
        self.count = _count(names, n_features)
        self._index = None if names is None else {name: j for j, name in enumerate(names)}
        if self._index is not None and len(self._index) < len(names or ()):
            raise ValueError("names must be unique; two columns share one")

    def __call__(self, column: Any) -> int:
        if self._index is not None and column in self._index:
            return self._index[column]
        if not is_whole(column):
            raise ValueError(f"unknown column {column!r}{self._hint(column)}")
        if column < 0 or (self.count is not None and column >= self.count):
            last = "the last" if self.count is None else self.count - 1
            raise ValueError(f"column {column} is out of range; columns go from 0 to {last}")
        return int(column)

    def _hint(self, column: Any) -> str:
        if self._index is None:
            return "; give names, or use column indices"
        known = [str(name) for name in self._index]
        found = near(column, known)
        if not found:
            return f"; columns are {', '.join(known[:5])}{', ...' if len(known) > 5 else ''}"
        return f"; nearest: {', '.join(found)}"


def _count(names: Sequence[Any] | None, n_features: int | None) -> int | None:
    if names is not None and n_features is not None and len(names) != n_features:
        raise ValueError(f"there are {len(names)} names but n_features is {n_features}")
    return n_features if names is None else len(names)


def _fitting(operator: Operator, n: int | None) -> Operator:
    if n is not None and operator.shape[1] != n:
        raise ValueError(f"the graph has {operator.shape[1]} nodes but there are {n} features")
    return operator


def _sizes_and_signs(weights: Any, signs: Any, count: int) -> tuple[Array | None, Any]:
    """Return the sizes of the weights of edges, and signs that are turned by negative weights."""
    if weights is None:
        return None, signs
    values = real_array(weights, "weights")
    if values.shape != (count,) or np.isnan(values).any():
        raise ValueError(f"weights must be {count} numbers, one per edge, and none of them NaN")
    turned = np.where(values < 0, -1.0, 1.0)
    if signs is None:
        return np.abs(values), None if (turned > 0).all() else turned
    given = real_array(signs, "signs")
    return np.abs(values), given * turned if given.shape == turned.shape else given


def _merged(full: Incidence) -> Incidence:
    """Join parallel edges, the sum of the weights of each sign; drop those of weight zero."""
    edges = np.asarray(full.edges)
    signs = None if full.signs is None else np.asarray(full.signs)
    weights = np.ones(len(edges)) if full.weights is None else np.asarray(full.weights)
    kept = weights > 0
    if not kept.all():
        edges, weights = edges[kept], weights[kept]
        signs = None if signs is None else signs[kept]
    pairs = np.sort(edges, axis=1)
    keys = pairs if signs is None else np.column_stack([pairs, signs.astype(np.intp)])
    unique, where = np.unique(keys, axis=0, return_inverse=True)
    if len(unique) < len(pairs):
        edges = unique[:, :2]
        weights = np.bincount(where.ravel(), weights=weights, minlength=len(unique))
        signs = None if signs is None else unique[:, 2]
    elif kept.all():
        return full
    return Incidence(edges, full.n_nodes, weights, signs)
