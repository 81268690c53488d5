"""Cholesky factors of model matrices, for one output or for all entries."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..base.protocols import Array


def factor(matrix: Array) -> Array:
    """Return a lower Cholesky factor; a ridge of rounding's size keeps flat directions still.

    A semidefinite matrix that was summed in float32 may have eigenvalues below zero of that
    rounding's size: the ridge grows until the factor exists.
    """
    size = max(float(np.trace(matrix)) / len(matrix), 1e-300)
    ridge = 1e-13
    while True:
        lifted = matrix.copy()
        lifted.flat[:: len(matrix) + 1] += ridge * size
        try:
            return np.asarray(cho_factor(lifted, lower=True, overwrite_a=True)[0])
        except LinAlgError:
            ridge *= 100
            if ridge > 1e-5:  # no rounding: the matrix is indefinite
                raise


def solve(lower: Array, right: Array) -> Array:
    """Solve for the shape of ``right``, with a matrix for every output or for all entries."""
    tall = right if len(lower) == len(right) else right.ravel()
    return np.asarray(cho_solve((lower, True), tall)).reshape(right.shape)


def apply(matrix: Array, x: Array) -> Array:
    """Multiply likewise."""
    return np.asarray(matrix @ (x if len(matrix) == len(x) else x.ravel())).reshape(x.shape)


def widen(gram: Array, like: Array) -> Array:
    """Return a (d, d) matrix for all entries when ``like`` is one."""
    return gram if gram.shape == like.shape else np.kron(gram, np.eye(len(like) // len(gram)))
