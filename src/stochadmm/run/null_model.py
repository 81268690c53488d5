"""The fit of what no penalty sees, for rows that are read again for every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse

from ..base.protocols import Array
from ..base.workspace import Workspace
from ..data import Changed, Combined
from ..forms.one_block import one_block
from ..problem import Problem
from ..risk import FiniteSum
from ..risk.curvature import RowSample, SampledHessian, shares_curvature
from ..streaming import StreamedSum, first_pass, in_memory
from .bounded_null import bounds_of, free_but_for_bounds


@dataclass(frozen=True)
class NullOptions:
    """How far and how long the null model is searched for."""

    tol: float = 1e-12
    """Gradient, relative to that at zero: rounding of sums over many rows."""
    most_steps: int = 40
    """Reads; each makes the error about ten times smaller, as the sample of rows is large."""
    most_free: int = 1000
    """Unpenalized directions: their square matrices are dense."""
    lengths: tuple[float, ...] = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
    """Step lengths that one read tries."""


def streamed_null_model(
    unit: Problem, f2: StreamedSum, workspace: Workspace, options: NullOptions | None = None
) -> tuple[Array, Array]:
    """Return the minimizer of f2 where the penalty vanishes, and the gradient there."""
    options = options or NullOptions()
    bounds = bounds_of(unit)
    if bounds is not None and free_but_for_bounds(unit, bounds, workspace):
        raise ValueError(
            "alpha_max is not available: bounds hold what no penalty does, which needs rows in "
            "memory; pass alphas instead"
        )
    bases = [basis for _, basis in one_block(unit, workspace).null_directions()]
    if f2.n_outputs is not None and len(bases) > 1:
        raise ValueError(
            "alpha_max is not available: outputs in files are penalized differently; pass alphas"
        )
    at_zero = f2.gradient(np.zeros(f2.shape))
    if not bases:
        return np.zeros(f2.shape), at_zero
    B = sparse.csr_array(sparse.hstack(bases))
    free = B.shape[1] * (f2.n_outputs or 1)
    if free > options.most_free:
        raise ValueError(
            f"alpha_max is not available: {free} coefficients are unpenalized; pass alphas"
        )
    t = _minimizer(_restricted(f2, B), options)
    x = np.asarray(B @ t)
    gradient = f2.gradient(x)
    gradient[np.abs(gradient) <= 1e-10 * np.abs(at_zero).max(initial=0.0)] = 0.0
    dense = B.toarray()
    return x, gradient - dense @ np.linalg.lstsq(dense, gradient, rcond=None)[0]


def _restricted(f2: StreamedSum, B: sparse.csr_array) -> StreamedSum:
    """Return the data term of coordinates t in ``x = B t``."""
    d = f2.n_features
    ones = np.asarray(B[[d]].toarray()).ravel() if f2.intercept else None
    change = Combined(B[:d].toarray(), ones)
    return StreamedSum(
        f2.loss, Changed(f2.source, change, B.shape[1]), memory=f2.memory, seed=f2.seed
    )


def _minimizer(f2: StreamedSum, options: NullOptions) -> Array:
    """Minimize by Newton steps whose Hessian comes from a sample of the rows."""
    sample = first_pass(f2).sample
    few = in_memory(f2, sample, sample.weight)
    t = np.zeros(f2.shape)
    at, _ = f2.evaluate(t)
    size = float(np.abs(at.gradient).max(initial=0.0))
    for _ in range(options.most_steps):
        if float(np.abs(at.gradient).max(initial=0.0)) <= options.tol * size:
            break
        step = -_solved(_hessian(few, t), at.gradient)
        values = f2.values_along(t, step, options.lengths)
        best = int(np.argmin(values))
        # at the end values no longer tell, the gradient does
        length = options.lengths[best] if values[best] < at.value else 1.0
        after, _ = f2.evaluate(t + length * step)
        if not np.abs(after.gradient).max() < np.abs(at.gradient).max() and best == 0:
            break
        t, at = t + length * step, after
    return t


def _hessian(few: FiniteSum, t: Array) -> Array:
    """Return the Hessian of some rows: of all entries where outputs do not share theirs."""
    z, loss = few.predict(t), cast(Any, few.loss)
    if t.ndim == 1:
        return few.gram(loss.curvature(z, few.y))
    rows = RowSample(few, z, loss.derivative(z, few.y))
    return np.asarray(SampledHessian(rows, shares_curvature(few, z)).matrix)


def _solved(H: Array, right: Array) -> Array:
    """Return ``H^-1 right``; directions along which the loss is flat stay as they are."""
    ridge = 1e-12 * max(float(np.trace(H)) / len(H), 1e-300) * np.eye(len(H))
    flat = right if len(H) == len(right) else right.ravel()
    return np.asarray(linalg.solve(H + ridge, flat, assume_a="pos")).reshape(right.shape)
