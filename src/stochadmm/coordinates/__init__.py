"""Loss of several outputs + penalties of single entries: the mathematics, without solvers."""

from .form import EntryForm, NotEntrywise, read, why_not
from .newton import CoordinateNewton
from .options import CoordinateOptions

__all__ = [
    "CoordinateNewton",
    "CoordinateOptions",
    "EntryForm",
    "NotEntrywise",
    "read",
    "why_not",
]
