"""The null model: the fit of what no penalty sees, where penalties vanish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse

from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.workspace import Workspace
from ..certificates.null_space import FreeSpace, clear_free_directions
from ..data import Changed, Combined
from ..forms.equilibrate import with_even_structure
from ..forms.one_block import one_block
from ..forms.summary import summarized
from ..penalties import Separable
from ..problem import Pair, Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.curvature import RowSample, SampledHessian, shares_curvature
from ..risk.streamed import StreamedSum, first_pass
from .minimize import minimize
from .stopping import Polished


def null_model(unit: Problem, workspace: Workspace | None = None) -> tuple[Array, Array]:
    """Return the minimizer of the data term where the penalty vanishes, and the gradient there.

    It is the fit of what is unpenalized: an intercept, free columns, the mean of a fused graph.
    Both are in float64. Runs that follow share what ``workspace`` then knows.
    """
    workspace = workspace or Workspace()
    unit = with_even_structure(unit, workspace)
    whole = summarized(unit, workspace)
    if whole is not None:  # where the null model is the gradient along the intercept is zero
        x, gradient = null_model(whole.problem, workspace)
        return whole.back(Pair(unit.zeros().x1, x)).x2, gradient
    if isinstance(unit.f2, StreamedSum):
        return streamed_null_model(unit, unit.f2, workspace)
    f2 = loss_of_rows(unit.f2)
    if f2 is None:
        raise TypeError("alpha_max needs a FiniteSum as data term; pass alphas instead")
    zero = f2.evaluate_exactly(np.zeros(unit.shape2))
    bounded, at = bounded_null_model(unit, f2, workspace), zero
    if bounded is None:
        directions = one_block(unit, workspace).null_directions()
    else:
        at, directions = f2.evaluate_exactly(bounded[0]), bounded[1]
    cleared = clear_free_directions(f2, at, directions)
    if cleared is None:
        raise ValueError(
            "alpha_max is not available: too many coefficients are unpenalized, or the loss has "
            "no curvature; pass alphas instead"
        )
    gradient = cleared[1].gradient.copy()
    size = np.full(unit.shape2, np.abs(zero.derivative).mean() * f2.longest_row)
    if f2.intercept:  # a column of ones, however small the others are
        size[-1] = max(float(np.abs(zero.derivative).mean()), float(size.max()))
    for index, basis in directions:  # what rounding has left there
        dense = basis.toarray()
        left = dense @ np.linalg.lstsq(dense, gradient[index], rcond=None)[0]
        # above rounding, far below what would make a strength too small
        if not (np.abs(left) <= 1e-6 * size[index]).all():
            raise ValueError(
                "alpha_max is not available: the fit of the unpenalized coefficients was not "
                "found; pass alphas instead"
            )
        gradient[index] -= left
    gradient[np.abs(gradient) <= 1e-13 * size] = 0.0
    return cleared[0].x, gradient


@dataclass(frozen=True)
class Bounds:
    """What the second penalty of a unit problem does to each coefficient."""

    l1: Array
    lower: Array
    upper: Array

    @property
    def rows(self) -> Array:
        """Which coefficients have a bound."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    def reached(self, x: Array) -> tuple[Array, Array]:
        """Return the coefficients that are at their lower and at their upper bound."""
        lower, upper = (end.reshape(-1, *(1,) * (x.ndim - 1)) for end in (self.lower, self.upper))
        # coefficients between bounds are known to about the root of a gap of 1e-14
        near = 1e-7 * float(np.abs(x).max(initial=0.0))
        return x - lower <= near, upper - x <= near


def bounds_of(unit: Problem) -> Bounds | None:
    """Return the bounds of the coefficients, None where there are none."""
    penalty: Any = unit.h2
    terms = None if penalty is None else compiled_terms(penalty, unit.shape2[0])
    if terms is None or not all(term.separable for term in terms):
        return None
    parts = [term.per_row() for term in terms]
    l1, _, lower, upper = (np.concatenate(part) for part in zip(*parts, strict=True))
    found = Bounds(l1, lower, upper)
    return found if len(l1) == unit.shape2[0] and found.rows.any() else None


def bounded_null_model(
    unit: Problem, f2: FiniteSum, workspace: Workspace
) -> tuple[Array, list[tuple[Any, Any]]] | None:
    """Return the null model between bounds, and the directions in which it may move both ways.

    None where no bound concerns what is unpenalized: then it is zero but for free directions.
    """
    bounds = bounds_of(unit)
    directions = [] if bounds is None else free_but_for_bounds(unit, bounds, workspace)
    if bounds is None or not directions:
        return None
    if len(directions) > 1:
        raise ValueError(
            "alpha_max is not available: outputs are penalized differently; pass alphas instead"
        )
    space, N = FreeSpace(f2, directions), directions[0][1].toarray()
    held = np.flatnonzero(bounds.rows & N.any(axis=1))
    inside = Separable(0.0, 0.0, bounds.lower[held], bounds.upper[held])
    problem = Problem.linear(
        f2.loss,
        space.moves[0],
        f2.y,
        structure=N[held],
        on_structure=inside,
        sample_weight=f2.weight,
        offset=f2.offset,
    )
    # to rounding where it can be had: a read is of a column per free direction only
    found = minimize(problem, stop=Polished(tol=1e-8, aim=1e-14), max_passes=1000.0)
    if not found.converged:
        raise ValueError(
            "alpha_max is not available: the fit of the unpenalized coefficients was not found; "
            "pass alphas instead"
        )
    x = np.asarray(N @ found.coef)
    edge = np.zeros(x.shape, dtype=bool)
    edge[held] = np.logical_or(*bounds.reached(x))[held]
    free: list[tuple[Any, Any]] = []  # directions that leave what is at an edge where it is
    for c, at_edge in enumerate(edge.reshape(len(edge), -1).T):
        basis = N @ linalg.null_space(N[at_edge]) if at_edge.any() else N
        if basis.shape[1]:
            index = slice(None) if x.ndim == 1 else (slice(None), c)
            free.append((index, sparse.csc_array(basis)))
    return x, free


def free_but_for_bounds(
    unit: Problem, bounds: Bounds, workspace: Workspace
) -> list[tuple[Any, Any]]:
    """Return the directions that only bounds hold, with all that nothing holds; none without."""
    loose = Separable(bounds.l1) if bounds.l1.any() else None
    found = one_block(unit.with_penalties(unit.h1, loose), workspace).null_directions()
    return found if any(basis.toarray()[bounds.rows].any() for _, basis in found) else []


def streamed_null_model(
    unit: Problem, f2: StreamedSum, workspace: Workspace
) -> tuple[Array, Array]:
    """Return the null model, and the gradient there, of rows that are read for every pass."""
    bounds = bounds_of(unit)
    if bounds is not None and free_but_for_bounds(unit, bounds, workspace):
        raise ValueError(
            "alpha_max is not available: bounds on columns without a penalty need rows in "
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
    if free > 1000:  # their square matrices are dense
        raise ValueError(
            f"alpha_max is not available: {free} coefficients are unpenalized; pass alphas"
        )
    d = f2.n_features
    ones = np.asarray(B[[d]].toarray()).ravel() if f2.intercept else None
    along = Changed(f2.source, Combined(B[:d].toarray(), ones), B.shape[1])
    t = _minimizer(StreamedSum(f2.loss, along, memory=f2.memory, seed=f2.seed))
    x = np.asarray(B @ t)
    gradient = f2.gradient(x)
    gradient[np.abs(gradient) <= 1e-10 * np.abs(at_zero).max(initial=0.0)] = 0.0
    dense = B.toarray()
    return x, gradient - dense @ np.linalg.lstsq(dense, gradient, rcond=None)[0]


def _minimizer(f2: StreamedSum) -> Array:
    """Minimize by Newton steps whose Hessian comes from a sample of the rows.

    A step makes the error about ten times smaller, as the sample is large.
    """
    lengths = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)  # tried by one read
    sample = first_pass(f2).sample
    few, t = f2.of_sample(sample, sample.weight), np.zeros(f2.shape)
    at = f2.evaluate(t)
    size = float(np.abs(at.gradient).max(initial=0.0))
    for _ in range(40):
        # rounding of sums over many rows
        if float(np.abs(at.gradient).max(initial=0.0)) <= 1e-12 * size:
            break
        step = -_solved(_hessian(few, t), at.gradient)
        values = f2.values_along(t, step, lengths)
        best = int(np.argmin(values))
        # at the end values no longer tell, the gradient does
        length = lengths[best] if values[best] < at.value else 1.0
        after = f2.evaluate(t + length * step)
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
