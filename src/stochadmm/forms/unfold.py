"""Penalties of running structures as simple penalties of differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..base.terms import TotalVariation, compiled_terms
from ..penalties import L1, Stacked


def unfold(penalty: Any, n_rows: int) -> tuple[Any, Any]:
    """Write a penalty as ``simple(T x)`` where the dual set of ``simple`` spans whole coordinates.

    A total variation becomes the l1 norm of differences; everything else stays, with T = I.

    Returns
    -------
    T : CSR array
    simple : Penalty
    """
    if isinstance(penalty, Stacked):
        made = [unfold(part, size) for part, size in penalty.parts if size]
        if all(T.shape[0] == T.shape[1] for T, _ in made):
            return sparse.csr_array(sparse.eye_array(n_rows)), penalty
        T = sparse.csr_array(sparse.block_diag([T for T, _ in made]))
        return T, Stacked([(simple, T.shape[0]) for T, simple in made])
    terms = compiled_terms(penalty, n_rows)
    if terms and len(terms) == 1 and isinstance(terms[0], TotalVariation):
        ones: Any = np.ones(max(n_rows - 1, 0))
        D = sparse.diags_array([-ones, ones], offsets=[0, 1], shape=(ones.size, n_rows))
        return sparse.csr_array(D), L1(terms[0].weight)
    return sparse.csr_array(sparse.eye_array(n_rows)), penalty
