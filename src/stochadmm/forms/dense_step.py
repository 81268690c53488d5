"""Steps of one block that are solved exactly with a dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..linear_algebra.dense import inverse
from ..problem import Problem
from .structure import gram

LARGEST_DENSE = 4000
"""Columns up to which a matrix is factorized: its square takes 128 MB."""


def gram_of(A: Any, d: int) -> Array:
    """Return A' A of an operator with d columns as a dense float64 matrix, 0 without one."""
    if A is None:
        return np.zeros((d, d))
    if offers(A, Has.SPARSE):
        return np.asarray(gram(sparse.csr_array(A.tosparse(), dtype=np.float64)).toarray())
    columns = np.asarray(A.matvec(np.eye(d)), dtype=np.float64)
    return np.asarray(columns.T @ columns)


def structure_gram(problem: Problem, workspace: Workspace | None = None) -> Array:
    """Return A2' A2 as a dense float64 matrix, made once per structure."""
    return (workspace or Workspace()).shared.once(gram_of, problem.A2, problem.shape2[0])


def check_exact_step(problem: Problem, name: str) -> None:
    """Raise when the x2 step cannot be solved exactly in a dense metric."""
    if problem.h2 is not None:
        raise ValueError(
            f"metric={name!r} needs h2 absent; use metric='none', or stack the penalty of the "
            "coefficients into the structure"
        )
    d = problem.shape2[0]
    if d > LARGEST_DENSE:
        raise ValueError(
            f"metric={name!r} factorizes a {d} x {d} matrix; use metric='none' above "
            f"{LARGEST_DENSE} columns"
        )


def exact_step(
    problem: Problem,
    curvature: float,
    beta: float,
    metric: Array | None,
    workspace: Workspace | None = None,
) -> Array:
    """Return (curvature M + beta A2'A2)^-1: the x2 step with the constraint kept exact.

    M is the metric given, the identity without one.
    """
    matrix = beta * structure_gram(problem, workspace)
    if metric is None:
        matrix.flat[:: len(matrix) + 1] += curvature
    else:
        matrix += curvature * metric
    found = inverse(matrix)
    if found is None:
        raise np.linalg.LinAlgError("the matrix of the x2 step is not positive definite")
    return found.astype(problem.dtype)
