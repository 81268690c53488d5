"""What users own (edges, groups, grids, the data itself) into operators."""

from .build import (
    Grid,
    NamedColumns,
    chain,
    from_adjacency,
    from_edges,
    from_labels,
    from_networkx,
    glasso_edges,
    graph,
    groups,
)

__all__ = [
    "Grid",
    "NamedColumns",
    "chain",
    "from_adjacency",
    "from_edges",
    "from_labels",
    "from_networkx",
    "glasso_edges",
    "graph",
    "groups",
]
