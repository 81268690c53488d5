"""Terms: what a column of a data frame, or two of them, becomes in a structured model.

They are the values of ``terms={column: term}`` of `stochadmm.StructuredRegressor` and its like.
"""

from ._blocks import Block, Rows, Setting
from ._columns import Column, read_columns
from ._terms import Free, Grid, Group, Map, Nominal, Ordered, Periodic, Smooth, Sparse, Term

__all__ = [
    "Block",
    "Column",
    "Free",
    "Grid",
    "Group",
    "Map",
    "Nominal",
    "Ordered",
    "Periodic",
    "Rows",
    "Setting",
    "Smooth",
    "Sparse",
    "Term",
    "read_columns",
]
