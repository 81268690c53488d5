"""The Newton methods by name: each a choice of curvature, subproblem and dual rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.workspace import Workspace
from ..problem import Problem
from .columns import Lifted, NoModel, WorkingSet, why_no_working_set
from .coordinates import COORDINATES, why_no_coordinates
from .dense import (
    ConstantHessian,
    DenseSplitting,
    SampledRows,
    on_a_tenth,
    why_no_dense_model,
    why_no_gram,
)
from .duals import Corrected
from .fused import (
    ByFactor,
    FactorSplitting,
    RowsByFactor,
    where_nothing_is_penalized,
    why_no_factor,
)
from .interfaces import Plan
from .streamed import PLAN as STREAMED
from .streamed import why_no_source


@dataclass(frozen=True)
class Method:
    """A plan and what it serves."""

    plan: Plan
    why_not: Callable[[Problem, Workspace], str | None]
    """Returns why it cannot serve a problem, None if it can."""


SAMPLED = Plan(SampledRows(), DenseSplitting(), Corrected())
# A part of the rows needs no more accuracy than it can tell: a Hessian as cheap as its step.
SAMPLED_PART = Plan(SampledRows(free_work=2e6), DenseSplitting(), Corrected())

METHODS = {
    "coordinate-newton": Method(COORDINATES, why_no_coordinates),
    "gram": Method(Plan(ConstantHessian(), DenseSplitting(), Corrected()), why_no_gram),
    "sampled-newton": Method(
        Plan(SampledRows(), DenseSplitting(), Corrected(), on_a_tenth(SAMPLED_PART)),
        why_no_dense_model,
    ),
    "streamed-newton": Method(STREAMED, why_no_source),
    "tied-newton": Method(
        Plan(
            RowsByFactor(), FactorSplitting(SAMPLED), ByFactor(), where_nothing_is_penalized, True
        ),
        why_no_factor,
    ),
    "working-set": Method(Plan(NoModel(), WorkingSet(SAMPLED), Lifted()), why_no_working_set),
}
