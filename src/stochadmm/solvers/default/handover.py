"""Going on with a method that needs no model of the loss."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...base.clock import Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk import Evaluation
from .._base import State, get


class HandsOver(Protocol):
    """A state with a field for that of the method that takes over."""

    other: State | None
    x: Pair
    output: Pair
    dual: Array
    beta: float
    cache: Evaluation | None
    engine: str
    n_epochs: int
    n_passes: float
    n_gradients: float
    notes: dict[str, object]
    workspace: Workspace
    deadline: Deadline


def take_over(problem: Problem, s: HandsOver, rng: np.random.Generator) -> None:
    """Go on from the point reached with a method that needs no model of the loss."""
    solver = get("sdca-admm" if dual_rows(problem) else "acc-sadmm")()
    other = s.other
    if other is None:
        begin = in_numbers(s.output, s.dual)
        other = s.other = solver.start(problem, *begin, s.workspace, s.deadline)
        other.engine = s.engine if _compiles(problem, s.workspace) else "reference"
        s.notes["then"] = f"its steps stopped helping, {solver.name} took over"
    other.deadline = s.deadline
    passes, gradients = other.n_passes, other.n_gradients
    solver.epoch(problem, other, rng)
    s.n_passes += other.n_passes - passes
    s.n_gradients += other.n_gradients - gradients
    s.x, s.output, s.dual, s.beta = other.x, other.output, other.dual, other.beta
    s.cache = None
    s.n_epochs += 1


def in_numbers(x: Pair, dual: Array) -> tuple[Pair | None, Array | None]:
    """Return what one method leaves to the next: of point and multiplier what is finite."""
    finite = np.isfinite(x.x1).all() and np.isfinite(x.x2).all()
    return x if finite else None, dual if np.isfinite(dual).all() else None


def dual_rows(problem: Problem) -> bool:
    """Say whether the dual variables of the rows, fewer than the columns, can be stepped in."""
    return get("sdca-admm")().serves(problem)


def _compiles(problem: Problem, workspace: Workspace) -> bool:
    from ...forms import compiled as views

    return views.why_not(problem, workspace) is None
