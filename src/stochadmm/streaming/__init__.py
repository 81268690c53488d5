"""The mean loss over rows that are read again for every pass: nothing is kept per row."""

from ._columns import ColumnMeans, column_means
from ._memory import as_bytes
from ._passes import Coin, Sample, Sums, Work
from ._rest import REST, WithRest
from ._sum import BUDGET, Facts, StreamedSum, first_pass, in_memory, read_fast, streams
from ._summary import Summary, summarize
from ._targets import Targets, targets_of

__all__ = [
    "BUDGET",
    "REST",
    "Coin",
    "ColumnMeans",
    "Facts",
    "Sample",
    "StreamedSum",
    "Summary",
    "Sums",
    "Targets",
    "WithRest",
    "Work",
    "as_bytes",
    "column_means",
    "first_pass",
    "in_memory",
    "read_fast",
    "streams",
    "summarize",
    "targets_of",
]
