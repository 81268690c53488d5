"""Which problems have a model with conjugates, points inside of domains, exact zeros of models."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import has_certificate, repaired
from ..exact import project
from ..forms.one_block import one_block
from ..problem import Pair, Problem
from ..quadratic import QuadraticResult


def why_no_form(problem: Problem, workspace: Workspace | None = None) -> str | None:
    """Return why a problem is no f2(w) + H(S w - o) with conjugates, None if it is."""
    if problem.f1 is not None:
        return "f1 beside a structure"
    if not has_certificate(problem, workspace):
        return "a part has no conjugate, or an operator no matrix"
    if one_block(problem, workspace).is_through:
        return "A1 is not a multiple of the identity"
    return None


def inside(problem: Problem, x: Pair, workspace: Workspace | None = None) -> Pair:
    """Return a feasible pair near x inside the domain of the penalties, where one is found."""
    return priced(problem, x, workspace)[0]


def priced(problem: Problem, x: Pair, workspace: Workspace | None = None) -> tuple[Pair, float]:
    """Return the pair that `inside` returns, and its penalty."""
    near = problem.feasible(x)
    penalty = problem.penalty(near)
    found = None if np.isfinite(penalty) else repaired(problem, near, workspace=workspace)
    if found is None:
        return near, penalty
    moved = Pair(found.x1.astype(problem.dtype), found.x2.astype(problem.dtype))
    return moved, problem.penalty(moved)


def structured(S: Any, found: QuadraticResult, accurate: float = 1e-6) -> Array:
    """Return the minimizer with the exact zeros and ties that its prox made.

    Only of a model whose residual is below ``accurate``: the zeros of others are not yet true.
    """
    w, zero = found.w, found.z == 0
    if found.residual > accurate or not zero.any() or zero.shape[0] != S.shape[0]:
        return w
    exact = project(S, zero, np.zeros(w.shape, dtype=bool), w)
    size = max(np.abs(w).max(initial=0.0), 1e-300)
    # the projection of an accurate minimizer moves it by no more than its residual
    return exact if np.abs(exact - w).max(initial=0.0) <= 10 * accurate * size else w
