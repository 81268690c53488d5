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
    T, simple = _unfolded(penalty, n_rows)
    return sparse.eye_array(n_rows, format="csr") if T is None else T, simple


def _unfolded(penalty: Any, n_rows: int) -> tuple[Any, Any]:
    """Return T and the simple penalty, None and the penalty itself where T = I."""
    if isinstance(penalty, Stacked):
        made = [(*_unfolded(part, size), size) for part, size in penalty.parts if size]
        if all(T is None for T, *_ in made):
            return None, penalty
        blocks = [sparse.eye_array(size) if T is None else T for T, _, size in made]
        parts = [(made[k][1], block.shape[0]) for k, block in enumerate(blocks)]
        return sparse.csr_array(sparse.block_diag(blocks)), Stacked(parts)
    if offers(penalty, Has.UNFOLDED):
        T, simple = penalty.unfolded(n_rows)
        return T, simple
    return None, penalty
