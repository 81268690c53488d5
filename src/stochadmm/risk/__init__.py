"""The mean loss over rows in memory: blocks, mini-batches, gradient estimators, metrics."""

from .evaluation import Evaluation
from .finite_sum import FiniteSum
from .sampling import Runs

__all__ = ["Evaluation", "FiniteSum", "Runs"]
