"""Loss + nuclear norm + other norms of one matrix: the mathematics, without solvers."""

from .bound import QuadraticBound
from .curved import MOST_FREE, CurvedLoss, Point
from .eigenbasis import EigenQuadratic, reduced
from .fista import Fista, FistaOptions
from .form import Form, read
from .metric import Diagonal, Kronecker, Metric
from .moments import Moments, moments
from .newton import NewtonOptions, ProximalNewton, zero_subgradients
from .splitting import Splitting, SplittingOptions
from .svt import SingularValueThreshold, nuclear_norm, spectral_norm

__all__ = [
    "MOST_FREE",
    "CurvedLoss",
    "Diagonal",
    "EigenQuadratic",
    "Fista",
    "FistaOptions",
    "Form",
    "Kronecker",
    "Metric",
    "Moments",
    "NewtonOptions",
    "Point",
    "ProximalNewton",
    "QuadraticBound",
    "SingularValueThreshold",
    "Splitting",
    "SplittingOptions",
    "moments",
    "nuclear_norm",
    "read",
    "reduced",
    "spectral_norm",
    "zero_subgradients",
]
