"""The first state of a method in an experiment: steps, warm start, constants of the data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from stochadmm import Problem, iterate
from stochadmm.solvers import AnySolver, State, StocADMM, Workspace, defaults

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
) -> tuple[AnySolver, State]:
    """Return the solver of a curve and its first state, with the step of the setting.

    ``passes`` is the length of the run, which the growth of a penalty follows from.
    """
    method, workspace = METHODS[name], workspace or Workspace()
    task = Task(problem, batch, passes, setting, workspace)
    solver, before = method.make(task), None
    if method.warm:
        short, begun = warm(task)
        before = next(iterate(problem, short, rng, start=begun))
    return first(task, method, solver, before)


def is_finite(state: State) -> bool:
    """Say whether another method may begin where this one has ended."""
    return all(np.isfinite(a).all() for a in (state.x.x1, state.x.x2, state.dual))


def first(
    task: Task, method: Method, solver: AnySolver, before: State | None
) -> tuple[AnySolver, State]:
    """Return a method with its steps and its first state, after the warm start if it has one."""
    if before is not None and not is_finite(before):
        raise Diverged("the warm start diverged")
    numbers, factors = guided(task, solver), dict[str, float]()
    if method.curvature is not None:
        largest = defaults.lipschitz_max(task.problem, task.workspace)
        numbers["curvature"] = method.curvature(task.batch) * largest
    if method.tuned_as is not None:
        factors = {"curvature": task.setting.factor, "growth": task.setting.noise}
    solver, state = _begun(task, _with(solver, numbers), factors, before)
    if before is not None:
        state.n_gradients += before.n_gradients
        state.n_passes += before.n_passes
    return solver, state


def guided(task: Task, solver: AnySolver) -> dict[str, float]:
    """Return constants for which not all rows need be read, where there is a guide."""
    if task.guide is None:
        return {}
    fields = field_values(solver)
    numbers: dict[str, float] = {}
    if fields.get("curvature") == "auto":
        numbers["curvature"] = defaults.lipschitz_max(task.problem, task.workspace)
    if fields.get("growth") == "auto":
        numbers["growth"] = task.guide.growth
    return numbers


def warm(task: Task) -> tuple[AnySolver, State]:
    """Return STOC-ADMM with steps of its own, one epoch of which is the warm start."""
    n, factor = task.problem.f2.n_terms, task.setting.warm
    solver = StocADMM(
        beta=min(task.penalty, PAPER.largest_penalty),
        batch_size=task.batch,
        n_inner=max(1, round(PAPER.warm_start * n / task.batch)),
        curvature=factor * defaults.lipschitz_max(task.problem, task.workspace),
        sampling="rows",
    )
    return _begun(task, _with(solver, guided(task, solver)), {"growth": factor})


def _begun(
    task: Task, solver: AnySolver, factors: dict[str, float], before: State | None = None
) -> tuple[AnySolver, State]:
    """Return a method with factors times the numbers it would choose, and its first state."""
    point, dual = (None, None) if before is None else (before.x, before.dual)
    solver.check(task.problem)
    state: State = solver.start(task.problem, point, dual, workspace=task.workspace)
    now = field_values(state)
    # what is zero stays so, and cannot be given
    scaled = {k: now[k] * factor for k, factor in factors.items() if factor != 1 and now.get(k)}
    if scaled:
        solver = _with(solver, scaled)
        state = solver.start(task.problem, point, dual, workspace=task.workspace)
    return solver, state


def _with(solver: AnySolver, numbers: dict[str, float]) -> AnySolver:
    changes: dict[str, Any] = {**numbers}
    return dataclasses.replace(solver, **changes)
