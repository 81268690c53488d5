"""Edges between features from a sparse inverse covariance of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from ..base.protocols import Array
from ..base.validation import generator, is_sparse


def glasso_edges(
    X: Any,
    alpha: float = 0.1,
    *,
    max_rows: int = 20_000,
    max_degree: int | None = 5,
    threshold: float = 1e-6,
    random_state: int | np.random.Generator | None = 0,
) -> NDArray[np.intp]:
    """Return pairs of features that depend on each other given all the others.

    The graphical lasso on the correlations of the features; an edge is a partial correlation
    above ``threshold`` in size. Constant features have no edges. Collinear features need
    no special treatment: with a strength above zero the problem has exactly one solution, and the
    method converges to it for any rows.

    Parameters
    ----------
    X : ndarray or SciPy sparse of shape (n_samples, n_features)
        The data.
    alpha : float
        Strength of the graphical lasso, between 0 (all edges) and 1 (none).
    max_rows : int
        If there are more rows, a random sample of this size is used.
    max_degree : int or None
        Largest number of edges per feature; the strongest are kept.
    threshold : float
        Partial correlations up to this size are not edges.
    random_state : int, Generator or None
        For the sample of rows.

    Returns
    -------
    edges : ndarray of shape (m, 2)
        Pairs (i, j) with i < j, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.structures import glasso_edges
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.standard_normal((2, 500))
    >>> glasso_edges(np.column_stack([a, a + 0.1 * b, b * 0.0, rng.standard_normal(500)]))
    array([[0, 1]])
    """
    if not 0 <= alpha < np.inf:
        raise ValueError(f"alpha must be a non-negative number, got {alpha}")
    rows = X.tocsr() if is_sparse(X) else np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] < 2:
        raise ValueError(f"X must have two dimensions and two rows at least, got {rows.shape}")
    if rows.shape[0] > max_rows:
        rng = generator(random_state)
        chosen = np.sort(rng.choice(rows.shape[0], max_rows, replace=False))
        rows = rows[chosen]
    covariance = _covariance(rows)
    if not np.isfinite(covariance).all():
        raise ValueError("X contains NaN or infinity; drop or impute those rows")
    scale = np.sqrt(np.diag(covariance))
    # a variance that is rounding of the mean is that of a constant column
    varies = np.flatnonzero(scale > 1e-10 * max(1.0, float(scale.max(initial=0.0))))
    if varies.size < 2:
        return np.empty((0, 2), dtype=np.intp)
    correlation = covariance[np.ix_(varies, varies)] / np.outer(scale[varies], scale[varies])
    np.fill_diagonal(correlation, 1.0)
    partial = _partial_correlations(correlation, alpha)
    i, j = np.nonzero(np.triu(np.abs(partial) > threshold, 1))
    kept = _limit_degree(i, j, np.abs(partial[i, j]), max_degree)
    edges = np.column_stack([varies[i[kept]], varies[j[kept]]]).astype(np.intp)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def _covariance(X: Any) -> Array:
    n = X.shape[0]
    if not is_sparse(X):
        centered = X - X.mean(axis=0)
        return np.asarray(centered.T @ centered / n)
    X = sparse.csr_array(X, dtype=np.float64)
    mean = np.asarray(X.mean(axis=0)).ravel()
    return np.asarray((X.T @ X).toarray() / n - np.outer(mean, mean))


def _partial_correlations(correlation: Array, alpha: float) -> Array:
    """Return those of the graphical lasso, argmin of tr(S Z) - log det Z + alpha |off-diagonal|_1.

    ADMM on the copy X = Z, with X by eigenvalues and Z by soft-thresholding, so that zeros are
    exact and X is positive definite in every iteration. It converges for any correlations.
    """
    d = len(correlation)
    S = correlation + 1e-6 * np.eye(d)  # so that there is an answer at strength zero too
    Z, U, rho = np.eye(d), np.zeros((d, d)), 1.0
    for _ in range(2000):  # collinear features take a few hundred
        values, vectors = linalg.eigh(rho * (Z - U) - S, check_finite=False)
        roots = (values + np.sqrt(values**2 + 4 * rho)) / (2 * rho)
        X = (vectors * roots) @ vectors.T
        relaxed = 1.6 * X + (1 - 1.6) * Z  # the usual choice, a third fewer iterations
        target = relaxed + U
        before, Z = Z, np.sign(target) * np.maximum(np.abs(target) - alpha / rho, 0.0)
        np.fill_diagonal(Z, np.diag(target))
        U = U + relaxed - Z
        primal = float(linalg.norm(X - Z)) / max(float(linalg.norm(Z)), 1e-300)
        dual = float(linalg.norm(Z - before)) / max(float(linalg.norm(U)), 1e-300)
        if primal <= 1e-6 and dual <= 1e-6:  # the edges have long converged
            break
        if primal > 5.0 * dual:
            rho, U = 2 * rho, U / 2
        elif dual > 5.0 * primal:
            rho, U = rho / 2, U * 2
    scale = np.sqrt(np.maximum(np.diag(Z), 1e-300))
    return np.asarray(-Z / np.outer(scale, scale))


def _limit_degree(i: Array, j: Array, strength: Array, max_degree: int | None) -> Array:
    """Return the edges kept when the strongest are taken first and full nodes take no more."""
    order = np.argsort(-strength, kind="stable")
    if max_degree is None:
        return order
    degree: dict[int, int] = {}
    kept = []
    for e in order.tolist():
        a, b = int(i[e]), int(j[e])
        if degree.get(a, 0) < max_degree and degree.get(b, 0) < max_degree:
            degree[a], degree[b] = degree.get(a, 0) + 1, degree.get(b, 0) + 1
            kept.append(e)
    return np.array(kept, dtype=np.intp)
