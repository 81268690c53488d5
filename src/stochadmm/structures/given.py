"""Graphs and groups as users give them, told apart once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import has_members
from ..base.validation import is_whole, listed, refuse_masked
from .grid import Grid

SYMMETRIC = 1e-10
"""Relative difference of the two halves of an adjacency matrix that rounding may have left."""


class Kind(Enum):
    """The ways to give a graph."""

    NAME = auto()
    """A word such as "chain"."""
    GRID = auto()
    MATRIX = auto()
    """An adjacency matrix."""
    NETWORK = auto()
    """A networkx graph."""
    EDGES = auto()
    """A list or an array of edges."""
    INCIDENCE = auto()
    """Differences along edges, as `from_edges` returns them."""


@dataclass(frozen=True)
class Given:
    """A graph of features, and the way it was given."""

    kind: Kind
    source: Any
    labels: list[Any] | None = None
    """Features that the rows and columns of an adjacency matrix stand for, where it names them."""

    @property
    def positional(self) -> bool:
        """Whether it counts the features in their order: a chain or a grid."""
        return self.kind in (Kind.NAME, Kind.GRID)


def given_graph(source: Any, sizes: Sequence[int] = ()) -> Given:
    """Return which kind of graph a user gave; grids become `Grid`, frames arrays, edges a list.

    Parameters
    ----------
    source : object
        What the user gave.
    sizes : sequence of int
        Numbers of features that an adjacency matrix may have; none where they are not known. A
        square array of another size with two or three columns holds edges; of one that may be
        either, a symmetric or upper triangular one is an adjacency matrix.

    Examples
    --------
    >>> from stochadmm.structures.given import given_graph
    >>> given_graph((2, 3)).kind
    <Kind.GRID: 2>
    >>> given_graph([("age", "income")]).positional
    False
    """
    if isinstance(source, Grid):
        return Given(Kind.GRID, source)
    if isinstance(source, str):
        return Given(Kind.NAME, source)
    if isinstance(source, tuple) and source and all(map(is_whole, source)):
        return Given(Kind.GRID, Grid(source))
    # by their methods: packages are needed only by those who have such a graph
    if has_members(source, "edges", "nodes", "adjacency"):
        return Given(Kind.NETWORK, source)
    if has_members(source, "edges", "n_nodes"):
        return Given(Kind.INCIDENCE, source)
    if sparse.issparse(source):
        return Given(Kind.MATRIX, source)
    if has_members(source, "columns", "to_numpy"):
        return _given_frame(source, sizes)
    if isinstance(source, np.ndarray):
        return Given(_kind_of_array(source, sizes), source)
    edges = listed(source, "graph")
    if edges is None:
        raise ValueError(
            f"graph is {source!r}, expected 'chain', a grid shape or Grid, edges, an adjacency "
            "matrix or a networkx graph; an empty list is a graph without edges"
        )
    return Given(Kind.EDGES, edges)


def _given_frame(frame: Any, sizes: Sequence[int]) -> Given:
    """Return the graph of a data frame: an adjacency matrix with names, or columns of edges."""
    labels, values = list(frame.columns), frame.to_numpy()
    numbers = list(range(len(values)))
    rows = list(frame.index) if has_members(frame, "index") else numbers
    if rows == labels != numbers:
        return Given(Kind.MATRIX, values, labels)
    kind = _kind_of_array(values, sizes)
    if kind is Kind.EDGES or labels == numbers:
        return Given(kind, values)
    if rows != numbers:
        raise ValueError(
            "the rows and columns of the adjacency matrix have different names; give it the same "
            "index and columns, in the same order"
        )
    return Given(kind, values, labels)


def _kind_of_array(array: Any, sizes: Sequence[int]) -> Kind:
    """Say whether an array is an adjacency matrix or a list of edges."""
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return Kind.EDGES
    size = array.shape[1]
    if size not in (2, 3):
        return Kind.MATRIX
    if array.dtype.kind not in "biuf" or (sizes and size not in sizes):
        return Kind.EDGES
    below, above = np.tril(array, -1), np.triu(array, 1)
    symmetric = np.allclose(below.T, above, rtol=SYMMETRIC, atol=0.0)
    return Kind.MATRIX if symmetric or not below.any() else Kind.EDGES


def edge_list(edges: Any) -> list[list[Any]]:
    """Return edges one by one, each a list of its two ends and maybe a weight.

    Columns are counted by whole numbers; an array with weights has them as floats.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.structures.given import edge_list
    >>> edge_list(np.array([[0, 1, 0.5], [1, 2, 2.0]]))
    [[0, 1, 0.5], [1, 2, 2.0]]
    """
    refuse_masked(edges, "the array of edges")
    if has_members(edges, "dtype", "ndim", "tolist"):
        edges = _counted(edges).tolist()
    found = []
    for e, edge in enumerate(edges):
        ends = listed(edge)
        if ends is None:
            raise ValueError(
                f"edge {e} is {edge!r}, expected a pair (i, j), or a triple (i, j, weight); a "
                "grid is a tuple, as in (28, 28)"
            )
        found.append(ends)
    return found


def _counted(edges: Any) -> Any:
    """Return an array of edges with the whole floats of its ends as integers."""
    if edges.ndim != 2 or edges.dtype.kind != "f":
        return edges
    wrong = np.flatnonzero((edges[:, :2] != np.rint(edges[:, :2])).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"edge {wrong[0]} joins {edges[wrong[0], 0]} and {edges[wrong[0], 1]}, expected whole "
            "numbers: the columns"
        )
    mixed = edges.astype(object)
    mixed[:, :2] = edges[:, :2].astype(np.intp)
    return mixed


def given_groups(source: Any, n: int | None) -> dict[Any, list[Any]]:
    """Return the columns of every group by its label, or by its number in a list of groups.

    Parameters
    ----------
    source : mapping, list of lists, or one label per column
        What the user gave.
    n : int or None
        Number of columns, None where it is not known.

    Examples
    --------
    >>> from stochadmm.structures.given import given_groups
    >>> given_groups([["age", "sex"], ["city"]], None)
    {0: ['age', 'sex'], 1: ['city']}
    >>> given_groups(["lab", "person", "lab"], 3)
    {'lab': [0, 2], 'person': [1]}
    """
    if isinstance(source, Mapping):
        return {name: _columns(name, group) for name, group in source.items()}
    items = listed(source, "groups")
    if items is None:
        raise ValueError(
            f"groups is {source!r}, expected a mapping from names to columns, a list of lists of "
            "columns, or one label per column"
        )
    if not items:
        raise ValueError(
            "groups is empty; leave it out (None) for one group per column, or list the columns "
            "of every group"
        )
    groups = [listed(item, "a group") for item in items]
    if any(group is not None for group in groups):
        return {
            g: _columns(g, items[g] if group is None else group) for g, group in enumerate(groups)
        }
    if n is not None and len(items) != n:
        raise ValueError(
            f"groups has {len(items)} labels, expected {n}: one per column; or give a list of "
            "columns for every group"
        )
    return from_labels(items)


def _columns(name: Any, group: Any) -> list[Any]:
    columns = listed(group, f"group {name!r}")
    if columns is None:
        raise ValueError(f"group {name!r} is {group!r}; give a list of columns")
    return columns


def from_labels(labels: Iterable[Any]) -> dict[Any, list[int]]:
    """Return the groups of columns that share a label, in the order of their first column.

    Parameters
    ----------
    labels : sequence
        One label per column; None or NaN puts a column into no group.

    Examples
    --------
    >>> from stochadmm.structures import from_labels
    >>> from_labels(["lab", "person", "lab", None])
    {'lab': [0, 2], 'person': [1]}
    """
    found: dict[Any, list[int]] = {}
    for column, label in enumerate(labels):
        if label is not None and label == label:  # NaN differs from itself
            plain = label.item() if has_members(label, "item") else label
            found.setdefault(plain, []).append(column)
    return found
