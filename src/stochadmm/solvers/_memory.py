"""How much a method takes beyond the data where it keeps nothing per row, by counting arrays.

The most is reached in a moment of a step, or in the pass at a snapshot. `STEP` lists those of a
step of ADMM with a linearized x2 step, as `reference_loop` and ACC-SADMM take it; the work of
proximal maps other than soft-thresholding (the SVD of a nuclear norm) comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..problem import Problem
from ..risk.memory import block_numbers, pass_bytes
from ._steps import sizes


@dataclass(frozen=True)
class Counts:
    """Arrays like x1, like x2 and like the multiplier, and tables of a block of rows."""

    first: int = 0
    second: int = 0
    dual: int = 0
    tables: int | None = None
    """Predictions of the rows of a block beside a copy of them; None: no rows are there."""

    def __add__(self, other: Counts) -> Counts:
        tables = self.tables if other.tables is None else other.tables
        return Counts(
            self.first + other.first, self.second + other.second, self.dual + other.dual, tables
        )

    def bytes(self, problem: Problem) -> int:
        """Return their bytes."""
        first, second, dual = sizes(problem)
        numbers = self.first * first + self.second * second + self.dual * dual
        if self.tables is not None:
            numbers += block_numbers(problem.f2, self.tables)
        return problem.dtype.itemsize * numbers

    def most(self, problem: Problem, moments: tuple[Counts, ...]) -> int:
        """Return the bytes of these arrays in the moment that adds most to them."""
        return max((self + moment).bytes(problem) for moment in moments)

    def with_pass(self, problem: Problem) -> int:
        """Return the bytes of these arrays beside a pass at a snapshot."""
        return self.bytes(problem) + pass_bytes(problem.f2)


STEP = (
    Counts(dual=3),  # A1 x1, A2 x2 and their sum, for the force on x1
    Counts(first=3, dual=1),  # the prox of h1 beside the force: its argument, what is cut off, x1+
    Counts(first=1, dual=3),  # x1+, and the force on x2
    Counts(first=1, second=1, dual=1, tables=3),  # the batch: sum, slopes at x2 and the snapshot
    Counts(first=1, second=2, dual=1, tables=1),  # the batch: sum, and what a block adds to it
    Counts(first=1, second=2, dual=1),  # the gradient and A2' force
    Counts(first=1, second=3),  # the prox of h2
    Counts(first=1, second=1, dual=3),  # x+, and the next multiplier
)
"""What the moments of a step add to what a method keeps."""
