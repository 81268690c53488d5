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
from typing import Any

import numpy as np

from .._newton import certificate_from_sample
from ..base.capabilities import fact
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import Certificate, certify, has_certificate
from ..certificates.certify import setup_seconds
from ..certificates.relative import gap_scale
from ..certificates.repair import wide
from ..problem import Pair, Problem, objective_at_zero
from ..risk import Evaluation
from ..solvers import State
from ..streaming import loss_of_source
from .limits import Habits
from .measured import Measured, Memory, as_returned, infeasibility, penalty_of, value_of
from .prediction_range import beyond_range, why_not_exact
from .result import Status
from .stalled import why_no_bound
from .stopping import Rule


def final_status(status: Status, accepted: bool) -> Status:
    """Return how a run ended, by whether the rule accepts the arrays that are returned."""
    if status is Status.INTERRUPTED:
        return status
    if accepted:
        return Status.CONVERGED
    # no step helps: the rule held before the arrays were rounded on their way to the user
    return Status.STALLED if status is Status.CONVERGED else status


class Monitor:
    """Measures points of one problem and remembers the best lower bound."""

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        memory: Memory | None = None,
        workspace: Workspace | None = None,
        habits: Habits | None = None,
    ) -> None:
        self.problem, self.rule, self.habits = problem, rule, habits or Habits()
        self.workspace = workspace or Workspace()
        wanted = rule.wanted_gap()
        self.tol = None if wanted is None else wanted.tol
        self.relative = wanted is None or wanted.relative
        self.bound, self.previous, self.patience = Memory() if memory is None else memory
        self.took: dict[str, float] = {}
        """Seconds of the last certificate of each strength."""

    @property
    def certifies(self) -> bool:
        """Whether certificates can be made of any point, beside those of the method."""
        return has_certificate(self.problem, self.workspace)

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
            measured = self._own(state, state.cache)
            # no step left to certify itself by
            helpless = measured.objective >= self.previous and not state.own_bound
        elif self._affords("scaled", state.deadline):
            certificate = self._certify(state, "scaled")
            measured = self._measured(state, certificate)
            helpless = certificate.kind != "tangent"  # which is as tight as it can be
        else:
            measured, helpless = self._uncertified(state), False
        if helpless and self._worth_more(measured) and self._affords("corrected", state.deadline):
            tight = self._certify(state, "corrected")
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
        if np.isfinite(state.bound):  # the method has begun with one and will go on to find more
            return None
        if not self._held_at_zero(state, state.cache):
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

    def _held_at_zero(self, state: State, cache: Evaluation) -> bool:
        """Say whether the penalty is zero and along minus the gradient not below what f2 gains."""
        if self.problem.penalty(state.output) != 0:
            return False
        ahead = -cache.gradient
        if self.problem.intercept:
            ahead[-1] = 0
        price = self.problem.penalty(self.problem.feasible(Pair(self.problem.zeros().x1, ahead)))
        return bool(np.vdot(ahead, ahead) <= price)

    def _certify(self, state: State, strength: str, of: Measured | None = None) -> Certificate:
        """Certify the output of a state, or a point that was measured before."""
        x, dual, cache = state.output, state.dual, state.cache
        if of is not None:
            x, dual, cache = of.point, of.dual, of.cache
        began, workspace, target = time.perf_counter(), self.workspace, self.target
        if loss_of_source(self.problem.f2) is not None and self.problem.is_model and target:
            found = certificate_from_sample(
                self.problem, x, dual, target, workspace, state.deadline
            )
        else:
            found = certify(
                self.problem,
                x,
                dual,
                cache,
                strength=strength,
                options=self.habits.certificate.towards(target, self._share(state)),
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
        if loss_of_source(self.problem.f2) is not None:
            state.n_passes += reads

    def _affords(self, strength: str, deadline: Deadline) -> bool:
        """Say whether a certificate is expected to end in the time that is left."""
        left = deadline.seconds_left()
        if left == np.inf:
            return True
        before = self.took.get("scaled", 0.0) * (1 if strength == "scaled" else self.habits.tight)
        expected = self.took.get(strength, before)
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

    def _own(self, state: State, cache: Evaluation) -> Measured:
        """Measure a feasible output whose method has made the pass and found a bound itself."""
        exact = self.problem.dtype == np.float64 or cache.has_exact_value_at(state.output.x2)
        return self.appraise(state, state.output, value=cache.value if exact else None)

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
            value = value_of(problem, point.x2)
            self.count(state, 1.0)
        multiplier = state.dual if dual is None else dual.astype(problem.dtype)
        residual, relative = infeasibility(problem, point)
        same = exact and np.array_equal(point.x1, state.output.x1)
        same = same and np.array_equal(point.x2, state.output.x2)
        strayed = relative if same else infeasibility(problem, state.output)[1]
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
            self.bound,
            kkt,
            self.scale(objective),
            _longest(multiplier, state.dual),
            known.get("cache", state.cache),
        )
        return self.judged(found, state)

    def judged(self, m: Measured, state: State) -> Measured:
        """Return a measurement with the best bound known by now and the rule's verdict."""
        if self.bound is not None and m.objective + m.charge < self._least(self.bound):
            self.bound = -np.inf  # a feasible point below it disproves a bound
        bound, scale = self.bound, self.scale(m.objective)
        if (m.bound, m.scale) != (bound, scale):
            m = dataclasses.replace(m, bound=bound, scale=scale)
        if m.beyond is None and self.rule.accepts(m.returned(state)):
            beyond = beyond_range(self.problem.f2, m.point.x2)
            if beyond > -np.inf:  # the loss has a range, and predictions were computed
                self.count(state, 1.0)
            m = dataclasses.replace(m, beyond=beyond)
        meets = bool(self.rule(m.returned(state))) and self._feasible_enough(m) and m.in_range
        return m if m.meets == meets else dataclasses.replace(m, meets=meets)

    def accepts(self, m: Measured, state: State) -> bool:
        """Say whether these arrays are what was asked for."""
        return self.rule.accepts(m.returned(state)) and self._feasible_enough(m) and m.in_range

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
        text = self.rule.describe(m.returned(state))
        if not np.isfinite(m.objective):
            text += "; no point inside of the domains of all penalties was found"
        return text if self.problem.is_model else f"{text}; feasibility {m.feasibility:.2e}"

    def _least(self, bound: float) -> float:
        """Return the lowest objective that rounding explains beside a bound."""
        return bound - self.habits.disproved * (1.0 + abs(bound))

    def _feasible_enough(self, m: Measured) -> bool:
        """Say whether a pair is near the constraint; what it may gain by that is in its gap."""
        if not np.isfinite(m.objective):
            return False
        return self.tol is None or self.problem.is_model or bool(m.feasibility <= self.tol)

    def could_know_more(self, m: Measured, state: State) -> bool:
        """Say whether the tight certificate may show that a last point is better than known.

        A run may end before its method asked for a certificate, or while steps were too long for
        the tight one. Methods with bounds of their own, and sources, have looked as far as they
        can.
        """
        if not self.certifies or m.meets:
            return False
        plain = state.bound is None and loss_of_source(self.problem.f2) is None
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

    def _share(self, state: State) -> float:
        """Return what a relative gap is relative to, as a share of the objective."""
        if state.cache is None:
            return 1.0
        now = state.cache.value + self.problem.penalty(state.output)
        return self.scale(now) / max(abs(now), 1e-300) if np.isfinite(now) else 1.0

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


def _longest(*multipliers: Array) -> float:
    """Return the largest norm of some multipliers, which are often one and the same."""
    different = {id(mu): mu for mu in multipliers}
    return max(float(np.linalg.norm(mu)) for mu in different.values())
