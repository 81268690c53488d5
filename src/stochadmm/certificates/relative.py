"""What a relative gap is relative to."""

from __future__ import annotations

import numpy as np

from ..base.capabilities import nonnegative
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock, one_block
from ..problem import Problem, objective_at_zero
from ..risk import FiniteSum, loss_of_rows
from .certify import has_certificate
from .null_space import clear_free_directions
from .options import PROOF


def gap_scale(
    problem: Problem, objective: float, bound: float | None, workspace: Workspace | None = None
) -> float:
    """Return the number that a gap is divided by: ``|F(x)|``, at least a share of ``|F(0)|``.

    The value of a loss that can be negative, such as Poisson's, has an arbitrary constant in it;
    there ``F(null model) - bound``, what the model can explain at most, takes the place of
    ``|F(x)|``.
    """
    workspace = workspace or Workspace()
    floor = PROOF.floor * abs(objective_at_zero(problem, workspace))
    if nonnegative(problem.f2):
        return max(abs(objective), floor)
    if bound is None or not np.isfinite(bound):
        return max(floor, np.finfo(float).tiny)
    return max(null_value(problem, workspace) - bound, floor)


def null_value(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return F where the penalty vanishes: what is unpenalized is fitted, all else is zero."""
    f2, workspace = loss_of_rows(problem.f2), workspace or Workspace()
    at_zero = objective_at_zero(problem, workspace)
    if f2 is None or not problem.is_model or not has_certificate(problem):
        return at_zero
    return at_zero - workspace.once(_explained, problem, f2, one_block(problem, workspace))


def _explained(problem: Problem, f2: FiniteSum, form: OneBlock) -> float:
    """Return by how much the data term falls where what is unpenalized is fitted."""
    at = f2.evaluate_exactly(np.zeros(problem.shape2))
    cleared = clear_free_directions(f2, at, form.null_directions())
    fitted = at.value if cleared is None else cleared[0].value
    return at.value - fitted
