"""Penalties as simple penalties of a linear map."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from ..base.capabilities import Has, offers
from ..penalties import Stacked


def unfold(penalty: Any, n_rows: int) -> tuple[Any, Any]:
    """Write a penalty as ``simple(T x)`` where the dual set of ``simple`` spans whole coordinates.

    A total variation becomes the l1 norm of differences; what does not unfold stays, with T = I.

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
    if offers(penalty, Has.UNFOLDED):
        T, simple = penalty.unfolded(n_rows)
        return T, simple
    return sparse.csr_array(sparse.eye_array(n_rows)), penalty
