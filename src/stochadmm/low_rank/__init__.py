"""Loss + nuclear norm + other norms of one matrix: the mathematics, without solvers."""

from .bound import QuadraticBound
from .eigenbasis import EigenQuadratic, reduced
from .form import Form, read
from .moments import Moments, moments
from .splitting import Splitting, SplittingOptions
from .svt import SingularValueThreshold, nuclear_norm, spectral_norm

__all__ = [
    "EigenQuadratic",
    "Form",
    "Moments",
    "QuadraticBound",
    "SingularValueThreshold",
    "Splitting",
    "SplittingOptions",
    "moments",
    "nuclear_norm",
    "read",
    "reduced",
    "spectral_norm",
]
