"""The mean loss over rows that are read again for every pass: nothing is kept per row."""

from ._memory import as_bytes
from ._passes import Coin, Rows, Sums, Work
from ._rest import REST, WithRest
from ._sum import BUDGET, Facts, StreamedSum, streams

__all__ = [
    "BUDGET",
    "REST",
    "Coin",
    "Facts",
    "Rows",
    "StreamedSum",
    "Sums",
    "WithRest",
    "Work",
    "as_bytes",
    "streams",
]
