"""When a run cannot improve, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base.workspace import Workspace
from ..certificates.null_space import FreeSpace
from ..forms.one_block import has_one_block, one_block
from ..problem import Problem
from ..risk import loss_of_rows
from ..risk.metrics import column_energies
from .result import Record
from .stopping import Gap

PATIENCE = 3
"""Measurements without progress after which rounding is what is left."""


def without_progress(history: Sequence[Record]) -> bool:
    """Say whether the last measurements halved no gap and lowered no objective."""
    count = len(history) - PATIENCE
    if count < 1:
        return False
    gaps = [math.inf if (r := Gap().reached(h)) is None else r for h in history]
    best, value = min(gaps[:count]), min(h.objective for h in history[:count])
    for gap, record in zip(gaps[count:], history[count:], strict=True):
        slack = 1e-15 * abs(record.objective)
        if gap < 0.5 * best or record.objective < value - slack:
            return False
        best, value = min(best, gap), min(value, record.objective)
    return True


def at_rounding(history: Sequence[Record], scale: float, settled: bool) -> bool:
    """Say whether a run without progress stands where rounding leaves it.

    Objectives that rise and fall, as those of stochastic steps, or that have not left the start,
    say nothing. A second-order step knows whether its predicted decrease is rounding
    (``settled``); otherwise a gap, or the violation of the optimality conditions, must be small.
    """
    last = history[-1 - PATIENCE :]
    values = [record.objective for record in last]
    unit = 16.0 * float(np.finfo(np.float64).eps) * max(scale, max(map(abs, values)))
    if not max(values) - min(values) <= unit:
        return False
    if last[-1].gap is not None and last[-1].gap < 0.9 * (last[0].gap or 0.0):
        return False
    gap, kkt = last[-1].relative_gap, last[-1].kkt_residual
    small = gap is not None and gap <= 1e-8
    return settled or small or (kkt is not None and kkt <= 1e-8)


def why_no_bound(problem: Problem, workspace: Workspace) -> str:
    """Say why no lower bound was proved, and name nearly dependent columns where it is they."""
    columns = nearly_dependent(problem, workspace)
    if columns:
        last = problem.shape2[0] - 1 if problem.intercept else None
        names = ["the intercept" if j == last else f"column {j}" for j in columns]
        what = "equal" if len(columns) == 2 and columns[-1] != last else "linearly dependent"
        return (
            f"no bound can be certified: {', '.join(names[:-1])} and {names[-1]}, which no "
            f"penalty holds apart, are nearly {what}; penalize them or leave one out"
        )
    return "no bound on the optimum of this problem was found; penalize all coefficients"


def nearly_dependent(problem: Problem, workspace: Workspace) -> list[int]:
    """Return columns with a combination that no penalty holds and rows hardly see.

    It is empty where there is none, or where looking for it would cost more than a few passes.
    """
    f2 = loss_of_rows(problem.f2)
    if f2 is None or not problem.is_model or not has_one_block(problem):
        return []
    form = one_block(problem, workspace)
    norms = np.sqrt(column_energies(f2))  # root mean squares, the intercept's last
    for index, basis in form.null_directions():
        if basis.shape[1] > 200 or basis.shape[1] * f2.n_terms > 2e7:
            continue
        move = FreeSpace(f2, [(index, basis)]).moves[0]
        N = np.asarray(basis.toarray()) * norms[: basis.shape[0], None]
        size = np.linalg.norm(N, axis=0)
        keep = size > 0
        if not keep.any():
            continue
        seen = move[:, keep] / size[keep]
        values, vectors = np.linalg.eigh(seen.T @ seen / f2.n_terms)
        if values[0] <= 1e-12:
            share = np.abs(N[:, keep] @ (vectors[:, 0] / size[keep]))
            return [int(j) for j in np.flatnonzero(share > 1e-3 * share.max())][:10]
    return []
