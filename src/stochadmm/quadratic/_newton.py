"""Newton's method on the augmented Lagrangian: few linear systems, once most of it is known.

The second derivative is exact as soon as the active set is, so that a handful of systems gives
all digits; far from the solution each piece of the penalty may cost one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.linalg import lapack

from ..base.clock import out_of_time
from ..base.protocols import Array
from ._parts import top

if TYPE_CHECKING:
    from ._run import Run

HOLD = 1e-3
DEAR, SYSTEMS = 700, 80
"""From so many columns on, one run of Newton's method may take so many linear systems."""
RIDGE = 1e-11
"""Added to the diagonal, relative to its mean: collinear columns leave H singular."""


def augmented_lagrangian(run: Run, S: Any, h: Any, column: int) -> tuple[float, float]:
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
        return cast(Array, c + H @ at[:, 0] + hold * (at - anchor)[:, 0] + St @ new[:, 0])

    def build() -> None:
        newton_matrix(H, S, h, shifted, weight, matrix)

    began = run.n_iter
    for _ in range(40):
        if len(H) >= DEAR and run.n_iter - began > SYSTEMS:
            break  # a stretch of the splitting costs less than further systems
        slope = look(w)
        for _ in range(25):
            if top(slope) <= 0.1 * run.tol * size or out_of_time():
                break
            move = _solve(build, matrix, -slope, run.ridge + hold)
            run.n_iter += 1
            before = top(slope)
            w, slope = _line_search(look, w, move, slope)
            if top(slope) > 0.5 * before and before <= 1e3 * run.tol * size:
                break
        if not top(w) <= run.far:
            run.unbounded = True
            return np.inf, np.inf
        last, image = primal, run.model.S @ w - shift
        primal = top(image - z) / max(top(image), run.length)
        dual = new.copy()
        size = max(run.force, top(St @ dual))
        stationary = top(slope - hold * (w - anchor)[:, 0]) / size
        anchor = w.copy()
        if max(primal, stationary) <= run.tol or out_of_time():
            break
        if top(slope) > 0.1 * size * max(run.tol, primal):
            # too many pieces between here and the solution: smaller steps on smoother ground
            hold = max(hold, HOLD * run.ridge / RIDGE)
            penalty *= 0.1
        elif primal > max(run.tol, 0.2 * last):
            penalty *= 4.0
        hold *= 0.1
    run.step[:, column], run.dual[:, column], run.image[:, column] = w[:, 0], dual[:, 0], z[:, 0]
    return primal, stationary


def _line_search(look: Any, w: Array, move: Array, slope: Array) -> tuple[Array, Array]:
    """Go along a descent direction of a convex function until it no longer rises steeply."""
    first = float(slope @ move)
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
            return cast(Array, x)
        ridge *= 100.0
    return cast(Array, right / np.maximum(diagonal, ridge))


def column_view(h: Any, column: int, outputs: int) -> Any:
    """Return the view of an elementwise penalty on one output."""
    if not h.per_entry:
        return h
    numbers = {
        name: np.ascontiguousarray(getattr(h, name).reshape(-1, outputs)[:, column])
        for name in ("l1", "l2", "lo", "hi")
    }
    return replace(h, per_entry=False, **numbers)
