"""Which problems are "loss + penalties of single entries"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.protocols import Array
from ..base.terms import Elementwise, compiled_terms
from ..base.workspace import Workspace
from ..certificates import has_certificate
from ..forms.one_block import OneBlock, one_block
from ..penalties import segments
from ..problem import Problem
from ..risk import loss_of_rows

Indices = NDArray[np.intp]


class NotEntrywise(ValueError):
    """The problem has another form; the message says in what."""


class Entries(Protocol):
    """``<tilt, W> + sum l1 |W_jc| + l2/2 W_jc^2`` within bounds, as coordinate steps see it."""

    @property
    def free(self) -> Indices:
        """Rows without a penalty."""
        ...

    @property
    def tilt(self) -> Array | float:
        """A linear term."""
        ...

    @property
    def l1(self) -> Array:
        """The strength of every entry."""
        ...

    @property
    def l2(self) -> Array:
        """The strength of its square."""
        ...

    @property
    def lo(self) -> Array:
        """Its lower bound."""
        ...

    @property
    def hi(self) -> Array:
        """Its upper bound."""
        ...

    def value(self, W: Array) -> float:
        """Return the penalties of entries within the bounds."""
        ...


@dataclass(frozen=True)
class TiltedEntries:
    """A norm of entries and a linear term."""

    tilt: Array
    l1: Array
    free: Indices

    @property
    def l2(self) -> Array:
        """None."""
        return np.broadcast_to(0.0, self.l1.shape)

    @property
    def lo(self) -> Array:
        """None."""
        return np.broadcast_to(-np.inf, self.l1.shape)

    @property
    def hi(self) -> Array:
        """None."""
        return np.broadcast_to(np.inf, self.l1.shape)

    def value(self, W: Array) -> float:
        """Return the norm and the linear term."""
        return float(np.vdot(self.l1, np.abs(W))) + float(np.vdot(self.tilt, W))


@dataclass(frozen=True)
class EntryForm:
    """``f2(W) + sum l1 |W_jc| + l2/2 W_jc^2`` within bounds, over the penalized rows of W.

    One output is a matrix of one column.
    """

    composite: OneBlock = field(repr=False)
    rows: Indices
    """The penalized rows of W,"""
    free: Indices
    """and the other ones."""
    own: Indices
    """The row of the structure of each penalized one, and"""
    factor: Array
    """the number it is multiplied by there."""
    l1: Array
    l2: Array
    lo: Array
    hi: Array
    tilt: ClassVar[float] = 0.0
    """There is no linear term."""

    def value(self, W: Array) -> float:
        """Return the penalties of entries within the bounds."""
        size = np.abs(W)
        return float((size * (self.l1 + 0.5 * self.l2 * size)).sum())

    def pull(self, gradient: Array) -> Array:
        """Return the multiplier of the structure that balances a gradient of the rows."""
        mu = np.zeros((self.composite.S.shape[0], *gradient.shape[1:]))
        mu[self.own] = -gradient / self.factor[:, None]
        return mu


def read(problem: Problem, workspace: Workspace | None = None) -> EntryForm:
    """Return the form of a problem; raise `NotEntrywise` where it has another."""
    f2, workspace = loss_of_rows(problem.f2), workspace or Workspace()
    if f2 is None:
        raise NotEntrywise("rows are not in memory")
    if problem.f1 is not None or not has_certificate(problem, workspace):
        raise NotEntrywise("f1 is given, or a part has no conjugate")
    form = one_block(problem, workspace)
    S = form.S
    if form.is_through or form.ties_columns or S.nnz < S.shape[0] or form.offset.any():
        raise NotEntrywise("the structure ties columns, or has an offset")
    if np.bincount(S.indices).max(initial=0) > 1:
        raise NotEntrywise("a coefficient has several penalties")
    numbers = _numbers(form, f2.n_outputs or 1)
    factor = S.data.astype(np.float64)
    l1, l2, lo, hi = _of_coefficients(factor, numbers)
    held = (l1 > 0) | (l2 > 0)
    if not held[held.any(axis=1)].all() or (lo > 0).any() or (hi < 0).any():
        raise NotEntrywise("a penalty leaves single entries free, or excludes zero")
    bounded = (lo > -np.inf).any(axis=1) | (hi < np.inf).any(axis=1)
    if (bounded & ~held.any(axis=1)).any():
        raise NotEntrywise("a coefficient has bounds only")
    kept = np.flatnonzero(held.any(axis=1))
    kept = kept[np.argsort(S.indices[kept], kind="stable")]
    rows = S.indices[kept].astype(np.intp)
    if not rows.size:
        raise NotEntrywise("no penalty")
    outside = np.ones(problem.shape2[0], dtype=bool)
    outside[rows] = False
    free = np.flatnonzero(outside)
    return EntryForm(form, rows, free, kept, factor[kept], l1[kept], l2[kept], lo[kept], hi[kept])


def why_not(problem: Problem, workspace: Workspace | None = None) -> str | None:
    """Return in words why a problem has another form, None where it has this one."""
    try:
        (workspace or Workspace()).once(read, problem, workspace)
    except NotEntrywise as reason:
        return str(reason)
    return None


def _numbers(form: OneBlock, outputs: int) -> list[Array]:
    """Return l1, l2 and bounds of all rows of the structure, one number per entry."""
    found: list[list[Array]] = []
    for whole, rows in form.parts:
        for part, own in segments(whole, rows.stop - rows.start):
            found.append(entry_numbers(part, own.stop - own.start, outputs))
    if not found:
        raise NotEntrywise("no penalty")
    return [np.concatenate(each) for each in zip(*found, strict=True)]


def entry_numbers(penalty: Any, size: int, outputs: int) -> list[Array]:
    """Return l1, l2 and bounds of a penalty, one number per entry."""
    terms = compiled_terms(penalty, size)
    if terms is None or len(terms) != 1 or not isinstance(terms[0], Elementwise):
        raise NotEntrywise("a penalty of more than single entries")
    return [each.reshape(size, outputs) for each in terms[0].flat(outputs).per_row()]


def _of_coefficients(factor: Array, numbers: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Return strengths and bounds of the coefficients from those of their multiples."""
    l1, l2, lo, hi = numbers
    scale = factor[:, None]
    ends = np.sort(np.stack([lo / scale, hi / scale]), axis=0)
    return l1 * np.abs(scale), l2 * scale**2, ends[0], ends[1]
