"""The mean loss of a sample and of the tangent of all other rows, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..data import DenseRows
from ..risk import FiniteSum
from ..risk.weights import weighted
from ._passes import Sample, Sums, by_rows
from ._rest import REST, WithRest
from ._rests import WithRests
from ._sum import Facts, StreamedSum, in_memory


def tangent_term(f2: StreamedSum, rows: Sample, sums: Sums, x: Array, facts: Facts) -> FiniteSum:
    """Return the data term of the sample and of one row per output for all the others.

    The others are replaced by their tangent at x: a bound of the problem that remains, in memory,
    is one of the whole problem.
    """
    loss: Any = f2.loss
    rest = sums.weight - float(rows.weight.sum())
    if not rest > 1e-12 * sums.weight:  # the sample is everything
        return in_memory(f2, rows, rows.weight)
    data = rows.rows.as_type(np.float64)
    own = data.matvec(x[: f2.n_features])
    if f2.intercept:
        own, data = own + x[-1], data.with_ones()
    z = own if rows.offset is None else own + rows.offset
    u = loss.derivative(z, rows.y)
    qu = weighted(rows.weight, u)
    left = (sums.gradient - data.rmatvec(qu)) / rest
    values = by_rows(loss.values(z, rows.y))
    tangent = sums.conjugate - float(np.vdot(qu, own) - rows.weight @ values)
    floor = facts.floor * facts.weight - float(
        rows.weight @ by_rows(loss.conjugate(np.zeros_like(u), rows.y))
    )
    if f2.n_outputs is None:
        together: Any = WithRest(loss, tangent / rest, floor / rest, float(rows.y[0]))
        rest_rows, y = left[None, :], np.append(rows.y, REST)
    else:
        together = WithRests(loss, tangent / rest, floor / rest, rows.y[0], f2.n_outputs)
        rest_rows, y = f2.n_outputs * left.T, together.targets(rows.y)
    count = len(rest_rows)
    weight = np.append(rows.weight, np.full(count, rest / count))
    offset = None
    if rows.offset is not None:
        offset = np.concatenate([rows.offset, np.zeros((count, *rows.offset.shape[1:]))])
    added = DenseRows(np.ascontiguousarray(rest_rows))
    return FiniteSum(together, data.followed_by(added), y, weight, offset=offset)
