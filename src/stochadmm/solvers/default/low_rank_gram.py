"""Squared losses with a nuclear norm and other norms, through the Gram matrix.

    min over W   mean squared loss + a |W|_* + sum_k h_k(W)

The rows are read once for their Gram matrix (one per pattern of missing targets). Free rows of W,
such as an intercept, are eliminated. Consensus Douglas-Rachford (``stochadmm.low_rank``) then
works in the eigenbasis without data; its multipliers are dual feasible at every iteration, so that
a lower bound costs one product. The best prox point seen is returned: exactly of low rank, or
exactly sparse.

References
----------
Eckstein and Bertsekas 1992, On the Douglas-Rachford splitting method, doi:10.1007/BF01581204.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...base.capabilities import Has
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...low_rank import (
    EigenQuadratic,
    Form,
    Moments,
    NuclearProx,
    QuadraticBound,
    Splitting,
    compiled_steps,
    moments,
    nuclear_norm,
    read,
    reduced,
)
from ...low_rank import why_not as why_not_low_rank
from ...problem import Pair, Problem, objective_at_zero
from ...risk import Evaluation, FiniteSum, loss_of_rows
from ...risk.finite_sum import as_finite_sum
from ...risk.moments import in_free_bases, patterns
from .._base import Solver, State, own_state, register


@dataclass
class LowRankState(State):
    """State of the splitting between two epochs."""

    moments: Moments = field(kw_only=True, repr=False)
    quadratic: EigenQuadratic = field(kw_only=True, repr=False)
    splitting: Splitting = field(kw_only=True, repr=False)
    best: Array = field(kw_only=True, repr=False)
    """Penalized rows at the smallest objective,"""
    which: int = 0
    """and the penalty whose prox they come from."""
    near: int | None = None
    """Steps after which the residual of the splitting was small."""
    upper: float = np.inf
    """Smallest objective seen, by the Gram matrix."""
    lower: float = -np.inf
    """Largest bound seen, rounding not counted."""
    certificate: tuple[Array, ...] | None = field(default=None, repr=False)
    """The subgradients that it comes from."""
    floor: float = 0.0
    """Least scale of a relative gap, a share of the objective at zero."""


@register
@dataclass(frozen=True)
class LowRankGram(Solver[LowRankState]):
    """Solve a squared loss with a nuclear norm, alone or with other norms, from its Gram matrix.

    Parameters
    ----------
    inner : int, default=500
        Iterations of an epoch: a read of the rows afterwards is then a small share.
    rest : float, default=1e-14
        Relative residual of the splitting at which its points no longer move.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> Y = X @ np.outer([1.0, -1, 1, 0, 0, 0], [1.0, 2, 3])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, Y, on_structure=sa.Nuclear(0.1), on_coefficients=sa.L1(0.1)
    ... )
    >>> result = sa.minimize(problem, "low-rank-gram", stop=sa.Gap(1e-6))
    >>> result.status.name, bool(result.relative_gap <= 1e-6)
    ('CONVERGED', True)
    """

    name: ClassVar[str] = "low-rank-gram"
    needs_no_rows: ClassVar[bool] = True
    has_kernel: ClassVar[bool] = False
    inner: int = 500
    rest: float = 1e-14

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return in words why this method cannot serve a problem, None if it can."""
        f2 = loss_of_rows(problem.f2, Has.SQUARE)
        if f2 is None:
            return "the loss is not squared"
        reason = why_not_low_rank(problem, workspace)
        if reason is not None:
            return reason
        if len(patterns(f2)) * f2.n_columns**2 > 1 << 25:  # of all patterns together
            return f"Gram matrices of {f2.n_columns} columns are too large"
        return None

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> LowRankState:
        """Read the moments of the rows and return the state before the first epoch."""
        x = p.feasible(x)
        f2, form = as_finite_sum(p.f2), workspace.once(read, p)
        made_of = f2, form.rows.tobytes(), form.free.tobytes()
        new = not workspace.rows.holds(reduced_moments, *made_of)
        known, quadratic, passes = workspace.rows.once(reduced_moments, *made_of)
        at = known.shifted(x.x2.astype(np.float64))[form.rows]
        splitting = self._splitting(form, quadratic)
        splitting.begin(at, form.subgradients(lam))
        state = LowRankState(
            x,
            x,
            lam,
            1.0,
            bound=-np.inf,
            workspace=workspace,
            moments=known,
            quadratic=quadratic,
            splitting=splitting,
            best=at,
            upper=quadratic.value(at) + form.penalty(at),
            floor=1e-3 * abs(objective_at_zero(p, workspace)),
            n_passes=new * passes,
        )
        state.cache = self._first_pass(f2, state, x.x2)
        bounds = QuadraticBound(quadratic, form)
        self._look(state, form, bounds, 0.0)
        self._prove(state, bounds, 0.0)
        return state

    def _first_pass(self, f2: FiniteSum, state: LowRankState, x2: Array) -> Evaluation:
        """Return the pass at the start; at zero the moments know its gradient."""
        known = state.moments
        if x2.any() or known.level.any() or known.origin.any():
            state.n_passes += 1
            state.n_gradients += 1
            return f2.evaluate(x2)
        z = f2.predict(x2)
        gradient = (-known.linear).astype(f2.dtype)
        return Evaluation(x2.copy(), f2.value_at(z), gradient, z, f2.derivative(z))

    def _splitting(self, form: Form, quadratic: EigenQuadratic) -> Splitting:
        low_rank = NuclearProx(float(form.nuclear.alpha))
        proxes = [low_rank, *(penalty.prox for penalty in form.others)]
        rho = max(quadratic.mean_eigenvalue, np.finfo(float).tiny)
        return Splitting(quadratic, quadratic.linear, proxes, rho)

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Iterate until the target is certified or the epoch is over; read the rows once."""
        s, f2 = own_state(state, LowRankState), as_finite_sum(problem.f2)
        form = s.workspace.once(read, problem)
        split = s.splitting = s.splitting.copy()
        bounds = QuadraticBound(s.quadratic, form)
        target = self._target(problem, s)
        compiled = compiled_steps(form, s.quadratic)
        # a look at objective and bound costs two iterations, or fifty compiled ones
        few, every = 5, 5 if compiled is None else 20
        mark, waited = s.upper - s.lower, 0
        for k in range(few, self.inner + 1, few):
            split.advance(few, compiled)
            s.settled = self._at_rest(s)
            if not s.settled and not s.deadline.passed():
                # between two looks, or objective and bound have met but zeros and rank have not
                if k % every or self._only_rounding(s):
                    continue
            if self._look(s, form, bounds, target) or s.settled:
                break
            waited += every
            if s.upper - s.lower < 0.9 * mark:
                mark, waited = s.upper - s.lower, 0
            # a hundred iterations without a smaller gap: rounding is what is left
            if waited >= 100 or s.deadline.passed():
                break
        else:
            self._look(s, form, bounds, target)
        self._publish(problem, f2, s, form, bounds)

    def _target(self, problem: Problem, s: LowRankState) -> float:
        """Return the relative gap to reach; float32 answers are rounded afterwards."""
        if s.target is None:
            return 0.0
        share = 0.98 if problem.dtype == np.float64 else 0.5  # the rows are evaluated again
        return share * s.target

    def _look(self, s: LowRankState, form: Form, bounds: QuadraticBound, target: float) -> bool:
        """Take the objective at the prox points and the bound; say whether the gap is closed."""
        split, E = s.splitting, s.quadratic
        given = split.subgradients
        found = bounds.estimate(_projected(form, given), s.upper)
        if found > s.lower:
            s.lower, s.certificate = found, tuple(given)
        for k, Z in enumerate(split.Z):
            smooth = E.value(Z) + sum(float(h.value(Z)) for h in form.others)
            # the nuclear norm is at least <u, Z> for its subgradient, with equality at the first Z
            value = smooth + float(np.vdot(given[0], Z))
            slack = 1.4e-14 * abs(s.upper)  # 64 units of rounding: the later is taken
            if k > 0 and value <= s.upper + slack and value - s.lower <= 2 * target * abs(value):
                value = smooth + float(form.nuclear.alpha) * nuclear_norm(Z)
            elif k > 0:
                continue
            if value < s.upper:
                s.upper, s.best, s.which = value, Z, k
            elif k == s.which and value <= s.upper + slack:
                s.best = Z  # as good, and further along to exact zeros and rank
        return self._closed(s, target) and self._prove(s, bounds, target)

    def _at_rest(self, s: LowRankState) -> bool:
        """Say whether the splitting has come to rest, fast enough to be sure of it."""
        apart, steps = s.splitting.apart(), s.splitting.n_steps
        if apart > 1e-10:
            s.near = None
        elif s.near is None:
            s.near = steps
        # from there in 200 steps: what is left to go is then a few times as much, else they creep
        return s.near is not None and steps - s.near <= 200 and apart <= self.rest

    def _only_rounding(self, s: LowRankState) -> bool:
        return s.upper - s.lower <= 4e-16 * abs(s.upper)

    def _closed(self, s: LowRankState, target: float) -> bool:
        return s.upper - s.lower <= target * max(abs(s.upper), s.floor)

    def _prove(self, s: LowRankState, bounds: QuadraticBound, target: float) -> bool:
        """Replace the best bound by its proved value; say whether the gap is still closed."""
        if s.certificate is not None:
            proved = bounds.proved(s.certificate, s.upper)
            s.bound = proved if s.bound is None else max(s.bound, proved)
        return s.bound is not None and s.upper - s.bound <= target * max(abs(s.upper), s.floor)

    def _publish(
        self,
        problem: Problem,
        f2: FiniteSum,
        s: LowRankState,
        form: Form,
        bounds: QuadraticBound,
    ) -> None:
        """Write the best point, its multiplier and the bound where the driver finds them."""
        split, best = s.splitting, s.best
        whole = np.zeros(problem.shape2)
        whole[form.rows], whole[form.free] = best, s.quadratic.free(best)
        x2 = s.moments.restored(whole).astype(problem.dtype)
        s.x = s.output = problem.feasible(Pair(problem.zeros().x1, x2))
        s.dual = form.multiplier(problem.shape_dual, split.subgradients).astype(problem.dtype)
        s.beta = split.rho
        self._prove(s, bounds, 0.0)
        s.cache = f2.evaluate(x2)
        s.n_passes += 1
        s.n_gradients += 1
        s.n_epochs += 1
        s.notes["iterations"] = split.n_steps


def reduced_moments(
    f2: FiniteSum, rows: bytes, free: bytes
) -> tuple[Moments, EigenQuadratic, float]:
    """Return the moments of all rows, the quadratic that is left without the free ones, and reads.

    Indices are bytes, so that a workspace knows them by value.
    """
    made = moments(f2)
    own, others = np.frombuffer(rows, dtype=np.intp), np.frombuffer(free, dtype=np.intp)
    turned = in_free_bases(f2, made, others) if others.size else None
    if turned is None:
        return made, reduced(made, own, others), 1.0
    return made, reduced(turned[0], own, others, turned[1]), 2.0


def _projected(form: Form, given: Sequence[Array]) -> list[Any]:
    """Return subgradients whose conjugates are finite in spite of rounding; the first as it is."""
    rest = [h.project_dual(u) for h, u in zip(form.others, given[1:], strict=True)]
    return [given[0], *rest]
