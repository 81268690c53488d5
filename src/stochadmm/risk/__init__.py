"""The mean loss over rows in memory: blocks, mini-batches, gradient estimators, metrics."""

from .evaluation import Evaluation
from .finite_sum import FiniteSum
from .parts import loss_of_rows
from .sampling import Runs

__all__ = ["Evaluation", "FiniteSum", "Runs", "loss_of_rows"]
