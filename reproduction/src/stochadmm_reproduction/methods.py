"""The compared methods as the paper set them: steps by theory, penalties, warm starts, labels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stochadmm import Problem
from stochadmm.solvers import (
    ASVRGADMM,
    LADMNE,
    OPGADMM,
    RDAADMM,
    SAGADMM,
    SDCAADMM,
    SPDHG,
    SVRGADMM,
    VRPDDY,
    AccSADMM,
    AnySolver,
    Auto,
    Continuation,
    Katyusha,
    LinearizedADMM,
    OptSADMM,
    StocADMM,
    Workspace,
    defaults,
)

from ._plain import field_values
from .search import Candidate, Knob


@dataclass(frozen=True)
class PaperOptions:
    """Settings of the paper's comparison that all its experiments share."""

    largest_penalty: float = 10.0
    """Cap of the penalties that grow."""
    warm_start: float = 3.0
    """Passes of STOC-ADMM before SVRG- and SAG-ADMM."""
    reset: int = 5
    """Epochs between resets in the two methods that ask what the growing penalty does."""


PAPER = PaperOptions()


@dataclass(frozen=True)
class Setting:
    """What tuning chooses; every number is a factor, 1 by default.

    Attributes
    ----------
    factor : float
        Of the curvature from theory: smaller is a longer step.
    first : float
        Of the automatic penalty in the first epoch; of the automatic rho or balance where a method
        has that instead.
    rise : float
        Last penalty over the first; the growth per epoch follows from the length of the run.
    noise : float
        Of the automatic weight that noise gets in a step.
    warm : float
        Of curvature and noise weight in the warm start.
    """

    factor: float = 1.0
    first: float = 1.0
    rise: float = 1.0
    noise: float = 1.0
    warm: float = 1.0


_HALF = 10**0.5  # penalties matter by their order of magnitude
KNOBS = {
    "factor": Knob("factor", 2.0, -8, 1),
    "first": Knob("first", _HALF, -6, 4),
    "rise": Knob("rise", _HALF, 0, 8, least=0),
    "noise": Knob("noise", 4.0, -5, 1),
    "warm": Knob("warm", 4.0, -3, 1),
    "dual": Knob("first", _HALF, -6, 0, most=0),
}


@dataclass(frozen=True)
class Guide:
    """Numbers that the data give, from some of the rows where all are too many to be read."""

    penalty: float
    growth: float
    """Automatic weight of noise."""

    @classmethod
    def of(cls, problem: Problem, batch: int) -> Guide:
        """Return those of a problem with fewer rows; nothing else of it is kept."""
        workspace = Workspace()
        runs = defaults.sampling(problem, "rows", batch)
        growth = defaults.growth(problem, runs, "auto", False, workspace)
        return cls(defaults.beta(problem, "auto", workspace), growth)


@dataclass(frozen=True)
class Task:
    """What a method is made for: the problem, a batch, and the length of the run."""

    problem: Problem
    batch: int
    passes: float
    setting: Setting
    workspace: Workspace
    guide: Guide | None = None

    @property
    def n_inner(self) -> int:
        """Steps of an epoch."""
        return n_inner(self.problem.f2.n_terms, self.batch)

    @property
    def penalty(self) -> float:
        """The first penalty, not above the cap of the paper."""
        if self.guide is not None:
            return self.setting.first * self.guide.penalty
        return self.setting.first * automatic(self.problem, self.workspace)

    def growing(self, per_epoch: float, before: float = 0.0) -> Continuation:
        """Return the penalty that rises over the run; ``per_epoch`` are passes of an epoch."""
        cap = PAPER.largest_penalty
        first = min(self.penalty, cap)
        last = min(first * self.setting.rise, cap)
        n_epochs = math.ceil(max(self.passes - before, per_epoch) / per_epoch)
        rho = (last / first) ** (1 / max(n_epochs - 1, 1))
        return Continuation(first, rho=max(rho, 1.0), cap=max(last, first))


Make = Callable[[Task], AnySolver]


@dataclass(frozen=True)
class Method:
    """A curve: how its solver is made and its curvature by theory, as a multiple of Lmax."""

    label: str
    make: Make
    knobs: tuple[str, ...] = ()
    curvature: Callable[[int], float] | None = None
    """None: the solver's own."""
    tuned_as: str | None = None
    """The method whose tuned setting is used; None: nothing to tune."""
    in_paper: bool = True
    ergodic: bool = False
    """Whether the average of the iterates is drawn as a curve of its own."""
    warm: bool = False
    """Whether STOC-ADMM makes the first passes."""
    per_epoch: float | None = None
    """Passes of an epoch, None where they are not known beforehand."""
    form_of: str | None = None
    """The method of the paper that this is with another step, or with nothing tuned."""

    @property
    def before(self) -> float:
        """Passes before the first epoch."""
        return PAPER.warm_start if self.warm else 0.0


def n_inner(n_rows: int, batch: int) -> int:
    """Return m = 2 n / b, rounded up."""
    return max(3, math.ceil(2 * n_rows / batch))


def automatic(problem: Problem, workspace: Workspace) -> float:
    """Return the automatic penalty, found once per workspace."""
    found: float = workspace.once(defaults.beta, problem, "auto", workspace)
    return found


def knobs_of(name: str, tuned_steps: bool, constrained: bool) -> tuple[Knob, ...]:
    """Return what a method is tuned by; steps only where they are not those of theory."""
    left_out = set() if tuned_steps else {"factor"}
    if not constrained:
        left_out |= {"first", "rise", "dual"}
    return tuple(KNOBS[k] for k in METHODS[name].knobs if k not in left_out)


def setting_of(knobs: tuple[Knob, ...], candidate: Candidate) -> Setting:
    """Return the setting of a candidate."""
    pairs = zip(knobs, candidate, strict=True)
    return Setting(**{knob.name: knob.value(k) for knob, k in pairs})


def canonical(
    knobs: tuple[Knob, ...], problem: Problem, workspace: Workspace
) -> Callable[[Candidate], Candidate]:
    """Return what cuts a candidate at the cap of the penalty: beyond it nothing changes."""
    names = [k.name for k in knobs]
    if "rise" not in names or not problem.constrained:
        return lambda candidate: candidate
    first, rise = names.index("first"), names.index("rise")
    room = math.log(PAPER.largest_penalty / automatic(problem, workspace), _HALF)

    def cut(candidate: Candidate) -> Candidate:
        exponents = list(candidate)
        exponents[first] = min(exponents[first], math.ceil(room))
        exponents[rise] = min(exponents[rise], max(0, math.ceil(room) - exponents[first]))
        return tuple(exponents)

    return cut


# ---------------------------------------------------------------- the solvers


def _stoc(task: Task) -> AnySolver:
    return StocADMM(
        beta=task.growing(2.0),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        returns="last",
    )


def _opt(task: Task) -> AnySolver:
    return OptSADMM(
        beta=task.growing(2.0), batch_size=task.batch, n_inner=task.n_inner, sampling="rows"
    )


def _opg(task: Task) -> AnySolver:
    return OPGADMM(
        beta=task.growing(2.0),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        returns="last",
    )


def _rda(task: Task) -> AnySolver:
    return RDAADMM(
        beta=task.growing(2.0),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        returns="last",
    )


def _svrg(task: Task) -> AnySolver:
    return SVRGADMM(
        beta=task.growing(5.0, PAPER.warm_start),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
    )


def _sag(task: Task) -> AnySolver:
    return SAGADMM(
        beta=task.growing(2.0, PAPER.warm_start),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        form="points",
    )


def _asvrg(task: Task) -> AnySolver:
    own = _own(task, ASVRGADMM, "curvature")  # left open, it would be chosen anew every epoch
    return ASVRGADMM(
        beta=task.growing(5.0),
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        curvature=own,
    )


def _acc(task: Task) -> AccSADMM:
    paper = AccSADMM.paper(beta=task.penalty, batch_size=task.batch)
    return dataclasses.replace(paper, n_inner=task.n_inner)


def _acc_reset(task: Task) -> AnySolver:
    return dataclasses.replace(_acc(task), restart=PAPER.reset)


@dataclass(frozen=True)
class MomentumReset(AccSADMM):
    """ACC-SADMM whose momentum begins anew while its penalty goes on growing."""

    def begin_again(self, p: Problem, s: Any) -> None:
        """Restart with the penalty that the schedule has reached."""
        schedule, m = self.schedule(p), s.n_inner
        s.beta *= schedule.theta(0, m)[0] / schedule.theta(s.s, m)[0]
        super().begin_again(p, s)


def _acc_momentum(task: Task) -> AnySolver:
    plain = _acc(task)
    return MomentumReset(**(field_values(plain) | {"restart": PAPER.reset}))


def _acc_proven(task: Task) -> AnySolver:
    return dataclasses.replace(_acc(task), step="expected")


def _acc_untuned(task: Task) -> AnySolver:
    return AccSADMM()


def _acc_adaptive(task: Task) -> AnySolver:
    return AccSADMM(step="adaptive")


def _svrg_untuned(task: Task) -> AnySolver:
    return SVRGADMM()


def _svrg_adaptive(task: Task) -> AnySolver:
    return SVRGADMM(step="adaptive")


def _sdca(task: Task) -> AnySolver:
    rho = _own(task, SDCAADMM, "rho") * task.setting.first
    return SDCAADMM(batch_size=task.batch, n_inner=task.n_inner, rho=rho)


def _spdhg(task: Task) -> AnySolver:
    balance = _own(task, SPDHG, "balance") * task.setting.first
    return SPDHG(batch_size=task.batch, balance=balance)


def _own(task: Task, kind: Any, name: str) -> float:
    """Return the number that a method would choose itself, found once per workspace."""
    found: float = task.workspace.once(_own_number, task.problem, kind, task.batch, name)
    return found


def _own_number(problem: Problem, kind: Any, batch: int, name: str) -> float:
    return float(kind(batch_size=batch).start(problem).notes[name])


def _pddy(task: Task) -> AnySolver:
    # the dual step keeps |A2|^2 sigma step, at most one, whatever the step is
    step, sigma = _own(task, VRPDDY, "step"), _own(task, VRPDDY, "sigma")
    return VRPDDY(
        batch_size=task.batch,
        n_inner=task.n_inner,
        sampling="rows",
        step=step / task.setting.factor,
        sigma=sigma * task.setting.factor * task.setting.first,
    )


def _ladm_ne(task: Task) -> AnySolver:
    return LADMNE(beta=task.penalty)


def _linearized(task: Task) -> AnySolver:
    return LinearizedADMM(beta=task.penalty)


def _katyusha(task: Task) -> AnySolver:
    return Katyusha(batch_size=task.batch, n_inner=task.n_inner, step="paper", sampling="rows")


def _auto(task: Task) -> AnySolver:
    return Auto()


_PENALTY = ("factor", "first", "rise")
_NOISY = (*_PENALTY, "noise")
_WARM = (*_PENALTY, "warm")
_BESIDE_STEP = ("first", "rise", "warm")
_SVRG: dict[str, Any] = {"warm": True, "per_epoch": 5.0}


def _forms(of: str, forms: dict[str, Method]) -> dict[str, Method]:
    """Return forms of a method by name; each with anything to tune is tuned for itself."""
    return {
        f"{of}-{name}": dataclasses.replace(
            form,
            in_paper=False,
            form_of=of,
            tuned_as=f"{of}-{name}" if form.knobs else None,
        )
        for name, form in forms.items()
    }


METHODS = {
    "stoc-admm": Method(
        "STOC-ADMM", _stoc, _NOISY, lambda b: 1.0, "stoc-admm", ergodic=True, per_epoch=2.0
    ),
    "opt-sadmm": Method("OPT-SADMM", _opt, _NOISY, lambda b: 1.0, "opt-sadmm", per_epoch=2.0),
    "svrg-admm": Method(
        "SVRG-ADMM",
        _svrg,
        _WARM,
        lambda b: 1 + 8 / b,
        "svrg-admm",
        ergodic=True,
        warm=True,
        per_epoch=5.0,
    ),
    "sag-admm": Method(
        "SAG-ADMM", _sag, _WARM, lambda b: 1.0, "sag-admm", ergodic=True, warm=True
    ),
    "acc-sadmm": Method("ACC-SADMM", _acc, ("factor", "first"), None, "acc-sadmm", per_epoch=5.0),
    "acc-sadmm-reset": Method(
        "ACC-SADMM, all reset", _acc_reset, ("factor", "first"), None, "acc-sadmm", in_paper=False
    ),
    "acc-sadmm-momentum": Method(
        "ACC-SADMM, momentum reset",
        _acc_momentum,
        ("factor", "first"),
        None,
        "acc-sadmm",
        in_paper=False,
    ),
    **_forms(
        "acc-sadmm",
        {
            "theory": Method("ACC, paper's step", _acc, ("first",), None, per_epoch=5.0),
            "proven": Method("ACC, tightest proven", _acc_proven, ("first",), None, per_epoch=5.0),
            "untuned": Method("ACC, nothing tuned", _acc_untuned),
            "adaptive": Method("ACC, adaptive", _acc_adaptive),
        },
    ),
    **_forms(
        "svrg-admm",
        {
            "theory": Method(
                "SVRG, paper's step", _svrg, _BESIDE_STEP, lambda b: 1 + 8 / b, **_SVRG
            ),
            "proven": Method("SVRG, tightest proven", _svrg, _BESIDE_STEP, None, **_SVRG),
            "untuned": Method("SVRG, nothing tuned", _svrg_untuned),
            "adaptive": Method("SVRG, adaptive", _svrg_adaptive),
        },
    ),
    "sdca-admm": Method("SDCA-ADMM", _sdca, ("first",), None, "sdca-admm", in_paper=False),
    "opg-admm": Method("OPG-ADMM", _opg, _NOISY, lambda b: 1.0, "opg-admm", in_paper=False),
    "rda-admm": Method("RDA-ADMM", _rda, _NOISY, lambda b: 1.0, "rda-admm", in_paper=False),
    "asvrg-admm": Method("ASVRG-ADMM", _asvrg, _PENALTY, None, "asvrg-admm", in_paper=False),
    "vr-pddy": Method("VR-PDDY", _pddy, ("factor", "dual"), None, "vr-pddy", in_paper=False),
    "spdhg": Method("SPDHG", _spdhg, ("first",), None, "spdhg", in_paper=False),
    "ladm-ne": Method("LADM-NE (batch)", _ladm_ne, ("first",), None, "ladm-ne", in_paper=False),
    "linearized-admm": Method(
        "linearised ADMM (batch)",
        _linearized,
        ("first",),
        None,
        "linearized-admm",
        in_paper=False,
    ),
    "katyusha": Method("Katyusha", _katyusha, ("factor",), None, "katyusha", in_paper=False),
    "auto": Method("auto", _auto, in_paper=False),
}
RIVALS = ("stoc-admm", "opt-sadmm", "svrg-admm", "sag-admm")
"""What ACC-SADMM is compared with in the paper."""
