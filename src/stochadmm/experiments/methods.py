"""The compared methods as the paper set them: steps by theory, penalties, warm starts, labels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.workspace import Workspace
from ..problem import Problem
from ..run.loop import begin
from ..solvers import (
    SAGADMM,
    SDCAADMM,
    SVRGADMM,
    AccSADMM,
    AnySolver,
    Auto,
    Continuation,
    OptSADMM,
    State,
    StocADMM,
    defaults,
)


@dataclass(frozen=True)
class PaperOptions:
    """Settings of the paper's comparison that all its experiments share."""

    largest_penalty: float = 10.0
    """Cap of the penalties that grow."""
    warm_start: float = 3.0
    """Passes of STOC-ADMM before SVRG- and SAG-ADMM."""


PAPER = PaperOptions()


@dataclass(frozen=True)
class Setting:
    """What tuning chooses.

    ``factor`` multiplies the curvature from theory, ``beta`` the automatic penalty, and ``rho`` is
    the growth of the penalty per epoch.
    """

    factor: float = 1.0
    beta: float = 1.0
    rho: float = 1.5


Make = Callable[[Problem, int, int, Setting], AnySolver]


@dataclass(frozen=True)
class Method:
    """A curve: how its solver is made and its curvature by theory, as a multiple of Lmax."""

    label: str
    make: Make
    curvature: Callable[[int], float] | None = None
    """None: the solver's own."""
    tuned_as: str | None = None
    """The method whose tuned setting is used; None: nothing to tune."""
    in_paper: bool = True
    ergodic: bool = False
    """Whether the average of the iterates is drawn as a curve of its own."""


def n_inner(n_rows: int, batch: int) -> int:
    """Return m = 2 n / b, rounded up."""
    return max(3, math.ceil(2 * n_rows / batch))


def start(
    name: str, problem: Problem, batch: int, setting: Setting, workspace: Workspace | None = None
) -> tuple[AnySolver, State]:
    """Return the solver of a curve and its first state, with the step of the setting."""
    method = METHODS[name]
    solver = method.make(problem, batch, n_inner(problem.f2.n_terms, batch), setting)
    workspace = workspace or Workspace()
    state: Any = begin(problem, solver, None, "auto", workspace)
    if method.curvature is not None:
        state.curvature = method.curvature(batch) * defaults.lipschitz_max(problem, workspace)
    if hasattr(state, "curvature") and method.tuned_as is not None:
        state.curvature *= setting.factor
    if hasattr(state, "growth"):
        state.growth *= setting.factor
    return solver, state


def _penalty(problem: Problem, setting: Setting) -> float:
    return setting.beta * defaults.beta(problem, "auto")


def _growing(problem: Problem, setting: Setting) -> Continuation:
    beta = min(_penalty(problem, setting), PAPER.largest_penalty)
    return Continuation(beta, rho=setting.rho, cap=PAPER.largest_penalty)


def _stoc(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    beta = _growing(problem, setting)
    return StocADMM(beta=beta, batch_size=batch, n_inner=m, sampling="rows", returns="last")


def _opt(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    beta = _growing(problem, setting)
    return OptSADMM(beta=beta, batch_size=batch, n_inner=m, sampling="rows")


def _svrg(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    return SVRGADMM(
        beta=_growing(problem, setting), batch_size=batch, n_inner=m, sampling="rows",
        warm_start_passes=PAPER.warm_start,
    )  # fmt: skip


def _sag(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    return SAGADMM(
        beta=_growing(problem, setting), batch_size=batch, n_inner=m, sampling="rows",
        warm_start_passes=PAPER.warm_start, form="points",
    )  # fmt: skip


def _acc(problem: Problem, batch: int, m: int, setting: Setting) -> AccSADMM:
    paper = AccSADMM.paper(beta=_penalty(problem, setting), batch_size=batch)
    return dataclasses.replace(paper, n_inner=m)


def _acc_reset(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    return dataclasses.replace(_acc(problem, batch, m, setting), restart=5)


def _sdca(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    return SDCAADMM(batch_size=batch, n_inner=m)


def _auto(problem: Problem, batch: int, m: int, setting: Setting) -> AnySolver:
    return Auto()


METHODS = {
    "stoc-admm": Method("STOC-ADMM", _stoc, lambda b: 1.0, "stoc-admm", ergodic=True),
    "opt-sadmm": Method("OPT-SADMM", _opt, lambda b: 1.0, "opt-sadmm"),
    "svrg-admm": Method("SVRG-ADMM", _svrg, lambda b: 1 + 8 / b, "svrg-admm", ergodic=True),
    "sag-admm": Method("SAG-ADMM", _sag, lambda b: 1.0, "sag-admm", ergodic=True),
    "acc-sadmm": Method("ACC-SADMM", _acc, None, "acc-sadmm"),
    "acc-sadmm-reset": Method("ACC-SADMM, reset", _acc_reset, None, "acc-sadmm", in_paper=False),
    "sdca-admm": Method("SDCA-ADMM", _sdca, in_paper=False),
    "auto": Method("auto", _auto, in_paper=False),
}
RIVALS = ("stoc-admm", "opt-sadmm", "svrg-admm", "sag-admm")
"""What ACC-SADMM is compared with in the paper."""
