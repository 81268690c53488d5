"""Certificates of optimality: duality gaps, or the KKT residual where no conjugate exists."""

from .bound import DualPoint, dual_value, lower_bound, nearby, scaled_point
from .certify import Certificate, certify, has_certificate, kkt_residual
from .corrected import Corrected, corrected_point, has_model, model_of
from .null_space import clear_free_directions
from .options import CertificateOptions
from .relative import gap_scale, null_model
from .repair import repaired
from .rounding import rounding

__all__ = [
    "Certificate",
    "CertificateOptions",
    "Corrected",
    "DualPoint",
    "certify",
    "clear_free_directions",
    "corrected_point",
    "dual_value",
    "gap_scale",
    "has_certificate",
    "has_model",
    "kkt_residual",
    "lower_bound",
    "model_of",
    "nearby",
    "null_model",
    "repaired",
    "rounding",
    "scaled_point",
]
