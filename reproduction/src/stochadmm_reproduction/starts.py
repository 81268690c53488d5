"""The first state of a method in an experiment: steps, warm start, constants of the data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from stochadmm import Problem
from stochadmm.base.workspace import Workspace
from stochadmm.run.loop import begin
from stochadmm.solvers import AnySolver, State, StocADMM, defaults

from ._plain import field_values
from .methods import METHODS, PAPER, Method, Setting, Task


class Diverged(ArithmeticError):
    """A warm start that has left all bounds: there is nothing to begin with."""


def start(
    name: str,
    problem: Problem,
    batch: int,
    setting: Setting,
    passes: float,
    rng: np.random.Generator,
    workspace: Workspace | None = None,
    engine: str = "auto",
) -> tuple[AnySolver, State]:
    """Return the solver of a curve and its first state, with the step of the setting.

    ``passes`` is the length of the run, which the growth of a penalty follows from.
    """
    method, workspace = METHODS[name], workspace or Workspace()
    task = Task(problem, batch, passes, setting, workspace, engine=engine)
    solver, before = method.make(task), None
    if method.warm:
        short, before = warm(task)
        short.epoch(problem, before, rng)
    return solver, first(task, method, solver, before)


def is_finite(state: State) -> bool:
    """Say whether another method may begin where this one has ended."""
    return all(np.isfinite(a).all() for a in (state.x.x1, state.x.x2, state.dual))


def first(task: Task, method: Method, solver: AnySolver, before: State | None) -> State:
    """Return the first state of a method, after the warm start where it has one."""
    if before is not None and not is_finite(before):
        raise Diverged("the warm start diverged")
    begun = None if before is None else (before.x, before.dual)
    solver = guided(task, solver)
    state: Any = begin(task.problem, solver, begun, task.engine, task.workspace)
    if method.curvature is not None:
        largest = defaults.lipschitz_max(task.problem, task.workspace)
        state.curvature = method.curvature(task.batch) * largest
    if method.tuned_as is not None:
        _scale(state, task.setting)
    if before is not None:
        state.n_gradients += before.n_gradients
        state.n_passes += before.n_passes
    found: State = state
    return found


def guided(task: Task, solver: AnySolver) -> AnySolver:
    """Return a method that need not read all rows for its constants, where there is a guide."""
    if task.guide is None:
        return solver
    fields = field_values(solver)
    numbers: dict[str, float] = {}
    if fields.get("curvature") == "auto":  # set after the start
        numbers["curvature"] = defaults.lipschitz_max(task.problem, task.workspace)
    if fields.get("growth") == "auto":
        numbers["growth"] = task.guide.growth
    return dataclasses.replace(solver, **numbers) if numbers else solver


def _scale(state: Any, setting: Setting) -> None:
    """Apply the factors where a method has a curvature and a weight of noise."""
    names = field_values(state)
    if "curvature" in names:
        state.curvature *= setting.factor
    if "growth" in names:
        state.growth *= setting.noise


def warm(task: Task) -> tuple[AnySolver, State]:
    """Return STOC-ADMM with steps of its own, one epoch of which is the warm start."""
    n, workspace = task.problem.f2.n_terms, task.workspace
    steps = max(1, round(PAPER.warm_start * n / task.batch))
    beta = min(task.penalty, PAPER.largest_penalty)
    solver: Any = StocADMM(beta=beta, batch_size=task.batch, n_inner=steps, sampling="rows")
    state: Any = begin(task.problem, guided(task, solver), None, task.engine, workspace)
    state.curvature = task.setting.warm * defaults.lipschitz_max(task.problem, workspace)
    state.growth *= task.setting.warm
    return solver, state
