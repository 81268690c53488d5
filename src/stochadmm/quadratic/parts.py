"""Penalties and operators in the forms that the small problem needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape
from ..base.terms import NuclearNorm, compiled_terms
from ..forms.compiled import operator_view, terms_view
from ..forms.structure import as_matrix
from ..linear_algebra.dense import inverse
from ..operators import as_operator
from ..penalties import segments


def tall(x: Array) -> Array:
    """Return a block as a float64 matrix with one column per output."""
    wide = np.asarray(x, dtype=np.float64)
    return wide.reshape(len(wide), math.prod(wide.shape[1:]))


def top(x: Array) -> float:
    """Return the largest absolute value."""
    return float(np.abs(x).max(initial=0.0))


Views = tuple[Any, Any]
"""Structure and penalty as compiled code sees them."""


def compiled_views(S: Any, h: Any, outputs: Shape) -> Views | None:
    """Return structure and penalty for Newton's method; None where it does not know them."""
    terms = compiled_terms(h, S.shape[0])
    return None if terms is None else _views(S, terms, outputs)


def splitting_views(S: Any, h: Any, outputs: Shape, side: int) -> Views | None:
    """Return structure and penalty for the splitting, which knows nuclear norms as well.

    ``side`` is the largest shorter side of their matrices.
    """
    flat = isinstance(h, Flat)
    rows, *columns = h.shape if flat else (S.shape[0], *outputs)
    terms: list[Any] = []
    for part, where in segments(h.penalty if flat else h, rows):
        size = where.stop - where.start
        small = offers(part, Has.FACTORS) and min((size, *columns)) <= side
        own = [NuclearNorm(size, part.alpha)] if small else compiled_terms(part, size)
        if own is None:
            return None
        terms += own
    return _views(S, [term.flat(columns[0]) for term in terms] if flat else terms, outputs)


def _views(S: Any, terms: list[Any], outputs: Shape) -> Views | None:
    if None in terms:
        return None
    columns, dtype = outputs[0] if outputs else 1, np.dtype(np.float64)
    made = terms_view(terms, S.shape[0], columns, dtype)
    return operator_view(S if sparse.issparse(S) else as_operator(S), dtype, S.shape[1]), made


def as_sparse(A: Any, d: int) -> Any:
    """Return an operator or a matrix as a CSR array."""
    matrix: Any = A if sparse.issparse(A) else as_matrix(as_operator(A), d)
    return sparse.csr_array(matrix).astype(np.float64)


@dataclass(frozen=True)
class Flat:
    """A penalty of a matrix as one of the vector of its entries."""

    penalty: Any
    shape: Shape

    def value(self, x: Array) -> float:
        return float(self.penalty.value(x.reshape(self.shape)))

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        result = self.penalty.prox(v.reshape(self.shape), step).ravel()
        if out is None:
            return np.asarray(result)
        out[:] = result
        return out

    def project_dual(self, u: Array) -> Array:
        return np.asarray(self.penalty.project_dual(u.reshape(self.shape)).ravel())

    def terms(self, n_rows: int) -> Any:
        made = compiled_terms(self.penalty, self.shape[0])
        if made is None:
            return None
        found = [term.flat(self.shape[1]) for term in made]
        return None if None in found else found


def shifted_inverse(H: Array, gram: Array, penalty: float, ridge: float) -> Array:
    """Return (H + penalty S'S)^-1, lifted by a ridge."""
    matrix = H + penalty * gram
    matrix.flat[:: len(matrix) + 1] += ridge
    found = inverse(matrix)
    return np.asarray(np.linalg.pinv(matrix, hermitian=True)) if found is None else found
