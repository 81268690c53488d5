"""From states to answers: what a point is worth, and which point is returned.

A lower bound on the optimum belongs to the problem, not to a point, so the best bound seen so far
certifies every later point. The tight certificate costs a few passes; it is asked for only when
the objective has nearly stopped to fall, which is when it may succeed. None is begun that would
outlast the time a run has left.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base.clock import seconds_left
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import Certificate, certify, has_certificate
from ..certificates.certify import setup_seconds
from ..certificates.data import evaluate
from ..certificates.relative import gap_scale
from ..certificates.repair import repaired, wide
from ..exact import as_pair, candidates
from ..problem import Pair, Problem
from ..risk.finite_sum import FiniteSum, Snapshot
from ..solvers._base import State
from .result import Record, Result, Status
from .stopping import Rule, wanted_gap

DISPROVED = 1e-10  # relative distance below a bound at which a feasible point refutes it
TIGHT = 10  # how many times longer than a scaled certificate a first tight one may take


@dataclass(frozen=True)
class Measured:
    """Arrays as they would be returned, with everything that is said about them.

    Only `Meter.appraise` makes one: objective, feasibility, gap and the verdict belong to these
    arrays, evaluated in float64.
    """

    point: Pair
    """What is returned, in the type of the data."""
    dual: Array
    beta: float
    objective: float
    """F at ``point``; of a model, F of x2."""
    feasibility: float
    """|A1 x1 + A2 x2 - b| / (1 + |b|) at ``point``."""
    residual: float
    """|A1 x1 + A2 x2 - b| that the objective may owe to: zero where x1 follows from x2."""
    strayed: float
    """Relative infeasibility of the pair of the method."""
    bound: float | None
    kkt_residual: float | None
    scale: float
    weight: float = 0.0
    """Norm of the larger of two multipliers: that of the method and that of the bound."""
    cache: Snapshot | None = None
    meets: bool = False
    """Whether the stopping rule holds for these arrays."""

    @property
    def gap(self) -> float | None:
        """Certified upper bound on the distance to the optimum; infinite where it is no number.

        At least what a multiplier makes of the infeasibility: below the optimum the distance to a
        lower bound says nothing.
        """
        if self.bound is None:
            return None
        distance = self.objective - self.bound
        return max(distance, self.charge) if distance < np.inf else np.inf

    @property
    def relative_gap(self) -> float | None:
        """The gap relative to the objective."""
        if self.gap is None or self.gap == np.inf:
            return self.gap
        return self.gap / self.scale if self.scale > 0 else (0.0 if self.gap == 0 else np.inf)

    def copy(self) -> Measured:
        """Return a measurement that a method cannot change by working in its own arrays."""
        return dataclasses.replace(self, point=self.point.copy(), dual=self.dual.copy())

    @property
    def charge(self) -> float:
        """What a multiplier makes of the infeasibility: F may be so much below the optimum."""
        return self.weight * self.residual if self.residual else 0.0

    def merit(self, other: Measured) -> float:
        """Return F plus twice what the larger multiplier makes of the infeasibility.

        It is an exact penalty: its minimizers are feasible.
        """
        if not self.residual:
            return self.objective
        return self.objective + 2.0 * max(self.weight, other.weight) * self.residual

    def better_than(self, other: Measured) -> bool:
        """Say whether this point is at least as good: by the rule, by merit, by KKT residual."""
        if self.meets != other.meets:
            return self.meets
        mine, theirs = self.merit(other), other.merit(self)
        if np.isfinite(mine) or np.isfinite(theirs):  # a number is better than none
            return bool(np.isfinite(mine) and not mine > theirs)
        a, b = self.kkt_residual, other.kkt_residual
        return a is not None and (b is None or bool(a <= b))

    def record(self, state: State, solving: float, measuring: float) -> Record:
        """Return the numbers of this measurement; the infeasibility is that of the method."""
        return Record(
            state.n_epochs, state.n_passes, state.n_gradients, solving, measuring, self.objective,
            self.strayed, self.gap, self.relative_gap, self.kkt_residual,
            int(np.count_nonzero(self.point.x2)),
        )  # fmt: skip


class Memory(NamedTuple):
    """What a meter knows after some measurements."""

    bound: float | None = None
    """Best lower bound on the optimal value."""
    previous: float = np.inf
    """Objective of the measurement before."""
    patience: int = 0
    """Measurements to wait before the next tight certificate."""


class Meter:
    """Measures points of one problem and remembers the best lower bound."""

    def __init__(
        self, problem: Problem, rule: Rule, memory: Memory | None = None,
        workspace: Workspace | None = None,
    ) -> None:  # fmt: skip
        self.problem, self.rule = problem, rule
        self.workspace = workspace or Workspace()
        wanted = wanted_gap(rule)
        self.tol = None if wanted is None else wanted.tol
        self.relative = wanted is None or wanted.relative
        self.bound, self.previous, self.patience = Memory() if memory is None else memory
        self.certifies = has_certificate(problem)
        """Whether certificates can be made of any point, beside those of the method."""
        self.took: dict[str, float] = {}
        """Seconds of the last certificate of each strength."""

    @property
    def memory(self) -> Memory:
        """What a later run may start from."""
        return Memory(self.bound, self.previous, self.patience)

    @property
    def target(self) -> float | None:
        """The relative gap that the run waits for, None when it does not wait for one."""
        if self.tol is None or self.relative:
            return self.tol
        return self.tol / max(self.scale(self.problem.objective_at_zero), 1e-300)

    def measure(self, state: State) -> Measured:
        """Return what the output is worth, with the tight certificate where it may succeed."""
        self._learn(state.bound)
        if state.bound is not None and state.cache is not None and self.tol is not None:
            measured = self._own(state, state.cache)
            # no step left to certify itself by
            helpless = measured.objective >= self.previous and not state.own_bound
        elif self._affords("scaled"):
            certificate = self._certify(state.output, state.dual, state.cache, "scaled")
            measured, helpless = self._measured(state, certificate), True
        else:
            measured, helpless = self._uncertified(state), False
        if helpless and self._worth_more(measured) and self._affords("corrected"):
            tight = self._certify(state.output, state.dual, state.cache, "corrected")
            measured = self._measured(state, tight)
            if not self._satisfied(measured):
                self.patience = 2
        self.previous = measured.objective
        return measured

    def at_rest(self, state: State) -> Measured | None:
        """Return a start of penalty zero that is the answer, None where it seems not to be.

        Where the penalties only just hold the coefficients at zero, no step would tell as well.
        """
        if self.tol is None or state.bound is None or state.cache is None or state.own_bound:
            return None
        if np.isfinite(
            state.bound
        ):  # the method has begun with a bound and will go on to find more
            return None
        if not self._held_at_zero(state, state.cache) or not self._affords("scaled"):
            return None
        c = self._certify(state.output, state.dual, state.cache, "scaled")
        before = self.bound
        self._learn(c.bound)
        found = self.appraise(state, c.point, dual=c.dual, kkt=c.kkt_residual)
        if c.gap is None or not self._satisfied(found):
            self.bound = before
            return None
        return found

    def _held_at_zero(self, state: State, cache: Snapshot) -> bool:
        """Say whether the penalty is zero and along minus the gradient not below what f2 gains."""
        if self.problem.penalty(state.output) != 0:
            return False
        ahead = -cache.gradient
        if self.problem.intercept:
            ahead[-1] = 0
        price = self.problem.penalty(self.problem.feasible(Pair(self.problem.zeros().x1, ahead)))
        return bool(np.vdot(ahead, ahead) <= price)

    def _certify(self, x: Pair, dual: Array, cache: Snapshot | None, strength: str) -> Certificate:
        began = time.perf_counter()
        found = certify(self.problem, x, dual, cache, strength=strength)
        self.took[strength] = time.perf_counter() - began
        return found

    def _affords(self, strength: str) -> bool:
        """Say whether a certificate is expected to end in the time that is left."""
        left = seconds_left()
        if left == np.inf:
            return True
        before = self.took.get("scaled", 0.0) * (1 if strength == "scaled" else TIGHT)
        expected = self.took.get(strength, before)
        if not self.took:
            expected += setup_seconds(self.problem)
        return expected < left

    def _learn(self, bound: float | None) -> None:
        """Keep the best lower bound."""
        if bound is not None and (self.bound is None or bound > self.bound):
            self.bound = bound

    def _measured(self, state: State, c: Certificate) -> Measured:
        if c.gap is not None:
            self._learn(c.bound)
            if self.bound is None:
                self.bound = -np.inf
        penalty = self.problem.penalty(c.point)
        value = c.objective - penalty if np.isfinite(c.objective) else None
        dual = None if self.problem.is_model else c.dual
        kkt = c.kkt_residual
        found = self.appraise(state, c.point, value=value, kkt=kkt, dual=dual)
        if self.problem.is_model:
            return found
        own = self.appraise(state, state.output, kkt=kkt, dual=dual)
        return own if own.merit(own) < found.merit(own) else found

    def _uncertified(self, state: State) -> Measured:
        """Measure a point with the bound at hand, where there is no time for another."""
        if self.bound is None and has_certificate(self.problem):
            self.bound = -np.inf
        return self.appraise(state, self.problem.feasible(wide(state.output)))

    def _own(self, state: State, cache: Snapshot) -> Measured:
        """Measure a feasible output whose method has made the pass and found a bound itself."""
        exact = self.problem.dtype == np.float64
        return self.appraise(state, state.output, value=cache.value if exact else None)

    def appraise(
        self, state: State, point: Pair, *, value: float | None = None, kkt: float | None = None,
        dual: Array | None = None, **known: Any,
    ) -> Measured:  # fmt: skip
        """Return everything that is said about a point, as it would be returned.

        Parameters
        ----------
        state : State
            The method's, for its multiplier, its penalty and its pair.
        point : Pair
            What would be returned; it is brought to the type of the data first.
        value : float, optional
            f2 at ``point.x2`` where it is known.
        kkt : float, optional
            The KKT residual where it is known.
        dual : array, optional
            The multiplier that goes with the point; that of the method by default.
        """
        problem = self.problem
        point, exact = as_returned(problem, point)
        if value is None or not exact:
            value = _value(problem, point.x2)
        multiplier = state.dual if dual is None else dual.astype(problem.dtype)
        residual, relative = infeasibility(problem, point)
        objective = value + _penalty(problem, point)
        found = Measured(
            point, multiplier, state.beta, objective, relative,
            0.0 if problem.is_model else residual, infeasibility(problem, state.output)[1],
            self.bound, kkt, self.scale(objective),
            max(float(np.linalg.norm(m)) for m in (multiplier, state.dual)),
            known.get("cache", state.cache),
        )  # fmt: skip
        return self.judged(found, state)

    def judged(self, m: Measured, state: State) -> Measured:
        """Return a measurement with the best bound known by now and the rule's verdict."""
        if self.bound is not None and m.objective + m.charge < self._least(self.bound):
            self.bound = -np.inf  # a feasible point below it disproves a bound
        m = dataclasses.replace(m, bound=self.bound, scale=self.scale(m.objective))
        record = dataclasses.replace(m.record(state, 0.0, 0.0), feasibility=m.feasibility)
        return dataclasses.replace(m, meets=bool(self.rule(record)) and self._feasible_enough(m))

    @staticmethod
    def _least(bound: float) -> float:
        """Return the lowest objective that rounding explains beside a bound."""
        return bound - DISPROVED * (1.0 + abs(bound))

    def _feasible_enough(self, m: Measured) -> bool:
        """Say whether a pair is near the constraint; what it may gain by that is in its gap."""
        if self.tol is None or self.problem.is_model:
            return bool(np.isfinite(m.objective))
        return bool(m.feasibility <= self.tol)

    def certified(self, m: Measured, state: State) -> Measured:
        """Return a measurement that its method left uncertified, with a certificate.

        It is the tight one, or as much as there is time for.
        """
        limited = seconds_left() < np.inf
        for strength in ("scaled", "corrected") if limited else ("corrected",):
            if self._affords(strength):
                c = self._certify(m.point, m.dual, m.cache, strength)
                if c.gap is not None:
                    self._learn(c.bound)
                m = dataclasses.replace(m, kkt_residual=c.kkt_residual)
        return self.judged(m, state)

    def scale(self, objective: float) -> float:
        """Return what a relative gap is relative to."""
        return gap_scale(self.problem, objective, self.bound)

    def _satisfied(self, m: Measured) -> bool:
        if m.gap is None or self.tol is None:
            return True
        return m.gap <= self.tol * (m.scale if self.relative else 1.0)

    def _worth_more(self, m: Measured) -> bool:
        if self._satisfied(m) or self.tol is None or m.gap is None:
            return False
        self.patience -= 1
        target = self.tol * (m.scale if self.relative else 1.0)
        return abs(self.previous - m.objective) <= 10 * target and self.patience <= 0


class Resumable(NamedTuple):
    """What a later run needs to go on as if there had been no end."""

    state: State
    generator: Any
    best: Measured
    memory: Memory
    identity: str
    """Fingerprint of the problem and the method."""
    engine: str
    """The engine that was asked for."""


def finish(
    problem: Problem, state: State, best: Measured, meter: Meter, status: Status, rule: Rule,
    history: list[Record], seconds: float, info: dict[str, Any], generator: Any, identity: str,
    engine: str, as_it_is: bool = False,
) -> Result:  # fmt: skip
    """Return the result: the best point, with exact structure where that costs nothing.

    It holds what a later run needs if there is an identity to know the problem by. ``as_it_is``
    leaves out whatever takes time.
    """
    kept = None
    if identity:
        bare = dataclasses.replace(best, cache=None)
        alone = dataclasses.replace(state.copy(), workspace=Workspace())
        kept = Resumable(alone, generator, bare, meter.memory, identity, engine)
    # the run ended before its method asked for a certificate
    if best.gap == np.inf and meter.certifies and not as_it_is:
        best = meter.certified(best, state)
    best = meter.judged(best, state)
    best = best if as_it_is else _structured(problem, best, meter, state)
    if status is not Status.INTERRUPTED and best.meets:
        status = Status.CONVERGED
    coef, intercept = best.point.x2, None
    if problem.intercept:
        coef, intercept = coef[:-1], coef[-1]
        intercept = float(intercept) if np.ndim(intercept) == 0 else intercept.copy()
    # "beta" of the notes is where a method began; this one belongs to the multiplier
    details = {"engine": state.engine, **state.notes, "last_beta": float(best.beta), **info}
    notes = getattr(problem.f2, "notes", None)
    if notes:
        details["data"] = list(notes)
    return Result(
        coef=coef.copy(), intercept=intercept, x1=best.point.x1, x2=best.point.x2, dual=best.dual,
        objective=best.objective, feasibility=best.feasibility, gap=best.gap,
        relative_gap=best.relative_gap, kkt_residual=best.kkt_residual, status=status,
        message=_message(problem, best, rule, state), n_epochs=state.n_epochs,
        n_passes=state.n_passes, n_gradients=state.n_gradients, seconds=seconds,
        ergodic=state.ergodic, history=history, info=details, state=kept,
    )  # fmt: skip


def _message(problem: Problem, best: Measured, rule: Rule, state: State) -> str:
    record = best.record(state, 0.0, 0.0)
    text = rule.describe(dataclasses.replace(record, feasibility=best.feasibility))
    return text if problem.is_model else f"{text}; feasibility {best.feasibility:.2e}"


def _structured(problem: Problem, best: Measured, meter: Meter, state: State) -> Measured:
    """Return the best point with exact structure if it still meets what was reached before."""
    if not problem.is_model:
        return best
    gradient = None if best.cache is None else best.cache.gradient
    if gradient is None and problem.h2 is not None and np.isfinite(best.objective):
        gradient = problem.f2.gradient(best.point.x2)
    allowed = best.objective
    if best.gap is not None and np.isfinite(best.gap) and meter.tol is not None:
        target = meter.tol * (best.scale if meter.relative else 1.0)
        allowed = best.objective + max(0.0, 0.5 * (target - best.gap), 0.1 * best.gap)
    x2 = best.point.x2
    for candidate in candidates(problem, x2, best.dual, best.beta, gradient):
        if np.array_equal(candidate, x2):
            return best
        found = meter.appraise(
            state, as_pair(problem, candidate.astype(np.float64)), kkt=best.kkt_residual,
            dual=best.dual, cache=None,
        )  # fmt: skip
        if found.objective <= allowed and found.meets >= best.meets:
            return found
    return best


# ---------------------------------------------------------------- what is said about arrays


def as_returned(problem: Problem, point: Pair) -> tuple[Pair, bool]:
    """Return a pair in the type of the data, and whether its x2 is still the same numbers.

    In a model x1 follows from the x2 that is returned. A zero has no sign.
    """
    x1, x2 = (x.astype(problem.dtype) + problem.dtype.type(0) for x in (point.x1, point.x2))
    exact = bool(np.array_equal(x2, point.x2))
    if problem.is_model and not exact:
        again = repaired(problem, Pair(x1, x2))
        if again is not None and np.array_equal(again.x2.astype(problem.dtype), x2):
            x1 = again.x1.astype(problem.dtype)
    return Pair(x1, x2), exact


def infeasibility(problem: Problem, x: Pair) -> tuple[float, float]:
    """Return |A1 x1 + A2 x2 - b| in float64, as it is and over 1 + |b|."""
    if not problem.constrained:
        return 0.0, 0.0
    residual = float(np.linalg.norm(problem.constraint(wide(x))))
    right = 0.0 if problem.b is None else float(np.linalg.norm(problem.b))
    return residual, residual / (1.0 + right)


def _value(problem: Problem, x2: Array) -> float:
    """Return f2 in float64 whatever the data."""
    if isinstance(problem.f2, FiniteSum) and problem.dtype != np.float64:
        return evaluate(problem.f2, x2.astype(np.float64)).value
    return float(problem.f2.value(x2))


def _penalty(problem: Problem, x: Pair) -> float:
    """Return the penalties of a returned pair; in a model, those of x2 and what follows from it.

    x1 is rounded to the type of the data, what follows from x2 is not.
    """
    if problem.is_model and problem.constrained and problem.dtype != np.float64:
        exact = repaired(problem, x)
        if exact is not None and np.array_equal(exact.x2, x.x2):
            return problem.penalty(Pair(exact.x1, x.x2))
    return problem.penalty(x)
