"""Coefficients that bounds hold and no strength does: they are part of the null model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse

from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.workspace import Workspace
from ..certificates.null_space import FreeSpace
from ..forms.one_block import one_block
from ..penalties import Separable
from ..problem import Problem
from ..risk import FiniteSum
from .minimize import minimize
from .stopping import Polished


@dataclass(frozen=True)
class BoundedOptions:
    """How well the coefficients between bounds are known."""

    tol: float = 1e-8
    """Relative gap without which there is no answer."""
    aim: float = 1e-14
    """Relative gap that is tried: rounding."""
    most_passes: float = 1000.0
    """Reads of a table that has a column for every free direction only."""
    at_bound: float = 1e-7
    """Share of the largest coefficient up to which one is at its bound: the root of the aim."""


OPTIONS = BoundedOptions()


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
        near = OPTIONS.at_bound * float(np.abs(x).max(initial=0.0))
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
    found = minimize(
        problem, stop=Polished(OPTIONS.tol, OPTIONS.aim), max_passes=OPTIONS.most_passes
    )
    if not found.converged:
        raise ValueError(
            "alpha_max is not available: the fit of the unpenalized coefficients was not found; "
            "pass alphas instead"
        )
    x = np.asarray(N @ found.coef)
    edge = np.zeros(x.shape, dtype=bool)
    edge[held] = np.logical_or(*bounds.reached(x))[held]
    outputs = [(slice(None), edge)] if x.ndim == 1 else _by_output(edge)
    return x, [part for index, rows in outputs for part in _moving(index, N, rows)]


def free_but_for_bounds(
    unit: Problem, bounds: Bounds, workspace: Workspace
) -> list[tuple[Any, Any]]:
    """Return the directions that only bounds hold, with all that nothing holds; none without."""
    loose = Separable(bounds.l1) if bounds.l1.any() else None
    found = one_block(unit.with_penalties(unit.h1, loose), workspace).null_directions()
    return found if any(basis.toarray()[bounds.rows].any() for _, basis in found) else []


def _by_output(edge: Array) -> list[tuple[Any, Array]]:
    return [((slice(None), c), rows) for c, rows in enumerate(edge.T)]


def _moving(index: Any, N: Array, at_edge: Array) -> list[tuple[Any, Any]]:
    """Return the directions that leave the coefficients at an edge where they are."""
    held = N[at_edge]
    basis = N @ linalg.null_space(held) if len(held) else N
    return [(index, sparse.csc_array(basis))] if basis.shape[1] else []
