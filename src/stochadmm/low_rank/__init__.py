"""Loss + nuclear norm + other norms of one matrix: the mathematics, without solvers."""

from ..risk.moments import Moments, moments
from .blockwise import BlockwiseLoss, is_block_by_block
from .bound import QuadraticBound
from .curved import CurvedLoss, Point
from .dual import Bounds, shrunk
from .eigenbasis import EigenQuadratic, reduced
from .fista import Fista
from .form import Form, NotLowRank, read, why_not
from .metric import Diagonal, Kronecker, Metric
from .newton import ProximalNewton
from .options import (
    BlockOptions,
    DualOptions,
    FistaOptions,
    MetricOptions,
    NewtonOptions,
    SplittingOptions,
)
from .splitting import Splitting, compiled_steps
from .svt import NuclearProx, SingularValueThreshold, nuclear_norm, spectral_norm

__all__ = [
    "BlockOptions",
    "BlockwiseLoss",
    "Bounds",
    "CurvedLoss",
    "Diagonal",
    "DualOptions",
    "EigenQuadratic",
    "Fista",
    "FistaOptions",
    "Form",
    "Kronecker",
    "Metric",
    "MetricOptions",
    "Moments",
    "NewtonOptions",
    "NotLowRank",
    "NuclearProx",
    "Point",
    "ProximalNewton",
    "QuadraticBound",
    "SingularValueThreshold",
    "Splitting",
    "SplittingOptions",
    "compiled_steps",
    "is_block_by_block",
    "moments",
    "nuclear_norm",
    "read",
    "reduced",
    "shrunk",
    "spectral_norm",
    "why_not",
]
