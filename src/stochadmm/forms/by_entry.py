"""Problems whose penalties act on single entries: ``f2(W) + sum l1 |W_jc| + l2/2 W_jc^2``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..base.terms import Elementwise, compiled_terms
from ..base.workspace import Workspace
from ..penalties import segments
from ..problem import Problem
from .one_block import OneBlock, one_block

Indices = NDArray[np.intp]


class NotEntrywise(ValueError):
    """The problem has another form; the message says in what."""


@dataclass(frozen=True)
class EntryForm:
    """l1 and l2 strengths and bounds of every penalized entry; one output is one column of W."""

    rows: Indices
    """Penalized rows of W."""
    free: Indices
    """The other rows."""
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    structure_rows: Indices = field(repr=False)
    """Row of the structure S of each penalized row of W."""
    factor: Array = field(repr=False)
    """Its only entry."""

    def multiplier(self, form: OneBlock, gradient: Array) -> Array:
        """Return mu with ``S' mu = -gradient`` in the penalized rows."""
        mu = np.zeros((form.S.shape[0], *gradient.shape[1:]))
        factor = self.factor if gradient.ndim == 1 else self.factor[:, None]
        mu[self.structure_rows] = -gradient[self.rows] / factor
        return mu


def by_entry(problem: Problem, workspace: Workspace) -> EntryForm:
    """Return the form of a problem; raise `NotEntrywise` where it has another."""
    form = one_block(problem, workspace)
    S, outputs = form.S, int(np.prod(problem.shape2[1:], dtype=int))
    if form.is_through or form.ties_columns or S.nnz < S.shape[0] or form.offset.any():
        raise NotEntrywise("the structure ties columns, or has an offset")
    if np.bincount(S.indices).max(initial=0) > 1:
        raise NotEntrywise("a coefficient has several penalties")
    numbers = [
        _numbers(part, own.stop - own.start, outputs)
        for whole, rows in form.parts
        for part, own in segments(whole, rows.stop - rows.start)
    ]
    l1, l2, lo, hi = (np.concatenate(each) for each in zip(*numbers, strict=True))
    factor = S.data.astype(np.float64)[:, None]
    # strengths and bounds of the coefficients from those of their multiples in S
    l1, l2 = l1 * np.abs(factor), l2 * factor**2
    lo, hi = np.sort(np.stack([lo / factor, hi / factor]), axis=0)
    penalized = (l1 > 0) | (l2 > 0)
    kept = np.flatnonzero(penalized.any(axis=1))
    if not penalized[kept].all() or (lo > 0).any() or (hi < 0).any():
        raise NotEntrywise("a penalty leaves single entries free, or excludes zero")
    bounded = (lo > -np.inf).any(axis=1) | (hi < np.inf).any(axis=1)
    if bounded.sum() > bounded[kept].sum():
        raise NotEntrywise("a coefficient has bounds only")
    if not kept.size:
        raise NotEntrywise("no penalty")
    kept = kept[np.argsort(S.indices[kept], kind="stable")]
    rows = S.indices[kept].astype(np.intp)
    free = np.flatnonzero(np.bincount(rows, minlength=problem.shape2[0]) == 0)
    return EntryForm(rows, free, l1[kept], l2[kept], lo[kept], hi[kept], kept, factor[kept, 0])


def _numbers(penalty: Any, size: int, outputs: int) -> list[Array]:
    """Return l1, l2 and bounds of a penalty, one number per entry."""
    terms = compiled_terms(penalty, size)
    if terms is None or len(terms) != 1 or not isinstance(terms[0], Elementwise):
        raise NotEntrywise("a penalty of more than single entries")
    return [each.reshape(size, outputs) for each in terms[0].flat(outputs).per_row()]
