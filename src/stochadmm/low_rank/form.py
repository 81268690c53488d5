"""Which problems are "loss + nuclear norm + other norms of the same coefficients"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock
from ..operators import csr_parts, identity_scale
from ..penalties import Nuclear, Zero, segments
from ..problem import Problem
from ..risk import loss_of_rows
from .svt import nuclear_norm


class NotLowRank(ValueError):
    """The problem has another form; the message says in what."""


@dataclass(frozen=True)
class Term:
    """A penalty of the coefficients in ``rows`` of x2, and where its multiplier is kept."""

    penalty: Any
    rows: Array
    dual_rows: slice | None
    """Rows of the constraint that belong to it, None where it acts on x2 itself."""


@dataclass(frozen=True)
class Form:
    """``f2(W) + sum_k h_k(W[rows])`` whose first penalty is a nuclear norm.

    Rows of W that are not among ``rows`` (an intercept, unpenalized columns) are free.
    """

    terms: tuple[Term, ...]
    shape: Shape

    @property
    def rows(self) -> Array:
        """The penalized rows of x2."""
        return self.terms[0].rows

    @property
    def free(self) -> Array:
        """The other ones."""
        kept = np.ones(self.shape[0], dtype=bool)
        kept[self.rows] = False
        return np.flatnonzero(kept)

    @property
    def nuclear(self) -> Nuclear:
        """The nuclear norm."""
        found: Nuclear = self.terms[0].penalty
        return found

    @property
    def others(self) -> tuple[Any, ...]:
        """The other penalties."""
        return tuple(term.penalty for term in self.terms[1:])

    @property
    def growth(self) -> float:
        """A number c with ``sum_k h_k(W) >= c |W|_F``: every norm here is at least Frobenius'."""
        return float(self.nuclear.alpha) + sum(float(h.growth) for h in self.norms)

    @property
    def norms(self) -> list[Any]:
        """Those of the other penalties that are norms of entries or rows."""
        return [h for h in self.others if offers(h, Has.GROWTH)]

    @property
    def strengths(self) -> list[float]:
        """The strengths of the other norms."""
        return [float(h.alpha) for h in self.norms]

    def beyond(self, pull: Array) -> Array:
        """Return the rows that the first other norm does not hold at zero against a pull.

        The others may be left out of whatever the norms share: where the nuclear norm has a
        subgradient, it has one that is zero in these rows.
        """
        return np.flatnonzero(self.others[0].violation(pull) > 1)

    def penalty(self, W: Array) -> float:
        """Return the sum of the penalties of the penalized rows."""
        others = sum(float(h.value(W)) for h in self.others)
        return float(self.nuclear.alpha) * nuclear_norm(W) + others

    def multiplier(self, shape: Shape, parts: list[Array]) -> Array:
        """Return the multiplier of the constraint from one subgradient per penalty."""
        dual = np.zeros(shape)
        for term, part in zip(self.terms, parts, strict=True):
            if term.dual_rows is not None:
                dual[term.dual_rows] = part
        return dual

    def stacked(self, composite: OneBlock, parts: list[Array]) -> Array:
        """Return the multiplier of the one-block form from one subgradient per penalty."""
        mu = np.zeros((composite.S.shape[0], *self.shape[1:]))
        for term, part in zip(self.terms, parts, strict=False):
            own = term.dual_rows
            mu[composite.rows1.stop + term.rows if own is None else own] = part
        return mu

    def subgradients(self, dual: Array | None) -> list[Array]:
        """Return what a multiplier says of each penalty, zero where it says nothing."""
        size = (self.rows.size, *self.shape[1:])
        known = [
            None if dual is None or term.dual_rows is None else dual[term.dual_rows]
            for term in self.terms
        ]
        return [np.zeros(size) if part is None else part.astype(np.float64) for part in known]


def read(problem: Problem) -> Form:
    """Return the form of a problem; raise `NotLowRank` where it has another."""
    f2 = loss_of_rows(problem.f2)
    if f2 is None or f2.n_outputs is None:
        raise NotLowRank("there is no matrix of coefficients")
    if problem.f1 is not None or problem.b is not None:
        raise NotLowRank("f1 or b is given")
    terms: list[Term] = []
    if problem.constrained:
        if identity_scale(problem.A1) != -1.0:
            raise NotLowRank("A1 is not minus the identity")
        if not offers(problem.A2, Has.SPARSE):
            raise NotLowRank("A2 has no matrix")
        entries = csr_parts(problem.A2)
        for penalty, where in _segments(problem.h1, problem.shape_dual[0]):
            terms.append(Term(penalty, _chosen_columns(*entries, where), where))
    for penalty, where in _segments(problem.h2, problem.shape2[0]):
        terms.append(Term(penalty, np.arange(problem.shape2[0])[where], None))
    return _checked(terms, problem.shape2)


def why_not(problem: Problem, workspace: Workspace | None = None) -> str | None:
    """Return in words why a problem has another form, None where it has this one."""
    try:
        (workspace or Workspace()).once(read, problem)
    except NotLowRank as reason:
        return str(reason)
    return None


def _segments(penalty: Any, n_rows: int) -> list[tuple[Any, slice]]:
    """Return the penalties of a stack with their rows, those that do nothing left out."""
    if penalty is None:
        return []
    return [(h, rows) for h, rows in segments(penalty, n_rows) if not isinstance(h, Zero)]


def _chosen_columns(indptr: Array, indices: Array, data: Array, rows: slice) -> Array:
    """Return the columns that some rows of a CSR matrix pick."""
    own = slice(indptr[rows.start], indptr[rows.stop])
    filled, counts = data[own] != 0, np.diff(indptr[rows.start : rows.stop + 1])
    if not filled.all():
        counts = np.bincount(np.repeat(np.arange(counts.size), counts)[filled], None, counts.size)
    chosen: Array = indices[own][filled].astype(np.intp)
    picks = (counts == 1).all() and (data[own][filled] == 1).all()
    if not picks or np.unique(chosen).size < chosen.size:
        raise NotLowRank("a penalty sees more than a choice of the coefficients")
    return chosen


def _checked(terms: list[Term], shape: Shape) -> Form:
    nuclear = [term for term in terms if offers(term.penalty, Has.FACTORS)]
    if len(nuclear) != 1 or nuclear[0].penalty.alpha <= 0:
        raise NotLowRank("there is not exactly one nuclear norm")
    rows = nuclear[0].rows
    for term in terms:
        if not np.array_equal(term.rows, rows):
            raise NotLowRank("the penalties act on different coefficients")
        zero = np.zeros((rows.size, *shape[1:]))
        if not offers(term.penalty, Has.CONJUGATE) or term.penalty.value(zero) != 0:
            raise NotLowRank("a penalty has no conjugate, or is not zero at zero")
        if term.penalty.conjugate(zero) != 0:
            raise NotLowRank("a penalty takes negative values")
    others = [term for term in terms if term is not nuclear[0]]
    return Form((nuclear[0], *others), shape)
