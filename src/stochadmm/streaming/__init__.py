"""The mean loss over rows that are read again for every pass: nothing is kept per row."""

from ._columns import ColumnMeans, column_means
from ._constants import Constants, streamed_metric
from ._memory import as_bytes
from ._opening import Opening, facts_of, fastest, opened, opening
from ._passes import Sample, Sums, Work, by_rows
from ._reading import counted_reads
from ._rest import WithRest
from ._rests import WithRests
from ._sampled_targets import sampled_targets
from ._sum import (
    BUDGET,
    Facts,
    StreamedSum,
    first_pass,
    in_memory,
    loss_of_source,
    streams,
)
from ._summary import Rounding, Summary, summarize
from ._tangent import tangent_term
from ._targets import Targets, targets_of
from ._windows import Drawn, Window, WindowOptions, WindowRuns, windows

__all__ = [
    "BUDGET",
    "ColumnMeans",
    "Constants",
    "Drawn",
    "Facts",
    "Opening",
    "Rounding",
    "Sample",
    "StreamedSum",
    "Summary",
    "Sums",
    "Targets",
    "Window",
    "WindowOptions",
    "WindowRuns",
    "WithRest",
    "WithRests",
    "Work",
    "as_bytes",
    "by_rows",
    "column_means",
    "counted_reads",
    "facts_of",
    "fastest",
    "first_pass",
    "in_memory",
    "loss_of_source",
    "opened",
    "opening",
    "sampled_targets",
    "streamed_metric",
    "streams",
    "summarize",
    "tangent_term",
    "targets_of",
    "windows",
]
