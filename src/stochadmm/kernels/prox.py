"""Proximal steps of penalties given as consecutive terms."""

from __future__ import annotations

import numpy as np

from . import codes
from ._jit import kernel
from .algebra import copy


@kernel
def _elementwise(h, first, last, v, step, out):
    columns = v.shape[1]
    width = columns if h.per_entry else 1
    for j in range(first, last):
        for c in range(columns):
            k = j * width + (c if h.per_entry else 0)
            a, cut = v[j, c], step * h.l1[k]
            if a > cut:
                a -= cut
            elif a < -cut:
                a += cut
            else:
                a = a * 0
            a /= 1 + step * h.l2[k]
            out[j, c] = min(max(a, h.lo[k]), h.hi[k])


@kernel
def _group_norms(h, first_group, last_group, v, step, out):
    columns = v.shape[1]
    for g in range(first_group, last_group):
        start, stop = h.group_starts[g], h.group_starts[g + 1]
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
            _elementwise(h, first, last, v, step, out)
        elif h.kinds[t] == codes.GROUP_NORMS:
            _group_norms(h, h.first_group[t], h.first_group[t + 1], v, step, out)
