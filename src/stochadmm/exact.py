"""Exact structure: coefficients whose zeros, ties and rank are exact, made from the prox side.

An iterate satisfies ``A w = z`` only in the limit, so its fused levels are nearly equal and its
zeros nearly zero. The prox knows better: the rows of z that it sets to zero are the rows of A that
vanish at the solution. The coefficients are moved to the nearest point where exactly these rows
vanish: with at most two entries in a row that means setting coefficients to zero and averaging
tied ones, whatever the weights and signs; other rows need a least-squares projection.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import lsmr

from .base.capabilities import Has, offers
from .base.protocols import Array, Penalty
from .base.workspace import Workspace
from .operators import identity_scale
from .penalties import segments
from .problem import Problem
from .risk.mean_loss import mean_loss

Mask = NDArray[np.bool_]


def prox_side(problem: Problem, x2: Array, dual: Array, beta: float) -> Array | None:
    """Return z = prox of h1 at the point where the multiplier pushes A w, for A1 = -I."""
    scale = identity_scale(problem.A1)
    if problem.h1 is None or problem.A2 is None or scale is None:
        return None
    target = problem.A2.matvec(x2) + dual / beta
    if problem.b is not None:
        target = target - problem.b
    return problem.h1.prox(target / -scale, 1 / (beta * scale**2))


def candidates(
    problem: Problem,
    x2: Array,
    dual: Array,
    beta: float,
    gradient: Array | None,
    workspace: Workspace,
) -> list[Array]:
    """Return points near x2 with exact structure, most structured first; x2 is not among them."""
    z = prox_side(problem, x2, dual, beta)
    found: list[Array] = []
    if z is not None:
        found += _low_rank(problem, x2, z)
        mask, free = _zeros(problem.h1, z), np.zeros(x2.shape, dtype=bool)
        if problem.h2 is not None and gradient is not None:
            total = gradient if problem.A2 is None else gradient + problem.A2.rmatvec(dual)
            free = _zeros(problem.h2, _step(problem, problem.h2, x2, total, workspace))
        A2: Any = problem.A2
        if (mask.any() or free.any()) and offers(A2, Has.SPARSE):
            found.append(project(A2.tosparse(), mask, free, x2))
    elif gradient is not None and problem.h2 is not None:
        found.append(_step(problem, problem.h2, x2, gradient, workspace))
    return found


def _step(
    problem: Problem, h2: Penalty, x2: Array, derivatives: Array, workspace: Workspace
) -> Array:
    """Return x2 after a proximal step of at most 1 / Lf: any makes zeros exact.

    Of much data the constant is the trace of the Gram matrix, which most methods know already.
    """
    f2 = mean_loss(problem.f2)
    largest = problem.f2.lipschitz_mean if f2 is None else f2.cheap_constant(workspace)
    step = 1 / (largest or 1.0)
    return h2.prox(x2 - step * derivatives.astype(x2.dtype), step)


def _zeros(penalty: Any, z: Array) -> Mask:
    if offers(penalty, Has.ZEROS):
        return cast(Mask, np.asarray(penalty.zeros(z), dtype=bool))
    return cast(Mask, z == 0)


def _low_rank(problem: Problem, x2: Array, z: Array) -> list[Array]:
    """Return x2 with the block of z under a nuclear norm that stands for the coefficients."""
    A2: Any = problem.A2
    d = problem.shape2[0]
    found = []
    for penalty, rows in segments(problem.h1, z.shape[0]):
        block, size = z[rows], rows.stop - rows.start
        if offers(penalty, Has.FACTORS) and offers(A2, Has.SPARSE) and _rank_deficient(block):
            own = A2.tosparse()[rows]
            if size <= d and (own != sparse.eye_array(size, d, format="csr")).nnz == 0:
                found.append(np.concatenate([block, x2[size:]]))  # an intercept follows
    return found


def _rank_deficient(block: Array) -> bool:
    return bool(np.linalg.matrix_rank(block) < min(block.shape))


def project(A: Any, zero_rows: Mask, zero_entries: Mask, x: Array) -> Array:
    """Return the point nearest to x with ``(A x)`` zero on a mask, and x zero on another.

    Ties come out exactly equal and zeros exactly zero where each row has at most two entries.
    """
    A = sparse.csr_array(A)
    if np.diff(A.indptr).max(initial=0) <= 1:  # nothing is tied: all columns at once
        A.eliminate_zeros()
        hit = abs(A).T @ zero_rows.astype(np.float64) > 0
        return np.where(hit | zero_entries, 0, x).astype(x.dtype)
    if x.ndim == 1:
        return _project_column(A, zero_rows, zero_entries, x)
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        out[:, c] = _project_column(A, zero_rows[:, c], zero_entries[:, c], x[:, c])
    return out


def _project_column(A: Any, zero_rows: Mask, zero_entries: Mask, x: Array) -> Array:
    rows = A[np.flatnonzero(zero_rows)]
    rows.eliminate_zeros()
    sizes = np.diff(rows.indptr)
    rows = rows[np.flatnonzero(sizes > 0)]
    sizes = np.diff(rows.indptr)
    if sizes.size == 0:
        return np.where(zero_entries, 0, x).astype(x.dtype)
    if sizes.max() > 2:
        return _least_squares(rows, zero_entries, x)
    fixed = zero_entries.copy()
    fixed[rows.indices[rows.indptr[:-1][sizes == 1]]] = True
    pairs = rows[np.flatnonzero(sizes == 2)]
    return _merge(pairs.indices.reshape(-1, 2), pairs.data.reshape(-1, 2), fixed, x)


def _merge(ends: Array, values: Array, fixed: Mask, x: Array) -> Array:
    """Average x over components tied by ``values[e, 0] x_i + values[e, 1] x_j = 0``."""
    label, scale, dead = components(ends, values, fixed)
    count, x64 = dead.size, x.astype(np.float64)
    level = np.bincount(label, scale * x64, count) / np.bincount(label, scale**2, count)
    level[dead] = 0
    alone = np.bincount(label, minlength=count)[label] == 1
    merged = np.where(alone & ~dead[label], x64, scale * level[label])
    return merged.astype(x.dtype)


def components(ends: Array, values: Array, fixed: Mask) -> tuple[Array, Array, Mask]:
    """Return what is left of x where ``values[e, 0] x_i + values[e, 1] x_j = 0`` for all ties.

    Coordinate j is ``scale[j]`` times the level of its component ``label[j]``; dead components,
    those with a fixed coordinate or with ties that contradict each other, are zero.
    """
    d = fixed.size
    i, j = ends.T
    ratio = -values[:, 0] / values[:, 1]  # x_j = ratio x_i
    graph = sparse.csr_array((np.ones(i.size), (i, j)), shape=(d, d))
    count, label = connected_components(graph, directed=False)
    scale = np.ones(d) if np.all(ratio == 1) else _scales(i, j, ratio, label)
    dead = np.zeros(count, dtype=bool)
    dead[label[fixed]] = True
    broken = np.abs(scale[j] - ratio * scale[i]) > 1e-9 * np.abs(scale[j])
    dead[label[i[broken]]] = True
    return label, scale, dead


def _scales(i: Array, j: Array, ratio: Array, label: Array) -> Array:
    """Return x up to one factor per component, following a spanning tree of the ties."""
    d = label.size
    step = {(a, b): r for a, b, r in zip(i.tolist(), j.tolist(), ratio.tolist(), strict=True)}
    _, roots = np.unique(label, return_index=True)
    # a node above the roots of all components: one search, not one over all nodes for each
    ends = np.concatenate([i, np.full(roots.size, d)]), np.concatenate([j, roots])
    graph = sparse.csr_array((np.ones(ends[0].size), ends), shape=(d + 1, d + 1))
    order, parent = breadth_first_order(graph, d, directed=False)
    scale = np.ones(d)
    for node, above in zip(order[1:].tolist(), parent[order[1:]].tolist(), strict=True):
        if above != d:
            forward = step.get((above, node))
            scale[node] = scale[above] * (
                forward if forward is not None else 1 / step[node, above]
            )
    return scale


def _least_squares(rows: Any, zero_entries: Mask, x: Array) -> Array:
    free = np.flatnonzero(~zero_entries)
    out = np.zeros_like(x)
    M = sparse.csr_array(rows[:, free], dtype=np.float64)
    start = x[free].astype(np.float64)
    for _ in range(2):  # the second round removes the first one's rounding
        start = start - lsmr(M, M @ start, atol=1e-15, btol=1e-15, maxiter=20 * M.shape[1])[0]
    out[free] = start
    return out
