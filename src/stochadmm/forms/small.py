"""Problems as the small route takes them: one stack of rows S with its penalty, as arrays.

``mean loss + h(S x2)``, S the structure on top of the identity, for a single output and penalties
that compiled loops know. Several outputs are one such problem each where no penalty joins them,
and else a single one in all their entries. See ``docs/design/small.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import GroupNorms, Term, compiled_terms
from ..base.workspace import Workspace
from ..kernels.extension import available
from ..kernels.small import SmallFound, SmallProblem, small_route
from ..kernels.views import DataView, PenaltyView
from ..operators import csr_parts, identity_scale
from ..problem import Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.views import dense_view, in_single_outputs, joint_view, single_views
from .compiled import terms_view


@dataclass(frozen=True)
class SmallLimits:
    """How large a problem may be for the small route.

    Parameters
    ----------
    columns : int
        Coefficients and intercept: systems of this size are solved by the dozen, one flop at a
        time.
    numbers : int
        Entries of X, which are copied as dense float64 rows: 4 MB stay in a processor's cache
        while a dozen passes read them, and more rows are better sampled.
    rows : int
        Rows of the structure and the identity together, per column.
    products : float
        Multiplications of a Hessian, times outputs: beyond, an epoch would take more than seconds.
    """

    columns: int = 256
    numbers: int = 524_288
    rows: int = 12
    products: float = 4e9

    def admits(self, n: int, p: int, structure: int = 0) -> bool:
        """Say whether n rows of p columns, with so many rows of a structure, are small."""
        return p <= self.columns and n * p <= self.numbers and structure <= self.rows * p

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return what keeps a problem from the small route, in words."""
        reason = why_not_one_call(problem, in_single_outputs)
        if reason is not None:
            return reason
        n, p = problem.f2.n_terms, problem.shape2[0]
        if not self.admits(n, p):
            return "it is not small"
        if not self.admits(n, p, problem.shape1[0]):
            return "the structure is not small"
        terms = all_terms(problem, workspace or Workspace())
        if terms is None:
            return "a penalty without rows of its own"
        outputs = _count(problem)
        if _joined(terms, outputs):
            n, p, outputs = n * outputs, p * outputs, 1  # one problem in all their entries
            # a Hessian with zeros between the outputs, in every step where it is not constant
            quadratic = offers(cast(FiniteSum, problem.f2).loss, Has.SQUARE)
            if not self.admits(n, p if quadratic else 2 * p):
                return "it is not small with all outputs in one"
        if outputs * max(n, p) * p * p > self.products:
            return "outputs are many"
        return None


def _joined(terms: list[Term], outputs: int) -> bool:
    """Say whether a penalty joins the outputs."""
    return outputs > 1 and not all(term.separable for term in terms)


def _compiled(f2: FiniteSum) -> bool:
    return f2.compiled


def why_not_one_call(
    problem: Problem, takes: Callable[[FiniteSum], bool] = _compiled
) -> str | None:
    """Return what keeps a problem from any solve in one compiled call, in words.

    ``takes`` says which rows and losses are taken: by default those of a single output.
    """
    f2 = loss_of_rows(problem.f2)
    if not available():
        return "no compiled kernels"
    if f2 is None or not takes(f2):
        return "rows or loss have no compiled form"
    if problem.f1 is not None or problem.b is not None:
        return "f1 or b"
    plain = identity_scale(problem.A1) == -1.0 and offers(problem.A2, Has.SPARSE)
    if problem.A1 is not None and not plain:
        return "a constraint that is not structure @ x2 = x1"
    return None


def ends_exactly(problem: Problem, workspace: Workspace) -> bool:
    """Say whether zeros come out exact: groups beside other penalties end at rounding's size."""
    terms = [t for t in all_terms(problem, workspace) or [] if not _is_zero(t)]
    return len(terms) < 2 or not any(term.kind == GroupNorms.kind for term in terms)


def _is_zero(term: Term) -> bool:
    """Say whether a term penalizes nothing: that of an intercept."""
    l1, l2 = term.per_row()[:2]
    return not (l1.any() or l2.any() or term.groups()[1].any() or term.bounded)


def all_terms(problem: Problem, workspace: Workspace) -> list[Term] | None:
    """Return the terms of both penalties, None where one of them has no such form."""
    first = workspace.once(_terms, problem.h1, problem.shape1[0])
    second = workspace.once(_terms, problem.h2, problem.shape2[0])
    return None if first is None or second is None else first + second


def _terms(penalty: Any, n_rows: int) -> list[Term] | None:
    """Return a penalty as elementwise terms and groups, None where it is something else."""
    if penalty is None:
        return []
    terms = compiled_terms(penalty, n_rows)
    known = terms is not None and all(term.by_groups for term in terms)
    return terms if known else None


@dataclass
class Hessian:
    """That of a quadratic loss on some rows, once it is known; all penalties share it."""

    matrix: Array | None
    known: bool = False

    @classmethod
    def of(cls, f2: FiniteSum, columns: int) -> Hessian:
        """Return room for that of so many columns, nothing for losses that are not quadratic."""
        return cls(np.empty((columns, columns)) if offers(f2.loss, Has.SQUARE) else None)


@dataclass(frozen=True)
class SmallForm:
    """The rows of S, and how many of them are the structure's."""

    f: DataView
    h: PenaltyView
    indptr: Array
    indices: Array
    data: Array
    n_structure: int
    hessian: Hessian
    again: Array
    """Rows that are repeated at the end, for the l1 norm beside a norm of groups."""
    outputs: int = 1
    """Outputs that are joined. Their mean is over entries, so that it and the penalty are smaller
    by this factor."""

    def multiplier(self, mu: Array) -> Array:
        """Return the multiplier of x1 that belongs to one of all rows."""
        mu = mu * self.outputs
        total = mu[: self.n_structure].copy()
        if self.again.size:
            own = self.again < self.n_structure
            total[self.again[own]] += mu[-self.again.size :][own]
        return total

    def solve(self, x2: Array, dual: Array | None) -> tuple[SmallProblem, SmallFound]:
        """Return arrays and numbers of the answer, from a start and a multiplier of x1."""
        mu = np.zeros(self.h.n_rows)
        if dual is not None:
            mu[: self.n_structure] = dual / self.outputs
        n, p = self.f.n_rows, x2.size
        problem = SmallProblem(
            self.f,
            self.h,
            self.indptr,
            self.indices,
            self.data,
            x2.astype(np.float64),
            mu,
            np.empty(n),
            np.empty(n),
            np.empty(p),
            self.n_structure,
            self.hessian.matrix,
            self.hessian.known,
        )
        found = small_route(problem)
        self.hessian.known = True
        if self.outputs > 1:
            problem.gradient[:] *= self.outputs
            value, penalty, bound = (self.outputs * number for number in found[:3])
            found = found._replace(
                value=value,
                penalty=penalty,
                bound=float(np.nextafter(bound, -np.inf)),
                inner_penalty=self.outputs * found.inner_penalty,
            )
        return problem, found


def minimize_in_columns(
    f2: FiniteSum,
    columns: Array,
    S: Any,
    penalty: Any,
    w: Array,
    dual: Array,
    limits: SmallLimits | None = None,
) -> Array | None:
    """Return the minimizer of ``mean loss(columns w) + penalty(S w)``, None where it is not small.

    ``w`` and ``dual``, a multiplier of the rows of S in CSR form, are where it begins.
    """
    limits = limits or SmallLimits()
    n, p = columns.shape
    if not f2.compiled or not limits.admits(n, p, S.shape[0]):
        return None
    terms = _terms(penalty, S.shape[0])
    if terms is None or _taken_apart(terms)[1].size:
        return None
    h = terms_view(terms, S.shape[0], 1, np.dtype(np.float64))
    indptr, indices = (a.astype(np.int32) for a in (S.indptr, S.indices))
    form = SmallForm(
        dense_view(f2, columns),
        h,
        indptr,
        indices,
        S.data,
        S.shape[0],
        Hessian(None),
        np.empty(0, np.intp),
    )
    return form.solve(w, dual)[0].w


def small_forms(problem: Problem, workspace: Workspace) -> list[SmallForm]:
    """Return the forms of a problem that `SmallLimits` admits: one, or one per output."""
    p, rows = problem.shape2[0], problem.shape1[0]
    terms = all_terms(problem, workspace) or []
    own = p if problem.h2 is not None else 0
    f2, outputs = cast(FiniteSum, problem.f2), _count(problem)
    joined = outputs if _joined(terms, outputs) else 1
    parts = workspace.shared.once(structure_rows, problem.A2, own, joined)
    if joined > 1:
        terms, rows = [cast(Term, term.flat(joined)) for term in terms], rows * joined
    terms, again = _taken_apart(terms)
    if again.size:
        parts = _with_rows(*parts, again)
    hessian = workspace.shared.once(Hessian.of, f2, p * joined)
    if joined > 1:
        h = terms_view(terms, parts[0].size - 1, 1, np.dtype(np.float64))
        # rounded toward zero: what bounds the smaller problem from below bounds the true one
        smaller = (np.nextafter(a / joined, 0.0) for a in (h.l1, h.l2, h.group_weights))
        l1, l2, group_weights = smaller
        h = replace(h, l1=l1, l2=l2, group_weights=group_weights)
        view = workspace.shared.once(joint_view, f2)
        return [SmallForm(view, h, *parts, rows, hessian, again, joined)]
    forms = []
    for k, view in enumerate(workspace.shared.once(single_views, f2)):
        own_terms = [term.of_output(k, outputs) for term in terms]
        h = terms_view(own_terms, rows + own + again.size, 1, np.dtype(np.float64))
        forms.append(SmallForm(view, h, *parts, rows, hessian, again))
    return forms


def _count(problem: Problem) -> int:
    return math.prod(problem.shape2[1:])


def _taken_apart(terms: list[Term]) -> tuple[list[Term], Array]:
    """Return terms without sparse groups: their l1 norms are at the end, on rows taken again."""
    plain, more, rows, start = list[Term](), list[Term](), [np.empty(0, np.intp)], 0
    for term in terms:
        groups, entries = term.apart()
        if entries is not None:
            rows.append(np.arange(start, start + entries.size))
            more.append(entries)
        plain.append(groups)
        start += groups.size
    return plain + more, np.concatenate(rows)


def _with_rows(
    indptr: Array, indices: Array, data: Array, again: Array
) -> tuple[Array, Array, Array]:
    """Return CSR rows with some of them repeated at the end."""
    sizes = np.diff(indptr)[again]
    entries = np.concatenate([np.arange(indptr[r], indptr[r + 1]) for r in again])
    pointers = np.concatenate([indptr, indptr[-1] + np.cumsum(sizes)]).astype(np.int32)
    return (
        pointers,
        np.concatenate([indices, indices[entries]]),
        np.concatenate([data, data[entries]]),
    )


def structure_rows(A: Any, own: int, outputs: int = 1) -> tuple[Array, Array, Array]:
    """Return row pointers, columns and values of A on top of ``own`` rows of the identity.

    With several outputs, those of the same matrix on all entries: each row once per output.
    """
    if outputs > 1:
        indptr, indices, data = structure_rows(A, own)
        copies = np.repeat(np.arange(indptr.size - 1), outputs)
        sizes = np.diff(indptr)[copies]
        pointers = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.arange(pointers[-1]) - np.repeat(pointers[:-1] - indptr[copies], sizes)
        output = np.repeat(np.tile(np.arange(outputs), indptr.size - 1), sizes)
        columns = indices[entries] * outputs + output
        return pointers.astype(np.int32), columns.astype(np.int32), data[entries]
    indptr, indices = np.arange(own + 1, dtype=np.int32), np.arange(own, dtype=np.int32)
    data = np.ones(own)
    if A is None:
        return indptr, indices, data
    pointers, columns, values = csr_parts(A)
    return (
        np.concatenate([pointers, pointers[-1] + indptr[1:]], dtype=np.int32, casting="same_kind"),
        np.concatenate([columns, indices], dtype=np.int32, casting="same_kind"),
        np.concatenate([values, data], dtype=np.float64),
    )
