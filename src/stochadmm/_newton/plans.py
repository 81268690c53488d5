"""The Newton methods by name: each a choice of curvature, subproblem and dual rule."""

from __future__ import annotations

from .dense import ConstantHessian, DenseSplitting, SampledRows, on_a_tenth
from .duals import Corrected
from .interfaces import Plan

# A part of the rows needs no more accuracy than it can tell: a Hessian as cheap as its step.
SAMPLED_PART = Plan(SampledRows(free_work=2e6), DenseSplitting(), Corrected())

PLANS = {
    "gram": Plan(ConstantHessian(), DenseSplitting(), Corrected()),
    "sampled-newton": Plan(SampledRows(), DenseSplitting(), Corrected(), on_a_tenth(SAMPLED_PART)),
}
