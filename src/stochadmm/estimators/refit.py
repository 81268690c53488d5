"""A second fit on the structure found: the same zeros, ties and directions, without the penalty.

A penalty that finds structure also shrinks what it keeps. The coefficients with the structure
that was found are a linear space for every output; the data term is minimized over it, and the
answer is mixed with the penalized one.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..data import Rows, checked_rows
from ..linear_algebra.affine import as_sparse
from ..linear_algebra.rank import kernel
from ..operators import Matrix
from ..penalties import Separable
from ..problem import Problem
from ..run.result import Result
from ._data import Data
from ._scores import scored_loss
from ._solve import Budget, solve
from ._structure import Limits

RIDGE = 1e-8
"""Square of the coefficients over the mean square of the columns: where classes can be told apart
without error, or columns depend on each other, there is no least value without it."""


def share(refit: Any) -> float:
    """Return the part of the second fit in the answer: 0 for False, 1 for True."""
    if isinstance(refit, (numbers.Real, np.bool_)) and 0 <= float(refit) <= 1:
        return float(refit)
    raise ValueError(f"refit is {refit!r}, expected False, True or a share between 0 and 1")


# ---------------------------------------------------------------- coefficients of one structure


@dataclass(frozen=True)
class Space:
    """Coefficients that keep a structure: for every output the span of some columns of a basis."""

    basis: Any
    """(d, k), dense or CSC."""
    used: Array
    """(k, outputs): which columns serve which output."""


def of_support(coef: Array, free: Array) -> Space:
    """Return the coefficients with the same zeros; free columns may take any value."""
    kept = (_matrix(coef) != 0) | free[:, None]
    rows = np.flatnonzero(kept.any(axis=1))
    return Space(sparse.eye_array(len(coef), format="csc")[:, rows], kept[rows])


def of_levels(coef: Array, levels: tuple[Array, Array], free: Array, zeros_stay: bool) -> Space:
    """Return the coefficients with the same ties, and with the same zeros if they are to stay.

    ``levels`` are labels and signs as `_structure.tied` returns them.
    """
    values = _matrix(coef)
    labels, signs = (_matrix(part) for part in levels)
    blocks, used = [], []
    for k, column in enumerate(values.T):
        kept = ((column != 0) | free | (not zeros_stay)) & (signs[:, k] != 0)
        members = np.flatnonzero(kept)
        found, place = np.unique(labels[members, k], return_inverse=True)
        entries = signs[members, k], (members, place)
        blocks.append(sparse.csc_array(entries, shape=(len(coef), len(found))))
        mark = np.zeros((len(found), values.shape[1]), dtype=bool)
        mark[:, k] = True
        used.append(mark)
    return Space(sparse.csc_array(sparse.hstack(blocks)), np.concatenate(used))


def of_kernel(operator: Any, zero: Array) -> Space:
    """Return the coefficients for which the rows ``zero`` of an operator still vanish."""
    rows = as_sparse(operator)
    if rows is None:
        raise ValueError(
            f"refit needs the operator as a matrix, but only the products of this one with "
            f"{operator.shape[1]} columns are known; pass a matrix, or set refit=False"
        )
    blocks, used = [], []
    outputs = zero.reshape(zero.shape[0], -1).T
    for k, mask in enumerate(outputs):
        basis = kernel(rows[np.flatnonzero(mask)])
        mark = np.zeros((basis.shape[1], len(outputs)), dtype=bool)
        mark[:, k] = True
        blocks.append(basis)
        used.append(mark)
    return Space(np.hstack(blocks), np.concatenate(used))


def of_rank(coef: Array, rank: int, free: Array) -> Space:
    """Return the matrices with the same zeros whose columns lie in the span of those of ``coef``.

    A zero entry of an output is one equation for its coordinates.
    """
    held = np.where(free[:, None], 0.0, coef)
    left, sizes, _ = np.linalg.svd(held, full_matrices=False)
    span = left[:, :rank]
    # what rounding leaves in rows that are zero: more for directions far below the first
    noise = (
        np.finfo(span.dtype).eps * max(held.shape) * sizes[0] / sizes[rank - 1] if rank else 0.0
    )
    own = np.eye(len(coef))[:, free]
    blocks, used = [], []
    for k, column in enumerate(held.T):
        zero = (column == 0) & ~free
        inner = _kernel(span[zero], noise) if zero.any() and rank else np.eye(rank)
        basis = np.hstack([own, span @ inner])
        mark = np.zeros((basis.shape[1], coef.shape[1]), dtype=bool)
        mark[:, k] = True
        blocks.append(np.where(zero[:, None], 0.0, basis))
        used.append(mark)
    return Space(np.hstack(blocks), np.concatenate(used))


def _kernel(rows: Array, noise: float) -> Array:
    """Return the directions in which all rows vanish up to ``noise``, an absolute size.

    A size relative to the rows would take rows that are nothing but rounding for equations.
    """
    _, sizes, right = np.linalg.svd(rows)
    return np.asarray(right[int(np.count_nonzero(sizes > noise)) :].T)


def _matrix(coef: Array) -> Array:
    return coef.reshape(len(coef), -1)


# ---------------------------------------------------------------- the fit


@dataclass(frozen=True)
class Refit:
    """Coefficients without shrinkage, and how well they were found."""

    coef: Array
    intercept: Any
    result: Result


def refitted(
    data: Data,
    space: Space,
    outputs: tuple[int, ...],
    limits: Limits | None,
    budget: Budget,
    random_state: Any,
    ridge: float = RIDGE,
) -> Refit:
    """Return the minimizer of the data term over a space of coefficients, within their limits."""
    basis = space.basis.astype(data.X.dtype)
    bounds = _Bounds.of(limits, basis)
    if data.y.ndim == 2:  # every output has targets of its own
        return _by_outputs(data, space, basis, bounds, budget, random_state, ridge)
    rows = checked_rows(data.X @ basis, notes=[])
    used = space.used if outputs else space.used[:, 0]
    lower, upper = (e[:, None] if outputs else e for e in (bounds.lower, bounds.upper))
    structure, within = bounds.of_several()
    problem = Problem.linear(
        data.loss,
        rows,
        data.y,
        structure=structure,
        on_structure=within,
        on_coefficients=Separable(
            0.0, _ridge(rows, ridge), np.where(used, lower, 0.0), np.where(used, upper, 0.0)
        ),
        intercept=data.intercept,
        sample_weight=data.weight,
        offset=data.offset,
    )
    result = _solved(problem, budget, random_state)
    inner = result.coef if not outputs else np.where(space.used, result.coef, 0.0)
    intercept = result.intercept if data.intercept else 0.0 * inner[:1].sum(axis=0)
    return Refit(np.asarray(basis @ inner), intercept, result)


def _by_outputs(
    data: Data,
    space: Space,
    basis: Any,
    bounds: _Bounds,
    budget: Budget,
    random_state: Any,
    ridge: float,
) -> Refit:
    """Return the refit of outputs that meet only in the structure found.

    Their rows stand below each other, each in its own coordinates: one problem with one target a
    row, whose columns are as many as there are free numbers. Missing targets have no row.
    """
    blocks, parts = [], []
    for k in range(data.y.shape[1]):
        part = _output(data, k)
        rows = part.X @ basis[:, np.flatnonzero(space.used[:, k])]
        blocks.append(sparse.csr_array(rows))
        parts.append(part)
    stacked: Any = sparse.block_diag(blocks, format="csr")
    squares = _ridge(checked_rows(stacked, notes=[]), ridge) * np.ones(stacked.shape[1])
    if data.intercept:
        ones: Any = sparse.block_diag([np.ones((len(part.y), 1)) for part in parts])
        stacked = sparse.hstack([stacked, ones.astype(stacked.dtype)], format="csr")
        squares = np.concatenate([squares, np.zeros(len(parts))])
    place = np.nonzero(space.used.T)  # output by output, as the blocks are
    free = np.full(stacked.shape[1] - len(place[1]), np.inf)
    lower = np.concatenate([bounds.lower[place[1]], -free])
    upper = np.concatenate([bounds.upper[place[1]], free])
    structure, within = bounds.of_several(space.used, len(free))
    problem = Problem.linear(
        data.loss,
        checked_rows(stacked, notes=[]),
        np.concatenate([part.y for part in parts]),
        structure=structure,
        on_structure=within,
        on_coefficients=Separable(0.0, squares, lower, upper),
        sample_weight=_joined([part.weight for part in parts]),
        offset=_joined([part.offset for part in parts]),
    )
    result = _solved(problem, budget, random_state)
    inner = np.zeros(space.used.shape, dtype=result.coef.dtype)
    inner[place[1], place[0]] = result.coef[: len(place[1])]
    intercept = result.coef[len(place[1]) :] if data.intercept else 0.0 * inner[:1].sum(axis=0)
    return Refit(np.asarray(basis @ inner), intercept, result)


@dataclass(frozen=True)
class _Bounds:
    """Limits in the coordinates of a space: those of one coordinate, and those of several."""

    lower: Array
    upper: Array
    several: Limits | None

    @classmethod
    def of(cls, limits: Limits | None, basis: Any) -> _Bounds:
        k = basis.shape[1]
        lower, upper = np.full(k, -np.inf), np.full(k, np.inf)
        if limits is None:
            return cls(lower, upper, None)
        rows = sparse.csr_array(limits.rows @ basis)
        rows.eliminate_zeros()
        sizes = np.diff(rows.indptr)
        one, more = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
        place, value = rows.indices[rows.indptr[one]], rows.data[rows.indptr[one]]
        ends = np.stack([limits.lower[one], limits.upper[one]]) / value
        np.maximum.at(lower, place, ends.min(axis=0))
        np.minimum.at(upper, place, ends.max(axis=0))
        rest = Limits(rows[more], limits.lower[more], limits.upper[more])
        return cls(lower, upper, rest if more.size else None)

    def of_several(self, used: Array | None = None, free: int = 0) -> tuple[Any, Any]:
        """Return rows and bounds of a structure; with ``used`` output by output, then ``free``."""
        if self.several is None:
            return None, None
        rows, ends = self.several.rows, np.stack([self.several.lower, self.several.upper])
        if used is not None:
            blocks = [rows[:, np.flatnonzero(mask)] for mask in used.T]
            rows = sparse.block_diag([*blocks, np.zeros((0, free))], format="csr")
            ends = np.tile(ends, used.shape[1])
        return Matrix(sparse.csr_array(rows)), Separable(0.0, 0.0, *ends)


def _output(data: Data, k: int) -> Data:
    """Return the rows of one output that have a target."""
    weight = data.weight
    if weight is not None and weight.ndim == 2:
        weight = weight[:, k]
    seen: Any = slice(None)  # no copy where no target is missing
    if weight is not None and not (weight > 0).all():
        seen = weight > 0
    offset = data.offset
    if offset is not None:
        offset = (offset if offset.ndim == 1 else offset[:, k])[seen]
    return replace(
        data,
        X=data.X[seen],
        y=data.y[seen, k],
        weight=None if weight is None else weight[seen],
        offset=offset,
    )


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _solved(problem: Problem, budget: Budget, random_state: Any) -> Result:
    return solve(
        problem,
        solver="auto",
        tol=1e-6,  # coefficients without a penalty move more per unit of the objective
        max_passes=None,
        budget=budget,
        start=None,
        workspace=Workspace(),
        random_state=random_state,
        verbose=False,
        callback=None,
    )


def _ridge(rows: Rows, ridge: float) -> float:
    n = max(rows.shape[0], 1)
    total = float(rows.row_norms2().sum(dtype=np.float64))
    return ridge * max(total / (n * rows.shape[1]), float(np.finfo(np.float64).tiny))


def mixed(model: Any, fitting: Any, result: Result, part: float, budget: Budget) -> Refit:
    """Return ``part`` of a second fit plus the rest of the penalized one."""
    data, columns = fitting.data, fitting.columns
    coef = fitting.structure.fold(result.coef, columns.n)
    intercept = result.intercept if data.intercept else 0.0 * coef[:1].sum(axis=0)
    space = model._space(fitting, result)
    if not space.basis.shape[1]:  # the null model is not shrunk
        return Refit(coef, intercept, result)
    second = refitted(
        data,
        space,
        coef.shape[1:],
        model._limits(fitting),
        budget,
        model.random_state,
    )
    return Refit(
        (1 - part) * coef + part * second.coef,
        (1 - part) * np.asarray(intercept) + part * np.asarray(second.intercept),
        second.result,
    )


def mean_loss(data: Data, found: Refit) -> float:
    """Return the data term at the coefficients of a refit."""
    problem = Problem.linear(
        scored_loss(data.loss),
        data.X,
        data.y,
        intercept=data.intercept,
        sample_weight=data.weight,
        offset=data.offset,
    )
    x2 = found.coef
    if data.intercept:
        x2 = np.concatenate([x2, np.reshape(found.intercept, (1, *x2.shape[1:]))])
    return float(problem.f2.value(x2.astype(problem.dtype)))
