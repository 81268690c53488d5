"""The penalties of the stacked structure, one after the other, in units of their own rows.

Rows of different pieces may differ by orders of magnitude (differences of columns in small units
beside the columns themselves). The splitting weighs them by sigma, one over their mean squared
length, so that how a penalty is written does not decide about its speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.protocols import Array
from ..forms.one_block import OneBlock
from ..penalties import segments


@dataclass(frozen=True)
class Pieces:
    """Penalties with their rows and the weight of these."""

    parts: list[tuple[Any, slice, float]]

    @classmethod
    def of(cls, form: OneBlock) -> Pieces:
        """Take stacks apart and measure the rows that are seen."""
        length2: Array = np.where(form.mask, form.S.power(2).sum(axis=1), 0.0)
        found = []
        for part, rows in pieces(form):
            filled = length2[rows][length2[rows] > 0]
            found.append((part, rows, 1.0 / float(filled.mean()) if filled.size else 1.0))
        return cls(found)

    def sigma(self) -> Array:
        """Return the weight of every row."""
        sizes = [rows.stop - rows.start for _, rows, _ in self.parts]
        return np.repeat([weight for _, _, weight in self.parts], sizes)

    def prox(self, v: Array, rho: float) -> Array:
        """Return ``argmin_z h(z) + rho/2 sum_r sigma_r (z_r - v_r)^2``."""
        out = np.empty_like(v)
        for part, rows, weight in self.parts:
            part.prox(v[rows], 1 / (rho * weight), out=out[rows])
        return out


def pieces(form: OneBlock) -> list[tuple[Any, slice]]:
    """Return the penalties of the stacked structure with their rows, stacks taken apart."""
    return segments(form.stacked_penalty, form.S.shape[0])
