"""Graphs and groups as users give them, told apart once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import has_members
from ..base.validation import is_whole, listed
from .grid import Grid


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
    """A list of edges."""


@dataclass(frozen=True)
class Given:
    """A graph of features, and the way it was given."""

    kind: Kind
    source: Any

    @property
    def positional(self) -> bool:
        """Whether it counts the features in their order: a chain or a grid."""
        return self.kind in (Kind.NAME, Kind.GRID)


def given_graph(source: Any) -> Given:
    """Return which kind of graph a user gave; grids become `Grid`, edges a list.

    Examples
    --------
    >>> from stochadmm.structures.given import given_graph
    >>> given_graph((2, 3))
    Given(kind=<Kind.GRID: 2>, source=Grid((2, 3)))
    >>> given_graph([("age", "income")]).positional
    False
    """
    if isinstance(source, Grid):
        return Given(Kind.GRID, source)
    if isinstance(source, str):
        return Given(Kind.NAME, source)
    if isinstance(source, tuple) and source and all(map(is_whole, source)):
        return Given(Kind.GRID, Grid(source))
    # by its methods: the package is needed only by those who have such a graph
    if has_members(source, "edges", "nodes", "adjacency"):
        return Given(Kind.NETWORK, source)
    if sparse.issparse(source) or (isinstance(source, np.ndarray) and _is_square(source.shape)):
        return Given(Kind.MATRIX, source)
    edges = listed(source)
    if edges is None:
        raise ValueError(
            f"graph is {source!r}, expected 'chain', a grid shape or Grid, edges, an adjacency "
            "matrix or a networkx graph; an empty list is a graph without edges"
        )
    return Given(Kind.EDGES, edges)


def _is_square(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[0] == shape[1]


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
    items = listed(source)
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
    groups = [listed(item) for item in items]
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
    columns = listed(group)
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
