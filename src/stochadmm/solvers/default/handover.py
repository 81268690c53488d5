"""Going on with another method where the first one has ended or given up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...base.protocols import Array
from ...problem import Pair, Problem
from .._base import AnySolver, State, choose_engine, get


@dataclass
class Relay(State):
    """State of a method that another one may take over from."""

    other: State | None = field(default=None, kw_only=True)
    """State of the other method."""


def go_on(problem: Problem, s: Relay, solver: AnySolver, rng: np.random.Generator) -> None:
    """Advance by one epoch of the other method, which begins where the first one has ended."""
    if s.other is None:
        begin = in_numbers(s.output, s.dual)
        other = s.other = solver.start(problem, *begin, s.workspace, s.deadline)
        wanted = "auto" if s.engine == "compiled" else "reference"
        other.engine = choose_engine(problem, wanted, solver.has_kernel, s.workspace)
        other.n_epochs, other.n_passes = s.n_epochs, s.n_passes + other.n_passes
        other.n_gradients += s.n_gradients
    other = s.other
    other.target, other.deadline = s.target, s.deadline
    solver.epoch(problem, other, rng)
    s.x, s.output, s.dual, s.beta, s.ergodic = (
        other.x,
        other.output,
        other.dual,
        other.beta,
        other.ergodic,
    )
    # the run remembers the bound that was found before
    s.bound, s.own_bound, s.cache = other.bound, other.own_bound, other.cache
    s.settled, s.exact, s.one_step = other.settled, other.exact, False
    s.n_epochs, s.n_passes, s.n_gradients = other.n_epochs, other.n_passes, other.n_gradients
    s.notes |= other.notes


def without_model(problem: Problem) -> AnySolver:
    """Return the method that needs no model of the loss: dual variables of fewer rows, or x."""
    sdca = get("sdca-admm")()
    return sdca if sdca.serves(problem) else get("acc-sadmm")()


def in_numbers(x: Pair, dual: Array) -> tuple[Pair | None, Array | None]:
    """Return what one method leaves to the next: of point and multiplier what is finite."""
    finite = np.isfinite(x.x1).all() and np.isfinite(x.x2).all()
    return x if finite else None, dual if np.isfinite(dual).all() else None
