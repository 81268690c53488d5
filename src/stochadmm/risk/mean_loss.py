"""What is the same of a mean loss wherever its rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..base.capabilities import offers
from ..base.protocols import Array, Shape
from ..base.workspace import Workspace
from .evaluation import Evaluation

if TYPE_CHECKING:
    from .finite_sum import FiniteSum
    from .lines import Line


class MeanLoss(ABC):
    """Mean loss of a linear model over blocks of rows, ``sum_i w_i loss_i(a_i' x) / sum_i w_i``.

    Rows in memory (`FiniteSum`) have numbers per row: predictions, derivatives of the losses.
    Rows that are read again for every pass (`StreamedSum`) leave sums and a sample behind.
    """

    in_memory: ClassVar[bool]
    """Whether single rows can be asked for."""
    opening_passes: ClassVar[float]
    """Reads before the first evaluation."""
    loss: Any
    intercept: bool
    n_terms: int
    """Number of rows."""
    n_features: int
    """Columns of the rows."""
    n_outputs: int | None
    """Predictions of a row, None where it is one number."""

    @property
    def n_columns(self) -> int:
        """Rows of the variable: the columns, and one for the intercept."""
        return self.n_features + self.intercept

    @property
    def shape(self) -> Shape:
        """Shape of the variable."""
        return (self.n_columns,) if self.n_outputs is None else (self.n_columns, self.n_outputs)

    @abstractmethod
    def opened(self, workspace: Workspace) -> MeanLoss:
        """Return the same over the fastest rows that a run has, with what a first read finds."""

    @abstractmethod
    def representative(self, workspace: Workspace) -> FiniteSum | None:
        """Return rows in memory that stand for all: all, or a sample; None without a weight."""

    @abstractmethod
    def has_offset(self, workspace: Workspace) -> bool:
        """Say whether something is added to the predictions."""

    @abstractmethod
    def with_loss(self, loss: Any) -> Self:
        """Return the mean of another loss over the same rows."""

    @abstractmethod
    def cheap_constant(self, workspace: Workspace) -> float:
        """Return a bound on the constant of the gradient: the trace where rows are many."""

    @abstractmethod
    def evaluate_exactly(self, x: Array, known: Evaluation | None = None) -> Evaluation:
        """Return the evaluation at x in float64 whatever the data; ``known`` where it is that."""

    @abstractmethod
    def along(self, at: Evaluation, x: Array) -> Line:
        """Return the line from ``at.x`` to x, where this evaluates."""


def mean_loss(f2: object, *wanted: Any) -> MeanLoss | None:
    """Return a data term that is a mean loss; None for any other.

    None also where its loss does not offer all that is wanted.
    """
    return f2 if isinstance(f2, MeanLoss) and offers(f2.loss, *wanted) else None
