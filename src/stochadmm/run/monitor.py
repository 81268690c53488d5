"""What a point is worth: objective, feasibility, bound, gap, and whether it is the answer.

The monitor is the only author of the status of a run: it looks at the arrays that are returned, in
float64. A lower bound on the optimum belongs to the problem, not to a point, so the best bound
seen so far certifies every later point. The tight certificate costs a few passes; it is asked for
only when the objective has nearly stopped to fall, which is when it may succeed. None is begun
that would outlast the time a run has left.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._newton import certificate_from_sample
from ..base.capabilities import Has, fact, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import Certificate, CertificateOptions, certify, has_certificate
from ..certificates.certify import setup_seconds
from ..certificates.null_space import FreeSpace
from ..certificates.relative import gap_scale
from ..certificates.repair import is_rounding, pulled_inside, repaired, wide
from ..exact import candidates
from ..forms.one_block import has_one_block, one_block
from ..problem import Pair, Problem, objective_at_zero
from ..risk import Evaluation, StreamedSum, loss_of_rows
from ..risk.mean_loss import mean_loss
from ..risk.metrics import column_energies
from ..solvers import State
from .prediction_range import ROUNDING, beyond_range, why_not_exact
from .result import Record
from .stopping import Rule

DISPROVED = 1e-10
"""Relative distance below a bound at which a feasible point refutes it: above rounding."""


@dataclass(frozen=True)
class Measured:
    """Arrays as they would be returned, with everything that is said about them.

    Only `Monitor.appraise` makes one: objective, feasibility, gap and the verdict belong to these
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
    """|A1 x1 + A2 x2 - b| that the objective may owe to. Where x1 follows from x2 it is what
    rounding to the type of the data takes out of the domains of penalties."""
    strayed: float
    """Relative infeasibility of the pair of the method."""
    kkt_residual: float | None
    weight: float = 0.0
    """Norm of the larger of two multipliers: that of the method and that of the bound."""
    cache: Evaluation | None = None
    gap: float | None = None
    """Certified upper bound on the distance to the optimum; infinite where it is no number."""
    relative_gap: float | None = None
    scale: float = np.nan
    """What the gap is divided by to be relative."""
    accepted: bool = False
    """Whether these arrays are what was asked for."""
    meets: bool = False
    """Whether the stopping rule ends the run for these arrays."""
    beyond: float | None = None
    """How far predictions lie beyond the range where the loss is exact; None before the rule
    accepts the arrays, and for losses that are exact everywhere."""

    @property
    def in_range(self) -> bool:
        """Whether the loss is exact at these arrays, as far as is known."""
        return self.beyond is None or self.beyond <= ROUNDING

    def copy(self) -> Measured:
        """Return a measurement that a method cannot change by working in its own arrays."""
        return dataclasses.replace(self, point=self.point.copy(), dual=self.dual.copy())

    def merit(self, other: Measured) -> float:
        """Return F plus twice what the larger multiplier makes of the infeasibility.

        It is an exact penalty: its minimizers are feasible.
        """
        if not self.residual:
            return self.objective
        return self.objective + 2.0 * max(self.weight, other.weight) * self.residual

    def better_than(self, other: Measured) -> bool:
        """Say whether this later point is at least as good: by rule, by merit, by KKT residual.

        Values that differ by their rounding tell nothing of two points, and steps go forward.
        """
        if self.meets != other.meets:
            return self.meets
        mine, theirs = self.merit(other), other.merit(self)
        if np.isfinite(mine) or np.isfinite(theirs):  # a number is better than none
            slack = 4.0 * float(np.finfo(np.float64).eps) * abs(theirs)
            return bool(np.isfinite(mine) and not mine > theirs + slack)
        a, b = self.kkt_residual, other.kkt_residual
        return a is not None and (b is None or bool(a <= b))

    def record(self, state: State, seconds: tuple[float, float] | None = None) -> Record:
        """Return the numbers of these arrays alone, for the stopping rule.

        With the ``seconds`` of steps and of measurements they are those of the history, where the
        infeasibility is that of the method.
        """
        return Record(
            state.n_epochs,
            state.n_passes,
            state.n_gradients,
            *(seconds or (0.0, 0.0)),
            self.objective,
            self.feasibility if seconds is None else self.strayed,
            self.gap,
            self.relative_gap,
            self.kkt_residual,
            int(np.count_nonzero(self.point.x2)),
        )


class Memory(NamedTuple):
    """What a monitor knows after some measurements."""

    bound: float | None = None
    """Best lower bound on the optimal value."""
    previous: float = np.inf
    """Objective of the measurement before."""
    patience: int = 0
    """Measurements to wait before the next tight certificate."""


class Monitor:
    """Measures points of one problem and remembers the best lower bound."""

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        memory: Memory | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self.problem, self.rule = problem, rule
        self.workspace = workspace or Workspace()
        self.rows_in_memory = not isinstance(problem.f2, StreamedSum)
        wanted = rule.wanted_gap()
        self.tol = None if wanted is None else wanted.tol
        self.relative = wanted is None or wanted.relative
        self.bound, self.previous, self.patience = Memory() if memory is None else memory
        self.has_range = offers(fact(problem.f2, "loss"), Has.BEYOND)
        """Whether the loss is that of its model in a range of predictions only."""
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
        return self.tol / max(self.scale(objective_at_zero(self.problem, self.workspace)), 1e-300)

    def measure(self, state: State) -> Measured:
        """Return what the output is worth, with the tight certificate where it may succeed."""
        self._learn(state.bound)
        if not np.isfinite(state.output.x2).all():  # nothing can be certified there
            measured, helpless = self._uncertified(state), False
        elif state.bound is not None and state.cache is not None and self.tol is not None:
            # a feasible output whose method has made the pass and found a bound itself
            value, x2 = state.cache.value, state.output.x2
            exact = self.problem.dtype == np.float64 or state.cache.has_exact_value_at(x2)
            measured = self.appraise(state, state.output, value=value if exact else None)
            # no step left to certify itself by
            helpless = measured.objective >= self.previous and not state.own_bound
        elif self._affords("scaled", state.deadline):
            certificate = self._certify(state, "scaled")
            measured = self._measured(state, certificate)
            helpless = certificate.kind != "tangent"  # which is as tight as it can be
        else:
            measured, helpless = self._uncertified(state), False
        if helpless and self.tol is not None and not self._satisfied(measured):
            # the tight certificate may succeed where the objective has nearly stopped to fall
            self.patience -= 1
            target = self.tol * (measured.scale if self.relative else 1.0)
            slow = abs(self.previous - measured.objective) <= 10 * target
            if slow and self.patience <= 0 and self._affords("corrected", state.deadline):
                measured = self._measured(state, self._certify(state, "corrected"))
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
        if np.isfinite(state.bound):  # the method has begun with one and will go on to find more
            return None
        problem = self.problem
        if problem.penalty(state.output) != 0:
            return None
        descent = -state.cache.gradient
        if problem.intercept:
            descent[-1] = 0
        step = descent  # or, of penalties with a prox, towards what they do not hold back
        if offers(problem.h2, Has.PROX):
            step = problem.h2.prox(descent, 1.0)  # type: ignore[union-attr]
        along = problem.penalty(problem.feasible(Pair(problem.zeros().x1, step)))
        # f2 gains more than the penalty costs, by more than rounding
        if not (1 - 1e-9) * np.vdot(descent, step) <= along:
            return None
        if not self._affords("scaled", state.deadline):
            return None
        c = self._certify(state, "scaled")
        before = self.bound
        self._learn(c.bound)
        found = self.appraise(state, c.point, dual=c.dual, kkt=c.kkt_residual)
        if c.gap is None or not self._satisfied(found):
            self.bound = before
            return None
        return found

    def _certify(self, state: State, strength: str, of: Measured | None = None) -> Certificate:
        """Certify the output of a state, or a point that was measured before."""
        x, dual, cache = state.output, state.dual, state.cache
        if of is not None:
            x, dual, cache = of.point, of.dual, of.cache
        began, workspace, target = time.perf_counter(), self.workspace, self.target
        if not self.rows_in_memory and self.problem.is_model and target:
            found = certificate_from_sample(
                self.problem, x, dual, target, workspace, state.deadline
            )
        else:
            scale = 1.0  # what a relative gap is relative to, over the objective
            if state.cache is not None:
                now = state.cache.value + self.problem.penalty(state.output)
                scale = self.scale(now) / max(abs(now), 1e-300) if np.isfinite(now) else 1.0
            found = certify(
                self.problem,
                x,
                dual,
                cache,
                strength=strength,
                options=CertificateOptions().towards(target, scale),
                workspace=workspace,
                deadline=state.deadline,
            )
        self.took[strength] = time.perf_counter() - began
        self.count(state, found.n_passes)
        return found

    def count(self, state: State, reads: float) -> None:
        """Count what was read of a source, which costs as much as the read of a step.

        Rows in memory are read to measure at no such price: passes are those of the method.
        """
        if not self.rows_in_memory:
            state.n_passes += reads

    def _affords(self, strength: str, deadline: Deadline) -> bool:
        """Say whether a certificate is expected to end in the time that is left."""
        left = deadline.seconds_left()
        if left == np.inf:
            return True
        # a first tight certificate may take ten times as long as a scaled one
        times = 1.0 if strength == "scaled" else 10.0
        expected = self.took.get(strength, times * self.took.get("scaled", 0.0))
        if not self.took:
            expected += setup_seconds(self.problem, self.workspace)
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
        if self.bound is None and has_certificate(self.problem, self.workspace):
            self.bound = -np.inf
        return self.appraise(state, self.problem.feasible(wide(state.output), self.workspace))

    def appraise(
        self,
        state: State,
        point: Pair,
        *,
        value: float | None = None,
        kkt: float | None = None,
        dual: Array | None = None,
        **known: Any,
    ) -> Measured:
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
            in_float64 = mean_loss(problem.f2) is not None  # in float64 whatever the data
            x2 = point.x2.astype(np.float64, copy=False) if in_float64 else point.x2
            value = float(problem.f2.value(x2))
            self.count(state, 1.0)
        multiplier = state.dual if dual is None else dual.astype(problem.dtype)
        residual, relative = infeasibility(problem, point)
        same = exact and np.array_equal(point.x1, state.output.x1)
        same = same and np.array_equal(point.x2, state.output.x2)
        strayed = relative if same else infeasibility(problem, state.output)[1]
        multipliers = (multiplier, state.dual)  # often one and the same
        penalty, outside = penalty_of(problem, point, self.workspace)
        objective = value + penalty
        found = Measured(
            point,
            multiplier,
            state.beta,
            objective,
            relative,
            outside if problem.is_model else residual,
            strayed,
            kkt,
            max(float(np.linalg.norm(mu)) for mu in {id(m): m for m in multipliers}.values()),
            known.get("cache", state.cache),
        )
        return self.judged(found, state)

    def judged(self, m: Measured, state: State) -> Measured:
        """Return a measurement with the best bound known by now and the rule's verdict."""
        # what a multiplier makes of the infeasibility: F may be so much below the optimum
        charge = m.weight * m.residual if m.residual else 0.0
        if self.bound is not None and m.objective + charge < self.bound - DISPROVED * (
            1.0 + abs(self.bound)
        ):
            self.bound = -np.inf  # a feasible point below it disproves a bound
        gap = relative = None
        scale, beyond = self.scale(m.objective), m.beyond
        if self.bound is not None:
            distance = m.objective - self.bound
            gap = relative = float(max(distance, charge)) if distance < np.inf else np.inf
            if gap < np.inf:
                relative = gap / scale if scale > 0 else 0.0 if gap == 0 else np.inf
        if (m.gap, m.relative_gap, m.scale) != (gap, relative, scale):
            m = dataclasses.replace(m, gap=gap, relative_gap=relative, scale=scale)
        record = m.record(state)
        accepted = bool(self.rule.accepts(record))
        if accepted and beyond is None and self.has_range:
            beyond = beyond_range(self.problem.f2, m.point.x2)
            self.count(state, 1.0)
        # what a pair near the constraint may gain by that is in its gap
        near = self.tol is None or self.problem.is_model or m.feasibility <= self.tol
        sound = bool(np.isfinite(m.objective) and near) and (beyond is None or beyond <= ROUNDING)
        verdict = (accepted and sound, bool(self.rule(record)) and sound, beyond)
        if verdict == (m.accepted, m.meets, m.beyond):
            return m
        return dataclasses.replace(m, accepted=verdict[0], meets=verdict[1], beyond=beyond)

    def structured(self, best: Measured, state: State) -> Measured:
        """Return the best point with exact structure if it still meets what was reached before."""
        problem, x2 = self.problem, best.point.x2
        if not problem.is_model or (state.exact and np.array_equal(x2, state.output.x2)):
            return best
        gradient = None if best.cache is None else best.cache.gradient
        if gradient is None and problem.h2 is not None and np.isfinite(best.objective):
            gradient = problem.f2.gradient(x2)
            self.count(state, 1.0)
        allowed = best.objective
        if best.gap is not None and np.isfinite(best.gap) and self.tol is not None:
            target = self.tol * (best.scale if self.relative else 1.0)
            allowed = best.objective + max(0.0, 0.5 * (target - best.gap), 0.1 * best.gap)
        for other in candidates(problem, x2, best.dual, best.beta, gradient, self.workspace):
            if np.array_equal(other, x2):
                return best
            point = problem.feasible(Pair(problem.zeros().x1, other.astype(np.float64)))
            found = self.appraise(state, point, kkt=best.kkt_residual, dual=best.dual, cache=None)
            if found.objective <= allowed and found.meets >= best.meets:
                return found
        return best

    def inside(self, best: Measured, state: State) -> Measured:
        """Return the best point with what follows from it inside of every domain, exactly.

        The computed rows of a structure may be over an edge by their rounding; where the point
        can be pulled back at no cost that counts, F of the coefficients is a number for everybody.
        """
        problem, F = self.problem, best.objective
        exact = problem.is_model and problem.constrained and problem.dtype == np.float64
        if not exact or problem.h1 is None or not np.isfinite(F):
            return best
        pair = pulled_inside(problem, best.point.x2, self.workspace)
        if pair is None or np.array_equal(pair.x2, best.point.x2):
            return best
        found = self.appraise(state, pair, kkt=best.kkt_residual, dual=best.dual, cache=None)
        free = found.objective - F <= DISPROVED * (1.0 + abs(F)) and found.meets >= best.meets
        return found if free else best

    def limit(self, m: Measured) -> str:
        """Say what keeps a run from improving arrays that the rule does not accept."""
        if m.beyond is not None and not m.in_range:
            return why_not_exact(fact(self.problem.f2, "loss"), m.beyond)
        if m.gap == np.inf:
            return why_no_bound(self.problem, self.workspace)
        reached = m.relative_gap if self.relative else m.gap
        if reached is None:
            return "rounding keeps the optimality conditions from being met more closely"
        return (
            f"rounding allows no smaller gap to be certified; ask for {1.1 * reached:.1e} or more"
        )

    def message(self, m: Measured, state: State) -> str:
        """Return both numbers of the rule, for these arrays, in words."""
        text = self.rule.describe(m.record(state))
        if not np.isfinite(m.objective):
            text += "; no point inside of the domains of all penalties was found"
        return text if self.problem.is_model else f"{text}; feasibility {m.feasibility:.2e}"

    def could_know_more(self, m: Measured, state: State) -> bool:
        """Say whether the tight certificate may show that a last point is better than known.

        A run may end before its method asked for a certificate, or while steps were too long for
        the tight one. Methods with bounds of their own, and sources, have looked as far as they
        can.
        """
        if m.meets or not has_certificate(self.problem, self.workspace):
            return False
        plain = state.bound is None and self.rows_in_memory
        return m.gap == np.inf or (plain and not self._satisfied(m))

    def certified(self, m: Measured, state: State) -> Measured:
        """Return a measurement that its method left without a tight certificate, with one.

        It is the tight one, or as much as there is time for.
        """
        limited, found = state.deadline != NEVER, list[Certificate]()
        for strength in ("scaled", "corrected") if limited else ("corrected",):
            if self._affords(strength, state.deadline):
                found.append(self._certify(state, strength, m))
        # a first one that was made in case there is no time for the tight one is left out after it
        for c in found if state.deadline.passed() else found[-1:]:
            if c.gap is not None:
                self._learn(c.bound)
            m = dataclasses.replace(m, kkt_residual=c.kkt_residual)
        return self.judged(m, state)

    def scale(self, objective: float) -> float:
        """Return what a relative gap is relative to."""
        return gap_scale(self.problem, objective, self.bound, self.workspace)

    def _satisfied(self, m: Measured) -> bool:
        if m.gap is None or self.tol is None:
            return True
        return m.gap <= self.tol * (m.scale if self.relative else 1.0)


def as_returned(problem: Problem, point: Pair) -> tuple[Pair, bool]:
    """Return a pair in the type of the data, and whether its x2 is still the same numbers.

    Rounded numbers stay in the domain of h2. In a model x1 follows from the x2 that is returned.
    A zero has no sign.
    """
    x1, x2 = point.x1.astype(problem.dtype), point.x2.astype(problem.dtype)
    # one unit is enough for a box, a ball asks for one per rounded product
    for _ in range(0 if problem.h2 is None or problem.dtype == np.float64 else 4):
        exactly = x2.astype(np.float64)
        if np.isfinite(problem.h2.value(exactly)):  # type: ignore[union-attr]
            break
        outside = exactly - problem.inside(Pair(problem.zeros().x1, exactly)).x2
        inward = np.nextafter(x2, -np.copysign(np.inf, outside), dtype=x2.dtype)
        x2 = np.where(outside == 0, x2, inward)
    x1, x2 = x1 + problem.dtype.type(0), x2 + problem.dtype.type(0)
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


def penalty_of(
    problem: Problem, x: Pair, workspace: Workspace | None = None
) -> tuple[float, float]:
    """Return the penalties of a returned pair, and how far it is outside of their domains.

    Of a model they are those of x2 and of what follows from it in float64; x1 is rounded to the
    type of the data. Where rounding of x2 has taken x1 out of a domain, the penalties are those
    of the nearest point inside, and the second number is what is missing in the constraint there.
    """
    if not problem.is_model or not problem.constrained:
        return problem.penalty(x), 0.0
    if problem.dtype == np.float64:  # x1 of its own, as methods have, says nothing about x2
        own = is_rounding(problem, x, problem.constraint(x), workspace=workspace)
        return problem.penalty(x if own else problem.feasible(x)), 0.0
    follows = problem.feasible(wide(x))
    value = problem.penalty(follows)
    if np.isfinite(value):
        return value, 0.0
    inside = problem.inside(follows)
    missing = problem.constraint(inside)
    if not is_rounding(problem, follows, missing, problem.dtype, workspace):
        return value, 0.0
    return problem.penalty(inside), float(np.linalg.norm(missing))


def why_no_bound(problem: Problem, workspace: Workspace) -> str:
    """Say why no lower bound was proved, and name nearly dependent columns where it is they."""
    columns = nearly_dependent(problem, workspace)
    if columns:
        last = problem.shape2[0] - 1 if problem.intercept else None
        names = ["the intercept" if j == last else f"column {j}" for j in columns]
        what = "equal" if len(columns) == 2 and columns[-1] != last else "linearly dependent"
        return (
            f"no bound can be certified: {', '.join(names[:-1])} and {names[-1]}, which no "
            f"penalty holds apart, are nearly {what}; penalize them or leave one out"
        )
    return "no bound on the optimum of this problem was found; penalize all coefficients"


def nearly_dependent(problem: Problem, workspace: Workspace) -> list[int]:
    """Return columns with a combination that no penalty holds and rows hardly see.

    It is empty where there is none, or where looking for it would cost more than a few passes.
    """
    f2 = loss_of_rows(problem.f2)
    if f2 is None or not problem.is_model or not has_one_block(problem):
        return []
    form = one_block(problem, workspace)
    norms = np.sqrt(column_energies(f2))  # root mean squares, the intercept's last
    for index, basis in form.null_directions():
        if basis.shape[1] > 200 or basis.shape[1] * f2.n_terms > 2e7:
            continue
        move = FreeSpace(f2, [(index, basis)]).moves[0]
        N = np.asarray(basis.toarray()) * norms[: basis.shape[0], None]
        size = np.linalg.norm(N, axis=0)
        keep = size > 0
        if not keep.any():
            continue
        seen = move[:, keep] / size[keep]
        values, vectors = np.linalg.eigh(seen.T @ seen / f2.n_terms)
        if values[0] <= 1e-12:
            share = np.abs(N[:, keep] @ (vectors[:, 0] / size[keep]))
            return [int(j) for j in np.flatnonzero(share > 1e-3 * share.max())][:10]
    return []
