"""The mean loss over rows that are read again for every pass: nothing is kept per row."""

from ._constants import Constants, streamed_metric
from ._looks import ColumnMeans, Targets, column_means, sampled_targets, targets_of
from ._opening import Opening, facts_of, fastest, opened, opening
from ._passes import Sample, Sums, Work, by_rows
from ._reading import counted_reads
from ._sum import (
    BUDGET,
    Facts,
    StreamedSum,
    as_bytes,
    first_pass,
    in_memory,
    loss_of_source,
    streams,
)
from ._summary import Rounding, Summary, summarize
from ._tangent import WithRest, WithRests, tangent_term
from ._windows import Drawn, Window, WindowRuns, windows

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
