"""The nearest point inside the domains of penalties of a structure with dependent rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock, one_block
from ..penalties.bounds import bounds
from ..problem import Pair, Problem
from ..quadratic import QuadraticModel
from .options import OPTIONS, PROOF


def nearest_inside(problem: Problem, x: Pair, workspace: Workspace) -> Iterator[Pair]:
    """Yield pairs whose x2 is nearest to x2 among those in all domains, up to rounding.

    A small problem finds x2, and which rows are at an edge; these are then put there exactly.
    Few digits mostly tell, and the second pair has all. Nothing where the penalties do not tell
    their domain.
    """
    if problem.shape2[0] > PROOF.repair_columns or problem.f1 is not None:
        return
    form = one_block(problem, workspace)
    if form.is_through or not offers(form.stacked_penalty, Has.SCALED):
        return
    model, dual = workspace.once(_domain, form), None
    for tol in (PROOF.repair_digits, OPTIONS.model_tol):
        found = model.minimize(
            np.eye(problem.shape2[0]),
            np.zeros_like(x.x2),
            x.x2,
            tol=tol,
            dual=dual,
            max_iter=PROOF.repair_steps,
        )
        if not np.isfinite(found.w).all():
            return
        dual = found.dual
        yield problem.feasible(Pair(x.x1, _at_edges(form, found.w, found.z)), workspace)


def _domain(form: OneBlock) -> QuadraticModel:
    """Return the solver of small problems whose penalties are domains only."""
    return QuadraticModel(
        form.S,
        form.stacked_penalty.scaled(0.0),
        None,
        form.shape,
        form.offset,
        workspace=form.shared,
    )


def _at_edges(form: OneBlock, w: Array, z: Array) -> Array:
    """Return w with the rows exactly at their bounds that z has there."""
    edges = bounds(form.stacked_penalty, z.shape)
    if edges is None:
        return w
    flat, there, columns = z.reshape(len(z), -1), w.copy().reshape(len(w), -1), form.S.toarray()
    right = (z + form.offset).reshape(len(z), -1)
    for output in range(flat.shape[1]):
        low, high = (edge[:, output] for edge in edges)
        held = (flat[:, output] <= low) | (flat[:, output] >= high)
        if not held.any():
            continue
        left: Any = right[held, output] - columns[held] @ there[:, output]
        there[:, output] += np.linalg.lstsq(columns[held], left, rcond=None)[0]
    return there.reshape(w.shape)
