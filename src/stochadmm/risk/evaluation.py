"""What is known of the mean loss at one point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..base.protocols import Array

if TYPE_CHECKING:
    from .passes import Sample, Sums


@dataclass(frozen=True)
class Evaluation:
    """Value and gradient of the mean loss at ``x``, and what else a pass has left.

    Rows in memory leave numbers per row; rows that are read for every pass leave sums and a
    sample of the rows.
    """

    x: Array
    value: float
    gradient: Array
    predictions: Array = field(default_factory=lambda: np.zeros(0))
    """One per row and output, intercept and offset included."""
    derivative: Array = field(default_factory=lambda: np.zeros(0))
    """Of each row's loss with respect to its prediction; sample weights are left out."""
    n_passes: float = 0.0
    """Rows read to make it, in units of the whole data."""
    sums: Sums | None = None
    sample: Sample | None = None

    def copy(self) -> Evaluation:
        """Return itself: nothing in it changes, and it may be as long as the data."""
        return self

    def is_exact_at(self, x: Array) -> bool:
        """Whether it holds the numbers of every row at ``x``, all in float64."""
        exact = self.x.dtype == self.gradient.dtype == self.derivative.dtype == np.float64
        return exact and self.has_rows and np.array_equal(self.x, x)

    def has_exact_value_at(self, x: Array) -> bool:
        """Whether its value is that at ``x`` in float64, as its gradient's type tells."""
        return self.gradient.dtype == np.float64 and np.array_equal(self.x, x)

    @property
    def has_rows(self) -> bool:
        """Whether the parts per row are kept."""
        return self.predictions.size > 0
