"""What a relative gap is relative to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..base.capabilities import Has, nonnegative
from ..base.workspace import Workspace
from ..forms.elimination import Elimination
from ..forms.one_block import OneBlock, one_block
from ..penalties import Zero
from ..problem import Pair, Problem, objective_at_zero
from ..risk import Evaluation, FiniteSum
from ..risk.dual import least_conjugate
from ..risk.mean_loss import MeanLoss, mean_loss
from .certify import has_certificate
from .null_space import clear_free_directions
from .options import FLOOR
from .repair import wide


def gap_scale(
    problem: Problem, objective: float, bound: float | None, workspace: Workspace | None = None
) -> float:
    """Return the number that a gap is divided by: ``|F(x)|``, at least a share of ``|F(null)|``.

    F(null) is F of the null model: what is unpenalized, such as an intercept, is fitted, and all
    else is zero. It is at most F(0), the same where nothing is unpenalized, and it is looked for
    only where |F(x)| is below that share of |F(0)|. Where it fits all targets exactly F(0) takes
    its place, and with probabilities of labels, whose F(0) is that of a guess whatever the data
    are. The value of a loss that can be negative, such as Poisson's, has an arbitrary constant in
    it; there ``F(null) - bound``, what the model can explain at most, takes the place of
    ``|F(x)|``, and the share is that of |F(0)| or of what a model that fits every row would
    explain, whichever is smaller: far from its minimum such a loss has no natural size.
    """
    workspace = workspace or Workspace()
    floor = FLOOR * abs(objective_at_zero(problem, workspace))
    if nonnegative(problem.f2):
        if not abs(objective) < floor or _is_of_labels(problem, workspace):
            return max(abs(objective), floor)
        null = abs(null_value(problem, workspace))
        # one row, or equal targets: F* is a zero of rounding, squares of some thousand units of it
        if null <= 1e-22 * floor:
            return max(abs(objective), floor)
        # the smaller of the two: rounding of a large F(0) must not make the null model worse
        return max(abs(objective), min(FLOOR * null, floor))
    if bound is None or not np.isfinite(bound):
        return max(floor, np.finfo(float).tiny)
    null = objective if _is_free(problem, workspace) else null_value(problem, workspace)
    if null - bound >= floor:
        return null - bound
    explained = FLOOR * (null - workspace.once(_saturated_value, problem.f2, workspace))
    return max(null - bound, min(explained, floor) if explained > 0 else floor)


def _is_free(problem: Problem, workspace: Workspace) -> bool:
    """Say whether nothing is penalized: every model is a null model then."""
    plain = problem.h1 is None and problem.h2 is None and problem.b is None
    return plain or (problem.A1 is None and isinstance(problem.h2, Zero))


def _saturated_value(term: Any, workspace: Workspace) -> float:
    """Return the mean over the rows of the least value of their loss; -inf where none is known.

    Rows in files have that of the sample of the first pass.
    """
    f2 = mean_loss(term, Has.CONJUGATE)
    rows = None if f2 is None else f2.representative(workspace)
    return -np.inf if rows is None else -least_conjugate(rows)


def _is_of_labels(problem: Problem, workspace: Workspace) -> bool:
    f2 = mean_loss(problem.f2, Has.PROBABILITY)
    return f2 is not None and not f2.has_offset(workspace)


def null_value(problem: Problem, workspace: Workspace | None = None) -> float:
    """Return F where the penalty vanishes: what is unpenalized is fitted, all else is zero.

    Rows in files have that of the sample of the first pass, which costs no read.
    """
    f2, workspace = mean_loss(problem.f2), workspace or Workspace()
    at_zero = objective_at_zero(problem, workspace)
    if f2 is not None and not f2.in_memory:
        return min(at_zero, workspace.once(_null_of_sample, problem, f2, workspace))
    if not isinstance(f2, FiniteSum) or not has_certificate(problem, workspace):
        return at_zero
    view = Elimination.of(problem, workspace)
    if view is not None:  # a pair: its feasible set has a zero of its own
        return min(at_zero, null_value(view.reduced, workspace))
    return workspace.once(_null_value, problem, f2, one_block(problem, workspace), at_zero)


def _null_of_sample(problem: Problem, f2: MeanLoss, workspace: Workspace) -> float:
    rows = f2.representative(workspace)
    return np.inf if rows is None else null_value(replace(problem, f2=rows))


def _null_value(problem: Problem, f2: FiniteSum, form: OneBlock, at_zero: float) -> float:
    zero, fitted = null_model(problem, f2, form)
    penalty = problem.penalty(zero)  # which does not see what is fitted
    return min(at_zero, fitted.value + (penalty if np.isfinite(penalty) else 0.0))


def null_model(problem: Problem, f2: FiniteSum, form: OneBlock) -> tuple[Pair, Evaluation]:
    """Return the zero of a model, and the data term with what is unpenalized fitted there."""
    zero = wide(problem.zeros())
    if problem.b is not None or not np.isfinite(problem.penalty(zero)):
        zero = problem.feasible(zero)
    best, directions = f2.evaluate_exactly(zero.x2), form.null_directions()
    for _ in range(2):  # the first is right to digits of what zero leaves, the second of its own
        cleared = clear_free_directions(f2, best, directions)
        if cleared is None or not cleared[0].value < best.value:
            break
        best = cleared[0]
    return zero, best
