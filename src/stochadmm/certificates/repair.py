"""Feasible points: into the domain of an indicator without leaving the constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock, one_block
from ..penalties.bounds import bounds
from ..problem import Pair, Problem
from ..quadratic import QuadraticModel
from .options import OPTIONS

MOST_COLUMNS = 2000
"""Columns up to which the pseudo-inverse of a structure, or a small problem, repairs a point."""


def repaired(problem: Problem, point: Pair, *, workspace: Workspace | None = None) -> Pair | None:
    """Return a feasible pair in float64 with finite penalties, made from ``point``.

    None when no simple repair leads into the domains of the penalties: moving single coordinates
    of x2, least squares, or shrinking the point.
    """
    workspace = workspace or Workspace()
    x = problem.feasible(wide(point), workspace)
    if _finite(problem, x):
        return x
    attempts: tuple[Any, ...] = (_by_coordinates, _rounded, _by_least_squares, _nearest, _shrunk)
    for attempt in attempts if problem.reducible else (_rounded,):
        found: Pair | None = attempt(problem, x, workspace)
        if found is not None:
            return found
    return None


def wide(x: Pair) -> Pair:
    """Return a pair in float64."""
    return Pair(np.asarray(x.x1, dtype=np.float64), np.asarray(x.x2, dtype=np.float64))


def _finite(problem: Problem, x: Pair) -> bool:
    return bool(np.isfinite(problem.penalty(x)))


def _rounded(problem: Problem, x: Pair, workspace: Workspace) -> Pair | None:
    """Project both blocks where that is a matter of rounding only."""
    if problem.A1 is None or problem.A2 is None:
        return None
    moved = problem.inside(x)
    near = is_rounding(problem, x, problem.constraint(moved), workspace=workspace)
    return moved if near and _finite(problem, moved) else None


def is_rounding(
    problem: Problem,
    x: Pair,
    residual: Array,
    dtype: DTypeLike = np.float64,
    workspace: Workspace | None = None,
) -> bool:
    """Say whether a residual of the constraint at x is a matter of rounding in ``dtype``.

    It is some units of rounding of what is added up, as long as that leaves most digits of what
    the rows are to be: coefficients that run off along directions that the rows do not see round
    by more than any bound, and would excuse everything.
    """
    if problem.A1 is None or not residual.any():
        return True
    shared = (workspace or Workspace()).shared
    size = sum(_size(A, v, shared) for A, v in ((problem.A1, x.x1), (problem.A2, x.x2)))
    terms = 1.0 if problem.is_model else float(sum(problem.shape1[:1] + problem.shape2[:1]))
    unit = float(np.finfo(dtype).eps)
    # rows of a structure, sums of products, are off by some units of rounding
    allowed = 32 * unit * terms * size
    if not _is_homogeneous(problem):
        wanted = np.abs(problem.A1.matvec(problem.inside(x).x1)).max(initial=0.0)
        wanted = max(wanted, 0.0 if problem.b is None else np.abs(problem.b).max(initial=0.0))
        # most digits are left where it is at most a millionth of what rows are to be
        allowed = min(allowed, max(1e-6, np.sqrt(unit)) * float(wanted))
    return bool(np.abs(residual).max(initial=0.0) <= allowed)


def _is_homogeneous(problem: Problem) -> bool:
    """Say whether rows are to be of a sign, or zero: that has no scale of its own."""
    if problem.b is not None and problem.b.any():
        return False
    edges = bounds(problem.h1, problem.shape1)
    return edges is not None and not any(edge[np.isfinite(edge)].any() for edge in edges)


def _size(A: Any, x: Array, shared: Workspace) -> float:
    """Return the largest sum of sizes ``|A| |x|``; of A without a matrix as if rows were short."""
    if not offers(A, Has.SPARSE):
        return float(max(np.abs(A.matvec(x)).max(initial=0.0), np.abs(x).max(initial=0.0)))
    return float((shared.once(_sizes, A) @ np.abs(x)).max(initial=0.0))


def _sizes(A: Any) -> Any:
    return abs(sparse.csr_array(A.tosparse()))


def pulled_inside(problem: Problem, x2: Array, workspace: Workspace | None = None) -> Pair | None:
    """Return the pair of coefficients near x2 whose computed rows are inside of every domain.

    Rows of a structure that rounding has taken over an edge are pulled back by some units of
    it, and with them those that are next to an edge. Coefficients that are exactly zero stay so,
    and rows where all that are next to zero are. None where that does not lead inside, or rows
    are further out than rounding explains.
    """
    workspace = workspace or Workspace()
    x = problem.feasible(Pair(np.zeros(problem.shape1), np.asarray(x2, np.float64)))
    if _finite(problem, x):
        return x
    missing = problem.constraint(problem.inside(x))
    if not is_rounding(problem, x, missing, workspace=workspace):
        return None
    unit = float(np.finfo(np.float64).eps)
    size = np.abs(x.x1).max(initial=0.0) + np.abs(x.x2).max(initial=0.0)
    solvable = problem.determined is not None and problem.determined[0] == 1
    solvable = solvable and problem.shape2[0] <= MOST_COLUMNS
    for units in (2.0, 8.0, 32.0, 128.0):  # of rounding
        moved = problem.feasible(Pair(x.x1, (1.0 - units * unit) * x.x2))
        if not _finite(problem, moved) and solvable:
            moved = _pulled(problem, x, units * unit * size, workspace)
        nearly = (x.x1 != 0) & (np.abs(x.x1) <= units * unit * size)
        lost = moved.x2[x.x2 == 0].any() or (not nearly.any() and moved.x1[x.x1 == 0].any())
        if _finite(problem, moved) and not lost:
            return moved
    return None


def _pulled(problem: Problem, x: Pair, by: float, workspace: Workspace) -> Pair:
    """Return x with the rows that are within ``by`` of an edge moved inwards by as much."""
    change = np.zeros(problem.shape1)
    for sign in (1.0, -1.0):
        shifted = Pair(x.x1 + sign * by, x.x2)
        change += problem.inside(shifted).x1 - shifted.x1
    assert problem.determined is not None
    inverse = workspace.shared.once(_pseudo_inverse, problem.A2)
    x2 = x.x2 - problem.determined[1] * (inverse @ change)
    return problem.feasible(Pair(x.x1, np.where(x.x2 == 0, 0.0, x2)))


def _by_coordinates(problem: Problem, x: Pair, workspace: Workspace) -> Pair | None:
    """Move the coordinates of x2 that rows of A2 with a single entry send out of h1's domain."""
    A2: Any = problem.A2
    wanted = problem.inside(x).x1
    if A2 is None or problem.A1 is None or not offers(A2, Has.SPARSE):
        return None
    right = -problem.A1.matvec(wanted) + (0.0 if problem.b is None else problem.b)
    S = sparse.csr_array(A2.tosparse())
    single = np.flatnonzero(np.diff(S.indptr) == 1)
    x2 = x.x2.copy()
    hit = (x.x1 != wanted)[single] if len(x.x1) == S.shape[0] else np.zeros(len(single), bool)
    for row in single[hit.any(axis=tuple(range(1, hit.ndim)))]:
        k = S.indptr[row]
        out = np.asarray(x.x1[row] != wanted[row])
        x2[S.indices[k]] = np.where(out, right[row] / S.data[k], x2[S.indices[k]])
    moved = problem.feasible(Pair(x.x1, x2), workspace)
    return moved if _finite(problem, moved) else _rounded(problem, moved, workspace)


def _by_least_squares(problem: Problem, x: Pair, workspace: Workspace) -> Pair | None:
    """Move x2 by the smallest change that sends x1 into the domain of h1, a little inside it.

    One round is enough where the rows of A2 are independent; otherwise reflections find a point
    inside after a few, if the domain has an inside.
    """
    A2: Any = problem.A2
    if A2 is None or problem.A1 is None or problem.determined is None:
        return None
    if problem.determined[0] != 1:
        return None
    d = problem.shape2[0]
    if d > MOST_COLUMNS:
        return None
    inverse = workspace.shared.once(_pseudo_inverse, A2)
    scale = problem.determined[1]
    for beyond, rounds in ((1.0, 1), (1.5, 60)):  # reflections go half as far again
        moved = x
        for _ in range(rounds):
            change = problem.inside(moved).x1 - moved.x1
            x2 = moved.x2 - scale * beyond * (inverse @ change)
            moved = problem.feasible(Pair(moved.x1, x2))
            if _finite(problem, moved):
                return moved
            near = _rounded(problem, moved, workspace)
            if near is not None:
                return near
    return None


def _nearest(problem: Problem, x: Pair, workspace: Workspace) -> Pair | None:
    """Move x2 to the nearest point inside, where rows of A2 depend on each other.

    A small problem finds it, and which rows are at an edge; these are then put there exactly. Few
    digits mostly tell, and the second try has all.
    """
    if problem.shape2[0] > MOST_COLUMNS or problem.f1 is not None:
        return None
    form = one_block(problem, workspace)
    if form.is_through or not offers(form.stacked_penalty, Has.SCALED):
        return None
    model, dual = workspace.once(_domain, form), None
    for tol in (1e-6, OPTIONS.model_tol):
        H, zero = np.eye(problem.shape2[0]), np.zeros_like(x.x2)
        found = model.minimize(H, zero, x.x2, tol=tol, dual=dual, max_iter=2000)
        if not np.isfinite(found.w).all():
            return None
        dual = found.dual
        moved = problem.feasible(Pair(x.x1, _at_edges(form, found.w, found.z)), workspace)
        near = moved if _finite(problem, moved) else _rounded(problem, moved, workspace)
        if near is not None:
            return near
    return None


def _domain(form: OneBlock) -> QuadraticModel:
    """Return the solver of small problems whose penalties are domains only."""
    return QuadraticModel(
        form.S,
        form.stacked_penalty.scaled(0.0),
        None,
        form.shape,
        form.offset,
        workspace=form.shared,
    )


def _at_edges(form: OneBlock, w: Array, z: Array) -> Array:
    """Return w with the rows exactly at their bounds that z has there."""
    edges = bounds(form.stacked_penalty, z.shape)
    if edges is None:
        return w
    flat, there, columns = z.reshape(len(z), -1), w.copy().reshape(len(w), -1), form.S.toarray()
    right = (z + form.offset).reshape(len(z), -1)
    for output in range(flat.shape[1]):
        low, high = (edge[:, output] for edge in edges)
        held = (flat[:, output] <= low) | (flat[:, output] >= high)
        if not held.any():
            continue
        left: Any = right[held, output] - columns[held] @ there[:, output]
        there[:, output] += np.linalg.lstsq(columns[held], left, rcond=None)[0]
    return there.reshape(w.shape)


def _pseudo_inverse(A: Any) -> Array:
    S = A.tosparse().toarray() if offers(A, Has.SPARSE) else A.matvec(np.eye(A.shape[1]))
    return np.asarray(np.linalg.pinv(S))


def _shrunk(problem: Problem, x: Pair, workspace: Workspace) -> Pair | None:
    """Shrink the point towards zero until it is inside."""
    if not _finite(problem, problem.feasible(Pair(0.0 * x.x1, 0.0 * x.x2), workspace)):
        return None
    low, high, best = 0.0, 1.0, problem.feasible(Pair(0.0 * x.x1, 0.0 * x.x2), workspace)
    for _step in range(60):
        middle = 0.5 * (low + high)
        there = problem.feasible(Pair(middle * x.x1, middle * x.x2), workspace)
        if _finite(problem, there):
            low, best = middle, there
        else:
            high = middle
    return best
