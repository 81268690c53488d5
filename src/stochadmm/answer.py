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
from typing import Any, NamedTuple, cast

import numpy as np

from .certificates import Certificate, certify, has_certificate
from .certificates._composite import Composite
from .certificates._data import evaluate
from .clock import seconds_left
from .exact import as_pair, candidates
from .finite_sum import FiniteSum, Snapshot
from .problem import Pair, Problem
from .protocols import Array
from .result import Record, Result, Status
from .solvers._base import State
from .stopping import Rule, wanted_gap

FLOOR = 1e-3  # relative gaps are taken relative to at least this share of F(0)
TIGHT = 10  # how many times longer than a scaled certificate a first tight one may take


@dataclass(frozen=True)
class Measured:
    """A feasible point with what is known of it."""

    point: Pair
    """The feasible point that the objective belongs to."""
    pair: Pair
    """The pair of the method."""
    dual: Array
    beta: float
    objective: float
    feasibility: float
    bound: float | None
    kkt_residual: float | None
    scale: float
    cache: Snapshot | None = None

    @property
    def gap(self) -> float | None:
        """Certified upper bound on the distance to the optimum."""
        return None if self.bound is None else max(self.objective - self.bound, 0.0)

    @property
    def relative_gap(self) -> float | None:
        """The gap relative to the objective."""
        if self.gap is None:
            return None
        return self.gap / self.scale if self.scale > 0 else (0.0 if self.gap == 0 else np.inf)

    def copy(self) -> Measured:
        """Return a measurement that a method cannot change by working in its own arrays."""
        return dataclasses.replace(
            self, point=self.point.copy(), pair=self.pair.copy(), dual=self.dual.copy()
        )

    def better_than(self, other: Measured) -> bool:
        """Say whether this point is at least as good: by objective, else by KKT residual."""
        if np.isfinite(self.objective) or np.isfinite(other.objective):
            return bool(self.objective <= other.objective)
        mine, theirs = self.kkt_residual, other.kkt_residual
        return mine is not None and (theirs is None or mine <= theirs)

    def record(self, state: State, solving: float, measuring: float) -> Record:
        """Return the numbers of this measurement."""
        return Record(
            state.n_epochs, state.n_passes, state.n_gradients, solving, measuring, self.objective,
            self.feasibility, self.gap, self.relative_gap, self.kkt_residual,
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

    def __init__(self, problem: Problem, rule: Rule, memory: Memory | None = None) -> None:
        self.problem = problem
        wanted = wanted_gap(rule)
        self.tol = None if wanted is None else wanted.tol
        self.relative = wanted is None or wanted.relative
        self.bound, self.previous, self.patience = Memory() if memory is None else memory
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
        if state.bound is not None and state.cache is not None and self.tol is not None:
            measured = self._own(state, state.cache)
            helpless = measured.objective >= self.previous  # no step left to certify itself by
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
        if self.tol is None or state.bound is None or state.cache is None:
            return None
        if not self._held_at_zero(state, state.cache) or not self._affords("scaled"):
            return None
        c = self._certify(state.output, state.dual, state.cache, "scaled")
        dtype = self.problem.dtype
        pair = Pair(c.point.x1.astype(dtype), c.point.x2.astype(dtype))
        found = Measured(
            c.point, pair, c.dual.astype(dtype), state.beta, c.objective, 0.0, c.bound,
            c.kkt_residual, self.scale(c.objective),
        )  # fmt: skip
        if c.gap is None or not self._satisfied(found):
            return None
        self.bound = c.bound
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
        if not self.took and has_certificate(self.problem):
            expected += Composite.of(self.problem).setup_seconds
        return expected < left

    def _measured(self, state: State, c: Certificate) -> Measured:
        if c.gap is not None and (self.bound is None or c.bound > self.bound):
            self.bound = c.bound
        feasibility = float(np.linalg.norm(self.problem.constraint(state.output)))
        return Measured(
            c.point, state.output, state.dual, state.beta, c.objective, feasibility, self.bound,
            c.kkt_residual, self.scale(c.objective), state.cache,
        )  # fmt: skip

    def _uncertified(self, state: State) -> Measured:
        """Measure a point with the bound at hand, where there is no time for another."""
        if self.bound is None and has_certificate(self.problem):
            self.bound = -np.inf
        point = self.problem.feasible(state.output)
        objective = _objective(self.problem, point)
        feasibility = float(np.linalg.norm(self.problem.constraint(state.output)))
        return Measured(
            point, state.output, state.dual, state.beta, objective, feasibility, self.bound, None,
            self.scale(objective), state.cache,
        )  # fmt: skip

    def _own(self, state: State, cache: Snapshot) -> Measured:
        """Measure a feasible output whose method has made the pass and found a bound itself."""
        if self.bound is None or (state.bound is not None and state.bound > self.bound):
            self.bound = state.bound
        value = cache.value
        if self.problem.dtype != np.float64:  # certified numbers are float64 whatever the data
            value = evaluate(cast(FiniteSum, self.problem.f2), state.output.x2, cache).value
        objective = value + self.problem.penalty(state.output)
        feasibility = float(np.linalg.norm(self.problem.constraint(state.output)))
        return Measured(
            state.output, state.output, state.dual, state.beta, objective, feasibility, self.bound,
            None, self.scale(objective), cache,
        )  # fmt: skip

    def renewed(self, m: Measured) -> Measured:
        """Return a measurement with the best bound known by now."""
        return m if m.bound == self.bound else dataclasses.replace(m, bound=self.bound)

    def certified(self, m: Measured) -> Measured:
        """Return a measurement that its method left uncertified, with a certificate.

        It is the tight one, or as much as there is time for.
        """
        limited = seconds_left() < np.inf
        for strength in ("scaled", "corrected") if limited else ("corrected",):
            if self._affords(strength):
                c = self._certify(m.pair, m.dual, m.cache, strength)
                if c.gap is not None:
                    self.bound = max(c.bound, -np.inf if self.bound is None else self.bound)
                m = dataclasses.replace(m, bound=self.bound, kkt_residual=c.kkt_residual)
        return m

    def scale(self, objective: float) -> float:
        """Return what a relative gap is relative to."""
        return max(abs(objective), FLOOR * abs(self.problem.objective_at_zero))

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


def finish(
    problem: Problem, state: State, best: Measured, meter: Meter, status: Status, rule: Rule,
    history: list[Record], seconds: float, info: dict[str, Any], generator: Any, identity: str,
    as_it_is: bool = False,
) -> Result:  # fmt: skip
    """Return the result: the best point, with exact structure where that costs nothing.

    It holds what a later run needs if there is an identity to know the problem by. ``as_it_is``
    leaves out whatever takes time.
    """
    kept = None
    if identity:
        bare = dataclasses.replace(best, cache=None)
        kept = Resumable(state.copy(), generator, bare, meter.memory, identity)
    # the run ended before its method asked for a certificate
    if best.gap == np.inf and not as_it_is:
        best = meter.certified(best)
    if meter.bound is not None:  # a bound found later certifies earlier points too
        best = dataclasses.replace(best, bound=meter.bound)
    best = best if as_it_is else _structured(problem, best, meter)
    coef = best.point.x2.astype(problem.dtype, copy=False) + problem.dtype.type(0)  # no -0.0
    intercept: Any = None
    if problem.intercept:
        coef, intercept = coef[:-1], coef[-1]
        intercept = float(intercept) if np.ndim(intercept) == 0 else intercept.copy()
    last = dataclasses.replace(best.record(state, 0.0, 0.0), epoch=state.n_epochs)
    details = {"engine": state.engine, **state.notes, **info}
    notes = getattr(problem.f2, "notes", None)
    if notes:
        details["data"] = list(notes)
    return Result(
        coef=coef.copy(), intercept=intercept, x1=best.pair.x1, x2=best.pair.x2, dual=best.dual,
        objective=best.objective, feasibility=best.feasibility, gap=best.gap,
        relative_gap=best.relative_gap, kkt_residual=best.kkt_residual, status=status,
        message=rule.describe(last), n_epochs=state.n_epochs, n_passes=state.n_passes,
        n_gradients=state.n_gradients, seconds=seconds, ergodic=state.ergodic, history=history,
        info=details, state=kept,
    )  # fmt: skip


def _structured(problem: Problem, best: Measured, meter: Meter) -> Measured:
    """Return the best point with exact structure if it still meets what was reached before."""
    gradient = None if best.cache is None else best.cache.gradient
    if gradient is None and problem.h2 is not None and np.isfinite(best.objective):
        gradient = problem.f2.gradient(best.point.x2)
    allowed = best.objective
    if best.gap is not None and np.isfinite(best.gap) and meter.tol is not None:
        target = meter.tol * (best.scale if meter.relative else 1.0)
        allowed = best.objective + max(0.0, 0.5 * (target - best.gap), 0.1 * best.gap)
    x2 = best.point.x2.astype(problem.dtype, copy=False)
    for candidate in candidates(problem, x2, best.dual, best.beta, gradient):
        if np.array_equal(candidate, x2):
            return best
        point = as_pair(problem, candidate.astype(np.float64))
        value = _objective(problem, point)
        if value <= allowed:
            return dataclasses.replace(
                best, point=point, objective=value, scale=meter.scale(value), cache=None
            )
    return best


def _objective(problem: Problem, x: Pair) -> float:
    """Return F at a float64 pair, in float64 whatever the data."""
    if isinstance(problem.f2, FiniteSum) and problem.dtype != np.float64:
        return problem.penalty(x) + evaluate(problem.f2, x.x2).value
    return problem.objective(x)
