"""The mean loss as the loop sees it: evaluations, and lines between two points.

Rows in memory keep one prediction per row, linear along a line, so that a line search reads
nothing. Rows from a source keep nothing per row; one read answers all lengths of a line search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..risk import Evaluation, FiniteSum
from ..risk.finite_sum import as_finite_sum, at_predictions
from ..risk.passes import Sample, Sums
from ..risk.sampling import Coin
from ..risk.streamed import StreamedSum, facts_of, fastest, loss_of_source
from .line_search import LENGTHS, Line


class DataTerm(Protocol):
    """A smooth convex function f, the mean loss of the rows."""

    @property
    def n_rows(self) -> int:
        """Rows of the data."""

    @property
    def opening_passes(self) -> float:
        """Reads before the first evaluation."""

    def evaluate(self, w: Array) -> Evaluation:
        """Return value and gradient at w in float64, with numbers per row where they are kept."""

    def along(self, at: Evaluation, v: Array) -> Line:
        """Return the line from ``at.x`` to v; f is evaluated at v."""


def data_term(f2: Any, workspace: Workspace) -> DataTerm:
    """Return the mean loss of a problem as a data term."""
    if loss_of_source(f2) is not None:
        return RowsFromSource(f2, workspace)
    return RowsInMemory(as_finite_sum(f2))


# ---------------------------------------------------------------- rows in memory


class RowsInMemory:
    """The mean loss of rows in memory."""

    opening_passes = 0.0

    def __init__(self, f2: FiniteSum) -> None:
        self.f2, self.n_rows = f2, f2.n_terms

    def evaluate(self, w: Array) -> Evaluation:
        return self.f2.evaluate_exactly(np.asarray(w, np.float64))

    def along(self, at: Evaluation, v: Array) -> Line:
        return LineInMemory(self.f2, at, self.evaluate(v))


@dataclass
class LineInMemory:
    """The line between two evaluations that have their predictions."""

    f2: FiniteSum
    start: Evaluation
    end: Evaluation
    n_passes: float = 1.0

    def point(self, t: float) -> Array:
        return self.end.x if t == 1 else self.start.x + t * (self.end.x - self.start.x)

    def _predictions(self, t: float) -> Array:
        z = self.start.predictions
        return np.asarray(z + t * (self.end.predictions - z))

    def value(self, t: float) -> float:
        return self.end.value if t == 1 else self.f2.value_at(self._predictions(t))

    def evaluation(self, t: float, x: Array) -> Evaluation:
        if t == 1:
            return self.end
        x = np.asarray(x, np.float64)
        if self.f2.dtype != np.float64:  # predictions of rounded points are not linear in t
            self.n_passes += 1.0
            return self.f2.evaluate_exactly(x)
        self.n_passes += 0.5  # the gradient of known predictions
        return at_predictions(self.f2, x, self._predictions(t))


# ---------------------------------------------------------------- rows from a source


@dataclass(frozen=True, kw_only=True)
class SourceEvaluation(Evaluation):
    """An evaluation without numbers per row, the sums behind it, and a sample of the rows."""

    sums: Sums
    sample: Sample


class RowsFromSource:
    """The mean loss of rows that are read again for every pass."""

    opening_passes = 1.0

    def __init__(self, f2: StreamedSum, workspace: Workspace) -> None:
        self.f2, self.facts = fastest(f2, workspace), facts_of(f2, workspace)
        self.n_rows = f2.n_terms

    def evaluate(self, w: Array) -> SourceEvaluation:
        """Read all rows, and draw a sample that sees rare columns.

        The sample of the opening pass is uniform; column sizes are known only after it.
        """
        return self.evaluate_with(None, w)

    def evaluate_with(self, sample: Sample | None, w: Array) -> SourceEvaluation:
        """Read all rows, and keep a sample that is at hand."""
        coin = Coin(self.f2.seed + 1, self.f2.rate, self.facts.energy) if sample is None else None
        at, sums = self.f2.evaluate(w, coin)
        if sample is None:
            sample = Sample.joined(sums.sample) if sums.sample else self.facts.sample
        sums = replace(sums, sample=())
        return SourceEvaluation(
            at.x, at.value, at.gradient, n_passes=1.0, sums=sums, sample=sample
        )

    def along(self, at: Evaluation, v: Array) -> Line:
        assert isinstance(at, SourceEvaluation)
        if np.array_equal(at.x, v):  # no step: nothing is read
            return LineFromSource(self, at, at, 0.0)
        return LineFromSource(self, at, self.evaluate_with(at.sample, v))


@dataclass
class LineFromSource:
    """The line between two evaluations of rows from a source."""

    rows: RowsFromSource
    start: SourceEvaluation
    end: SourceEvaluation
    n_passes: float = 1.0
    values: dict[float, float] | None = None

    def point(self, t: float) -> Array:
        return self.end.x if t == 1 else self.start.x + t * (self.end.x - self.start.x)

    def value(self, t: float) -> float:
        if t == 1:
            return self.end.value
        if self.values is None:  # all lengths in one read
            shorter = LENGTHS[1:]
            values = self.rows.f2.values_along(self.start.x, self.end.x - self.start.x, shorter)
            self.values = dict(zip(shorter, values, strict=True))
            self.n_passes += 1.0
        return float(self.values[t])

    def evaluation(self, t: float, x: Array) -> Evaluation:
        if t == 1:
            return self.end
        self.n_passes += 1.0
        return self.rows.evaluate_with(self.start.sample, x)
