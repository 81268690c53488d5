"""Matrices of the x2 step: how far, and in which directions, a step may go."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from .problem import Problem
from .protocols import Array

LARGEST_DENSE = 4000


def structure_gram(problem: Problem) -> Array:
    """Return A2' A2 as a dense float64 matrix; it is kept with the problem."""
    kept = problem.__dict__.get("_structure_gram")
    if kept is None:
        A2: Any = problem.A2
        d = problem.shape2[0]
        if A2 is None:
            kept = np.zeros((d, d))
        elif hasattr(A2, "tosparse"):
            S = A2.tosparse()
            kept = np.asarray((S.T @ S).toarray(), dtype=np.float64)
        else:
            columns = A2.matvec(np.eye(d, dtype=problem.dtype))
            kept = np.asarray(columns.T @ columns, dtype=np.float64)
        problem.__dict__["_structure_gram"] = kept
    return kept


def exact_step(problem: Problem, curvature: float, pull: float) -> Array:
    """Return (curvature I + pull A2'A2)^-1: the x2 step with the constraint kept exact."""
    if problem.h2 is not None:
        raise ValueError(
            "metric='identity' needs h2 absent; use metric='none', or stack the penalty of the "
            "coefficients into the structure"
        )
    d = problem.shape2[0]
    if d > LARGEST_DENSE:
        raise ValueError(
            f"metric='identity' factorizes a {d} x {d} matrix; use metric='none' above {LARGEST_DENSE} "
            "columns"
        )
    matrix = pull * structure_gram(problem)
    matrix.flat[:: d + 1] += curvature
    return inverse(matrix).astype(problem.dtype)


def inverse(matrix: Array) -> Array:
    """Return the inverse of a symmetric positive definite matrix, exactly symmetric."""
    factor, info = lapack.dpotrf(matrix, lower=1)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix of the x2 step is not positive definite")
    result, _ = lapack.dpotri(factor, lower=1)
    lower = np.tril(result)
    return np.ascontiguousarray(lower + np.tril(result, -1).T)
