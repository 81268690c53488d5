"""The experiments of the ACC-SADMM paper, from YAML files to figures, claims and a report.

``python -m stochadmm_reproduction`` is the way in; ``config`` says what a file may contain.
"""

from .config import Experiment, load, names
from .runner import reproduce

__all__ = ["Experiment", "load", "names", "reproduce"]
