"""The rounding of the dual equation, in the units of each coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock
from ..risk import FiniteSum
from ..risk.metrics import column_energies
from ..risk.weights import sample_weights, weighted

UNIT = 16 * float(np.finfo(np.float64).eps)
"""Rounding of a sum over rows relative to the sum of sizes, which is added up in blocks."""
TINY = float(np.finfo(np.float64).tiny)


def rounding(
    f2: FiniteSum,
    form: OneBlock,
    u: Array,
    mu: Array,
    size: float = 0.0,
    *,
    workspace: Workspace,
) -> Array:
    """Return a bound on the rounding of each entry of ``X'(q u)/n + S' mu``.

    ``size`` is the root mean square of slopes that were added up on the way to u.
    """
    columns = np.sqrt(workspace.rows.once(column_energies, f2))
    slopes = mean_size(f2, u) + size
    data = columns * slopes if u.ndim == 1 else columns[:, None] * slopes
    return np.asarray(UNIT * (data + abs(form.St) @ np.abs(mu)))


def unsettled(form: OneBlock, mu: Array) -> Any:
    """Return what ``S' mu`` may be off because conjugates are those of points near mu."""
    return abs(form.St) @ form.off(mu)


def mean_size(f2: FiniteSum, u: Array) -> Any:
    """Return the root mean square of the slopes of each output."""
    q = sample_weights(f2)
    return np.sqrt(weighted(q, np.square(u)).mean(axis=0))


def per_row(form: OneBlock, error: Array) -> Array:
    """Return the change of each entry of mu that moves ``S' mu`` by rounding only."""
    S = form.S
    out = np.zeros((S.shape[0], *error.shape[1:]))
    filled = np.flatnonzero(np.diff(S.indptr))
    if filled.size:
        size = np.abs(S.data)
        ratio = error[S.indices] / (size if error.ndim == 1 else size[:, None])
        out[filled] = np.minimum.reduceat(ratio, S.indptr[:-1][filled], axis=0)
    return out
