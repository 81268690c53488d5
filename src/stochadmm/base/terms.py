"""Penalties as plain numbers for compiled code: consecutive terms on the rows of a block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .capabilities import Has, offers

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Elementwise:
    """sum_j l1_j |x_j| + l2_j/2 x_j^2 + [lo_j <= x_j <= hi_j].

    Arrays of length ``size`` (one number per row, shared by the columns) or ``size * C`` (one per
    entry, row-major).
    """

    size: int
    l1: Floats
    l2: Floats
    lo: Floats
    hi: Floats


@dataclass(frozen=True)
class GroupNorms:
    """sum_g weight_g |x_g|_2 over consecutive groups of rows (all columns of a row together)."""

    sizes: NDArray[np.int64]
    weights: Floats

    @property
    def size(self) -> int:
        """Number of rows covered."""
        return int(self.sizes.sum())


@dataclass(frozen=True)
class TotalVariation:
    """weight * sum_j |x_{j+1} - x_j| over consecutive rows, each column by itself."""

    size: int
    weight: float


Term = Elementwise | GroupNorms | TotalVariation


def compiled_terms(penalty: Any, n_rows: int) -> list[Term] | None:
    """Return a penalty on this many rows as terms; None where compiled code does not know it."""
    return penalty.terms(n_rows) if offers(penalty, Has.TERMS) else None
