"""Proximal steps of penalties given as consecutive terms."""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from .algebra import copy, flat
from .tv import fuse_columns


@kernel
def _clip(a, lo, hi):
    # unlike min and max, comparisons without a rule for NaN vectorize
    a = lo if a < lo else a
    return hi if a > hi else a


@kernel
def _soft(a, cut):
    return a - _clip(a, -cut, cut)


@kernel
def _elementwise(l1, l2, lo, hi, per_entry, first, last, v, step, out):
    columns = v.shape[1]
    if columns == 1 or per_entry:
        source, result = flat(v), flat(out)
        start = np.uint64(first * columns)  # unsigned: a test for negative ones stops vectors
        for i in range((last - first) * columns):
            k = start + np.uint64(i)
            a = _soft(source[k], step * l1[k]) / (1 + step * l2[k])
            result[k] = _clip(a, lo[k], hi[k])
    else:
        for j in range(first, last):
            cut, shrink = step * l1[j], 1 + step * l2[j]
            for c in range(columns):
                out[j, c] = _clip(_soft(v[j, c], cut) / shrink, lo[j], hi[j])


@kernel
def _group_norms(h, first_group, last_group, v, step, out):
    columns = v.shape[1]
    for g in range(first_group, last_group):
        start, stop = h.group_starts[g], h.group_stops[g]
        norm = 0.0
        for j in range(start, stop):
            for c in range(columns):
                norm += v[j, c] * v[j, c]
        norm = np.sqrt(norm)
        cut = step * h.group_weights[g]
        keep = 1 - cut / norm if norm > cut else 0.0
        for j in range(start, stop):
            for c in range(columns):
                out[j, c] = keep * v[j, c]


@kernel
def prox(h, v, step, out):
    """Write argmin_u h(u) + |u - v|^2 / (2 step) into out; v is not changed."""
    if h.kinds.size == 0:
        copy(v, out)
    for t in range(h.kinds.size):
        first, last = h.starts[t], h.starts[t + 1]
        if h.kinds[t] == codes.ELEMENTWISE:
            _elementwise(h.l1, h.l2, h.lo, h.hi, h.per_entry, first, last, v, step, out)
        elif h.kinds[t] == codes.GROUP_NORMS:
            _group_norms(h, h.first_group[t], h.first_group[t + 1], v, step, out)
        else:
            fuse_columns(v[first:last], step * h.variation[t], out[first:last])
