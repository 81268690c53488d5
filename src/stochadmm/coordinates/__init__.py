"""Loss of several outputs + penalties of single entries: the mathematics, without solvers."""

from .form import EntryForm, NotEntrywise, read, why_not
from .newton import CoordinateNewton
from .options import CoordinateOptions, SearchOptions
from .search import EntrySearch

__all__ = [
    "CoordinateNewton",
    "CoordinateOptions",
    "EntryForm",
    "EntrySearch",
    "NotEntrywise",
    "SearchOptions",
    "read",
    "why_not",
]
