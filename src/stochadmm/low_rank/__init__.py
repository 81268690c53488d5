"""Loss + nuclear norm + other norms of one matrix: the mathematics, without solvers."""

from ..risk.moments import Moments, moments
from .blockwise import BlockwiseLoss, is_block_by_block
from .bound import QuadraticBound
from .curved import CurvedLoss, Point, is_sparse
from .dual import Bounds, shrunk
from .eigenbasis import EigenQuadratic, reduced
from .fista import Fista
from .form import Form, NotLowRank, read, why_not
from .metric import Diagonal, Kronecker, Metric, most_pairs
from .splitting import Splitting, compiled_steps
from .svt import NuclearProx, SingularValueThreshold, nuclear_norm, spectral_norm

__all__ = [
    "BlockwiseLoss",
    "Bounds",
    "CurvedLoss",
    "Diagonal",
    "EigenQuadratic",
    "Fista",
    "Form",
    "Kronecker",
    "Metric",
    "Moments",
    "NotLowRank",
    "NuclearProx",
    "Point",
    "QuadraticBound",
    "SingularValueThreshold",
    "Splitting",
    "compiled_steps",
    "is_block_by_block",
    "is_sparse",
    "moments",
    "most_pairs",
    "nuclear_norm",
    "read",
    "reduced",
    "shrunk",
    "spectral_norm",
    "why_not",
]
