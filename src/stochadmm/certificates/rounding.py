"""The rounding of the dual equation, in the units of each coordinate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock
from ..kernels.extension import available
from ..kernels.passes import compensated_adjoint
from ..risk import FiniteSum
from ..risk.dual import add_compensated, two_product
from ..risk.metrics import column_energies
from ..risk.targets import sample_weights, weighted

EPS = float(np.finfo(np.float64).eps)
UNIT = 16 * EPS
"""Rounding of a sum over rows relative to the sum of sizes, which is added up in blocks."""
TINY = float(np.finfo(np.float64).tiny)


def rounding(
    f2: FiniteSum,
    form: OneBlock,
    u: Array | None,
    mu: Array,
    size: float = 0.0,
    *,
    workspace: Workspace,
) -> Array:
    """Return a bound on the rounding of each entry of ``X'(q u)/n + S' mu``.

    ``size`` is the root mean square of derivatives that were added up on the way to u, or that of
    u where it is not kept.
    """
    columns = np.sqrt(workspace.rows.once(column_energies, f2))
    derivatives = size if u is None else mean_size(f2, u) + size
    data = columns * derivatives if mu.ndim == 1 else columns[:, None] * derivatives
    return np.asarray(UNIT * (data + abs(form.St) @ np.abs(mu)))


def residual(f2: FiniteSum, form: OneBlock, u: Array, mu: Array, error: Array) -> Any:
    """Return ``X'(q u)/n + S' mu`` as if computed in twice the precision, and its error.

    ``error`` is the `rounding` of the ordinary sum, a bound on the sum of sizes over ``1 / UNIT``.
    The error is one unit of the result and a square of units of what is added (Ogita, Rump and
    Oishi 2005). None where there are no compiled loops.
    """
    n, outputs = f2.n_terms, f2.n_outputs or 1
    high, low = np.zeros((2, f2.n_columns, outputs))
    if not available() or not add_compensated(f2, u, high, low):
        return None
    for part in two_product(float(n), mu.reshape(-1, outputs)):
        for c in range(outputs):
            hi, lo = high[:, c].copy(), low[:, c].copy()
            compensated_adjoint(form.S, np.ascontiguousarray(part[:, c]), hi, lo)
            high[:, c], low[:, c] = hi, lo
    left = ((high + low) / n).reshape(error.shape)
    if not np.isfinite(left).all():  # sizes whose halves are no numbers
        return None
    terms = 2 * EPS * (n + form.S.shape[0] + 8)
    return left, 4 * EPS * np.abs(left) + terms**2 * (error / UNIT) + TINY


def conjugate_rounding(f2: FiniteSum, u: Array) -> float:
    """Return the rounding of the mean conjugate at u beyond that of its own size.

    Of targets far from zero: the products ``u y`` of the conjugates cancel in their sum.
    """
    if np.shape(f2.y) != u.shape:
        return 0.0
    products = np.abs(weighted(sample_weights(f2), u) * np.nan_to_num(f2.y))
    return 4.0 * UNIT * float(np.mean(products)) * (f2.n_outputs or 1)


def unsettled(form: OneBlock, mu: Array) -> Any:
    """Return what ``S' mu`` may be off because conjugates are those of points near mu."""
    return abs(form.St) @ form.off(mu)


def mean_size(f2: FiniteSum, u: Array) -> Any:
    """Return the root mean square of the derivatives of each output."""
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
