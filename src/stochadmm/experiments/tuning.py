"""Tuning on an equal budget: as many trials of as many passes for every method.

First the curvature at the automatic penalty, then the penalty at the best curvature, then its
growth. The training objective after the trial decides; test rows are never looked at.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.workspace import Workspace
from ..problem import Problem, objective_at_zero
from ..run.loop import epochs
from . import methods
from .config import Tuning
from .methods import Setting
from .problems import feasible_value


@dataclass(frozen=True)
class Tuned:
    """The setting that was chosen and what it cost to find it."""

    setting: Setting
    objective: float
    n_trials: int
    passes: float
    seconds: float

    def plain(self) -> dict[str, Any]:
        """Return plain numbers for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, content: dict[str, Any]) -> Tuned:
        """Return what ``plain`` wrote."""
        return cls(**(content | {"setting": Setting(**content["setting"])}))


def tune(
    name: str, problem: Problem, batch: int, plan: Tuning,
    advance: Callable[[float], None] = lambda share: None,
) -> Tuned:  # fmt: skip
    """Return the best setting of a method.

    Parameters
    ----------
    name : str
        Key of ``methods.METHODS``.
    problem, batch
        What is solved, and the rows of a mini-batch.
    plan : Tuning
        The trials.
    advance : callable
        Told the share of the work that every trial was.
    """
    best, lowest = Setting(), np.inf
    passes, clock = 0.0, time.perf_counter()
    workspace = Workspace()  # the trials share what is known of the rows
    for stage in _stages(name, plan):
        base = best
        for change in stage:
            setting = dataclasses.replace(base, **change)
            value, used = trial(name, problem, batch, setting, plan.passes, workspace)
            passes += used
            advance(1 / plan.n_trials)
            if value < lowest:
                best, lowest = setting, value
    return Tuned(best, lowest, plan.n_trials, passes, time.perf_counter() - clock)


def trial(
    name: str, problem: Problem, batch: int, setting: Setting, passes: float,
    workspace: Workspace | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Return the training objective after so many passes, and the passes; inf when it diverges."""
    workspace = workspace or Workspace()
    solver, state = methods.start(name, problem, batch, setting, workspace)
    limit = 10 * abs(objective_at_zero(problem, workspace))
    with np.errstate(all="ignore"):
        for _ in epochs(problem, solver, state, np.random.default_rng(0)):
            value = feasible_value(problem, state.output)[1]
            if not value <= limit:
                return np.inf, state.n_gradients
            if state.n_gradients >= passes:
                break
    return value, state.n_gradients


def _stages(name: str, plan: Tuning) -> list[list[dict[str, float]]]:
    last: list[dict[str, float]] = (
        [{"beta": beta} for beta in plan.more_betas]
        if name == "acc-sadmm"
        else [{"rho": rho} for rho in plan.rhos]
    )
    return [
        [{"factor": factor} for factor in plan.factors],
        [{"beta": beta} for beta in plan.betas],
        last,
    ]
