"""Certificates of optimality: duality gaps, or the KKT residual where no conjugate exists."""

from ._certify import Certificate, certify, has_certificate
from ._charge import rounding
from ._composite import Composite
from ._data import DataTerm, evaluate, mean_loss, sample_weights
from ._null_space import clear_free_directions
from ._scaled import DualPoint, lower_bound

__all__ = [
    "Certificate",
    "Composite",
    "DataTerm",
    "DualPoint",
    "certify",
    "clear_free_directions",
    "evaluate",
    "has_certificate",
    "lower_bound",
    "mean_loss",
    "rounding",
    "sample_weights",
]
