"""Newton's method on the augmented Lagrangian: few linear systems, once most of it is known.

The second derivative is exact as soon as the active set is, so that a handful of systems gives
all digits; far from the solution each piece of the penalty may cost one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import lapack

from ..base.protocols import Array
from .parts import top

if TYPE_CHECKING:
    from .run import Run


def augmented_lagrangian(run: Run[Any], S: Any, h: Any, column: int) -> tuple[float, float]:
    """Solve for one output in place; return its relative residuals."""
    from ..kernels.quadratic import Augmented, augmented, newton_matrix

    St, H, c = run.model.St, np.ascontiguousarray(run.H), run.c[:, column]
    shift = np.ascontiguousarray(run.shift[:, [column]])
    w, dual = run.step[:, [column]].copy(), run.dual[:, [column]].copy()
    shifted, z, new, weight = (np.zeros_like(dual) for _ in range(4))
    matrix = np.empty_like(H)
    penalty, primal, size = run.penalty, np.inf, max(run.force, top(St @ dual))

    anchor, hold = w.copy(), 0.0

    def look(at: Array) -> Array:
        augmented(Augmented(S, h, shift, dual, penalty, at, shifted, z, new, weight))
        return np.asarray(c + H @ at[:, 0] + hold * (at - anchor)[:, 0] + St @ new[:, 0])

    def build() -> None:
        newton_matrix(H, S, h, shifted, weight, matrix)

    o, began = run.model.options, run.n_iter
    for _ in range(40):
        if len(H) >= o.costly_columns and run.n_iter - began > o.most_systems:
            break  # a stretch of the splitting costs less than further systems
        derivative = look(w)
        for _ in range(25):
            if top(derivative) <= 0.1 * run.tol * size or run.deadline.passed():
                break
            move = _solve(build, matrix, -derivative, run.ridge + hold)
            run.n_iter += 1
            before = top(derivative)
            w, derivative = _line_search(look, w, move, derivative)
            if top(derivative) > 0.5 * before and before <= 1e3 * run.tol * size:
                break
        if not top(w) <= run.far:
            run.unbounded = True
            return np.inf, np.inf
        last, image = primal, run.model.S @ w - shift
        primal = top(image - z) / max(top(image), run.length)
        dual = new.copy()
        size = max(run.force, top(St @ dual))
        stationary = top(derivative - hold * (w - anchor)[:, 0]) / size
        anchor = w.copy()
        if max(primal, stationary) <= run.tol or run.deadline.passed():
            break
        if top(derivative) > 0.1 * size * max(run.tol, primal):
            # too many pieces between here and the solution: smaller steps on smoother ground
            hold = max(hold, o.hold * run.ridge / o.ridge)
            penalty *= 0.1
        elif primal > max(run.tol, 0.2 * last):
            penalty *= 4.0
        hold *= 0.1
    run.step[:, column], run.dual[:, column], run.image[:, column] = w[:, 0], dual[:, 0], z[:, 0]
    return primal, stationary


def _line_search(look: Any, w: Array, move: Array, derivative: Array) -> tuple[Array, Array]:
    """Go along a descent direction of a convex function until it no longer rises steeply."""
    first = float(derivative @ move)
    t = 1.0
    for _ in range(12):
        ahead = w + t * move[:, None]
        there = look(ahead)
        rise = float(there @ move)
        if rise <= 0.5 * abs(first):
            break
        t *= max(0.1, abs(first) / (abs(first) + rise))
    return ahead, there


def _solve(build: Any, matrix: Array, right: Array, ridge: float) -> Array:
    """Solve with the lower triangle that ``build`` writes, lifted until it is definite."""
    for _ in range(8):
        build()
        matrix.flat[:: len(matrix) + 1] += ridge
        diagonal = matrix.diagonal().copy()
        _, x, info = lapack.dposv(matrix.T, right, lower=0, overwrite_a=1)
        if info == 0:
            return np.asarray(x)
        ridge *= 100.0
    return np.asarray(right / np.maximum(diagonal, ridge))


def column_view(h: Any, column: int, outputs: int) -> Any:
    """Return the view of an elementwise penalty on one output."""
    if not h.per_entry:
        return h

    def own(numbers: Array) -> Array:
        return np.ascontiguousarray(numbers.reshape(-1, outputs)[:, column])

    return replace(h, per_entry=False, l1=own(h.l1), l2=own(h.l2), lo=own(h.lo), hi=own(h.hi))
