"""Tuning: the knobs of a method, chosen jointly by what is judged, the curve of the gap.

What decides is the mean of log10 of the gap over the gradients of a run; in the first report it
was the gap at the end. The training objective decides; test rows are never looked at, and the
seeds are others than those of the runs that are published.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stochadmm import Problem, iterate
from stochadmm.solvers import Workspace

from . import methods, starts
from .config import Tuning
from .methods import Setting
from .problems import Optimum, feasible_value
from .runs import OPTIONS as RUNS
from .search import EDGE, Candidate, Found, Search, Side
from .trials import TrialLog


@dataclass(frozen=True)
class Tuned:
    """The setting that was chosen, what lies beside it, and what it cost to find it."""

    setting: Setting
    score: float
    """Mean of log10 of the gap over the seeds, at full length."""
    spread: float
    sides: list[Side]
    n_trials: int
    n_halving: int
    n_walks: int
    passes: float
    seconds: float

    @property
    def at_edge(self) -> bool:
        """Whether a better value may lie outside of what was tried."""
        return any(side.status == EDGE for side in self.sides)

    def after(self, other: Tuned) -> Tuned:
        """Return this choice with what the search before it has cost."""
        counts = ("n_trials", "n_halving", "n_walks", "passes", "seconds")
        return dataclasses.replace(
            self, **{name: getattr(self, name) + getattr(other, name) for name in counts}
        )

    def plain(self) -> dict[str, Any]:
        """Return plain numbers for a file."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, content: dict[str, Any]) -> Tuned:
        """Return what ``plain`` wrote, whatever else is beside it."""
        kept = {field.name: content[field.name] for field in dataclasses.fields(cls)}
        parts = {
            "setting": Setting(**content["setting"]),
            "sides": [Side(**side) for side in content["sides"]],
        }
        return cls(**(kept | parts))


def tune(
    name: str,
    problem: Problem,
    batch: int,
    plan: Tuning,
    passes: float,
    best: Optimum,
    log: TrialLog,
    advance: Callable[[float], None] = lambda share: None,
    start: Candidate | None = None,
) -> Tuned:
    """Return the best setting of a method.

    Parameters
    ----------
    name : str
        Key of ``methods.METHODS``.
    problem, batch
        What is solved, and the rows of a mini-batch.
    plan : Tuning
        What is tried.
    passes : float
        The full length of a run.
    best : Optimum
        Of the problem: gaps are to it.
    log : TrialLog
        Where finished trials are.
    advance : callable
        Told the runs of full length that every trial was.
    start : tuple of int, optional
        The choice on a sample of the rows, which is only checked: a walk begins there.
    """
    workspace = Workspace()  # the trials share what is known of the rows
    knobs = methods.knobs_of(name, plan.steps == "tuned", problem.constrained)
    along = best if plan.aim == "curve" else None

    def measure(candidate: Candidate, share: float, seed: int) -> float:
        setting = methods.setting_of(knobs, candidate)
        done = log.once(
            candidate,
            share,
            seed,
            lambda: trial(name, problem, batch, setting, share * passes, seed, workspace, along),
        )
        advance(share)
        return score(done.objective, best) if along is None else done.curve

    cut = methods.canonical(knobs, problem, workspace)
    ways = plan.plan(methods.METHODS[name].in_paper)
    search = Search(knobs, measure, ways, cut)
    found: Found = search.run() if start is None else search.check(start)
    used = log.used.values()
    return Tuned(
        methods.setting_of(knobs, found.candidate),
        found.score,
        found.spread,
        found.sides,
        len(used),
        found.n_halving,
        found.n_walks,
        sum(t.passes for t in used),
        sum(t.seconds for t in used),
    )


def score(objective: float, best: Optimum) -> float:
    """Return log10 of a gap; infinite for a run that has diverged.

    Where the optimum is not known well, its lower bound takes its place: the order of two runs is
    that of their objectives either way.
    """
    if not math.isfinite(objective):
        return math.inf
    tight = best.gap <= 1e-6 * abs(best.value)
    reference = best.value if tight or not math.isfinite(best.gap) else best.value - best.gap
    floor = max(best.gap if tight else 0.0, 1e-13 * abs(best.value), 1e-300)
    return math.log10(max(objective - reference, floor))


def trial(
    name: str,
    problem: Problem,
    batch: int,
    setting: Setting,
    passes: float,
    seed: int,
    workspace: Workspace | None = None,
    best: Optimum | None = None,
) -> tuple[float, float, float, float]:
    """Return the objective at the end, the passes, processor seconds, and the mean of log10 gap.

    The objective is infinite where the run diverges, and so is the mean. That is taken over the
    passes where ``best`` is given; the run then ends where published runs do, and keeps its gap.
    """
    workspace, clock = workspace or Workspace(), time.process_time()
    rng = np.random.default_rng(seed)
    at_zero = problem.objective_at_zero
    at, logs = [0.0], [math.nan if best is None else score(at_zero, best)]
    value = math.inf
    with np.errstate(all="ignore"):
        try:
            solver, begun = starts.start(name, problem, batch, setting, passes, rng, workspace)
        except starts.Diverged:
            return math.inf, 0.0, time.process_time() - clock, math.inf
        for state in iterate(problem, solver, rng, start=begun):
            ended = state.n_gradients >= passes or not np.isfinite(state.output.x2).all()
            if best is not None:
                value = feasible_value(problem, state.output)[1]
                at.append(state.n_gradients)
                logs.append(min(score(value, best), logs[0] + 1.0))  # ten times the first gap
                late = state.n_gradients >= RUNS.late * passes
                ended |= not np.isfinite(value) or (late and value > RUNS.hopeless * abs(at_zero))
                nothing_left = max(best.floor, RUNS.small * abs(best.value))
                ended |= best.certified and value - best.value <= nothing_left
            if ended:
                break
        if best is None:
            value = feasible_value(problem, state.output)[1]
    lost = not value <= abs(at_zero) * 10
    seconds, objective = time.process_time() - clock, math.inf if lost else float(value)
    grid = np.linspace(0.0, passes, 201)
    mean = math.inf if lost else float(np.mean(np.interp(grid, at, logs)))
    return objective, float(state.n_gradients), seconds, mean
