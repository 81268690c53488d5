"""How far a point is from satisfying the optimality conditions, as a relative number."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..problem import Pair, Problem


def kkt_residual(problem: Problem, x: Pair, gradient: Array, dual: Array) -> float:
    """Return the largest of the relative proximal-gradient residuals and of the infeasibility.

    For each block with pull ``p`` (gradient of the smooth part plus ``A' dual``) and step s it is
    ``|x - prox(x - s p, s)|`` relative to ``max(|x|, s |pull's terms|)``, with s the ratio of the
    two.
    """
    back2 = np.zeros_like(gradient) if problem.A2 is None else problem.A2.rmatvec(dual)
    worst = _block(problem.h2, x.x2, gradient, back2)
    if problem.A1 is None or problem.A2 is None:
        return worst
    smooth: Any = problem.f1
    own = np.zeros_like(x.x1) if smooth is None else np.asarray(smooth.gradient(x.x1))
    worst = max(worst, _block(problem.h1, x.x1, own, problem.A1.rmatvec(dual)))
    first, second = problem.A1.matvec(x.x1), problem.A2.matvec(x.x2)
    right = 0.0 if problem.b is None else problem.b
    size = _norm(first) + _norm(second) + float(np.linalg.norm(right))
    return max(worst, _norm(first + second - right) / size if size > 0 else 0.0)


def _block(penalty: Any, x: Array, gradient: Array, back: Array) -> float:
    size, force = _norm(x), _norm(gradient) + _norm(back)
    if force == 0.0:
        step = 1.0
    else:
        step = size / force if size > 0 else 1.0 / force
    ahead = x - step * (gradient + back)
    moved = x - (ahead if penalty is None else penalty.prox(ahead, step))
    scale = max(size, step * force)
    return _norm(moved) / scale if scale > 0 else 0.0


def _norm(x: Any) -> float:
    return float(np.linalg.norm(x))
