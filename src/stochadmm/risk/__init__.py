"""The mean loss over blocks of rows: all in memory, or read again for every pass."""

from .evaluation import Evaluation
from .finite_sum import FiniteSum, loss_of_rows
from .sampling import Runs
from .streamed import StreamedSum

__all__ = ["Evaluation", "FiniteSum", "Runs", "StreamedSum", "loss_of_rows"]
