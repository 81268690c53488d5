"""Which problems are "loss + nuclear norm + other norms of the same coefficients"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape
from ..operators import Identity
from ..penalties import L1, Nuclear, RowsL21, Stacked, Zero
from ..problem import Problem
from ..risk.finite_sum import FiniteSum


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
        return np.setdiff1d(np.arange(self.shape[0]), self.rows)

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
        total = float(self.nuclear.alpha)
        for penalty in self.others:
            if isinstance(penalty, (L1, RowsL21)):
                weights = 1.0 if penalty.weights is None else float(np.min(penalty.weights))
                total += float(penalty.alpha) * weights
        return total

    def penalty(self, W: Array) -> float:
        """Return the sum of the penalties of the penalized rows."""
        return float(sum(term.penalty.value(W) for term in self.terms))

    def multiplier(self, shape: Shape, parts: list[Array]) -> Array:
        """Return the multiplier of the constraint from one subgradient per penalty."""
        dual = np.zeros(shape)
        for term, part in zip(self.terms, parts, strict=True):
            if term.dual_rows is not None:
                dual[term.dual_rows] = part
        return dual

    def subgradients(self, dual: Array | None) -> list[Array]:
        """Return what a multiplier says of each penalty, zero where it says nothing."""
        size = (self.rows.size, *self.shape[1:])
        known = [
            None if dual is None or term.dual_rows is None else dual[term.dual_rows]
            for term in self.terms
        ]
        return [np.zeros(size) if part is None else part.astype(np.float64) for part in known]


def read(problem: Problem) -> Form | str:
    """Return the form of a problem, or in words why it has none."""
    f2 = problem.f2
    if not isinstance(f2, FiniteSum) or f2.n_outputs is None:
        return "there is no matrix of coefficients"
    if problem.f1 is not None or problem.b is not None:
        return "f1 or b is given"
    terms: list[Term] = []
    if problem.constrained:
        if not isinstance(problem.A1, Identity) or problem.A1.scale != -1.0:
            return "A1 is not minus the identity"
        if not offers(problem.A2, Has.SPARSE):
            return "A2 has no matrix"
        matrix: Any = problem.A2
        A2 = sparse.csr_array(matrix.tosparse())
        for penalty, where in _segments(problem.h1, A2.shape[0]):
            chosen = _chosen_columns(A2[where])
            if chosen is None:
                return "a penalty sees more than a choice of the coefficients"
            terms.append(Term(penalty, chosen, where))
    for penalty, where in _segments(problem.h2, problem.shape2[0]):
        terms.append(Term(penalty, np.arange(problem.shape2[0])[where], None))
    return _checked(terms, problem.shape2)


def _segments(penalty: Any, n_rows: int) -> Iterator[tuple[Any, slice]]:
    """Yield the penalties of a stack with their rows, those that do nothing left out."""
    if penalty is None or isinstance(penalty, Zero):
        return
    if not isinstance(penalty, Stacked):
        yield penalty, slice(0, n_rows)
        return
    start = 0
    for part, size in penalty.parts:
        if size:
            for inner, where in _segments(part, size):
                yield inner, slice(start + where.start, start + where.stop)
        start += size


def _chosen_columns(block: Any) -> Array | None:
    """Return the columns that the rows of a block pick, None where it does not pick."""
    block.eliminate_zeros()
    if (np.diff(block.indptr) != 1).any() or (block.data != 1).any():
        return None
    chosen: Array = block.indices.astype(np.intp)
    return None if np.unique(chosen).size < chosen.size else chosen


def _checked(terms: list[Term], shape: Shape) -> Form | str:
    nuclear = [term for term in terms if isinstance(term.penalty, Nuclear)]
    if len(nuclear) != 1 or nuclear[0].penalty.alpha <= 0:
        return "there is not exactly one nuclear norm"
    rows = nuclear[0].rows
    for term in terms:
        if not np.array_equal(term.rows, rows):
            return "the penalties act on different coefficients"
        zero = np.zeros((rows.size, *shape[1:]))
        if not offers(term.penalty, Has.CONJUGATE) or term.penalty.value(zero) != 0:
            return "a penalty has no conjugate, or is not zero at zero"
        if term.penalty.conjugate(zero) != 0:
            return "a penalty takes negative values"
    others = [term for term in terms if term is not nuclear[0]]
    return Form((nuclear[0], *others), shape)
