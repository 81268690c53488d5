"""One inexact proximal Newton loop for ``min F(w) = f(w) + h(S w - o)``.

J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite
functions", SIAM J. Optim. 24 (2014); R. H. Byrd, J. Nocedal, F. Oztoprak, "An inexact successive
quadratic approximation method for L-1 regularized optimization", Math. Program. 157 (2016);
Hessians from samples of rows: M. A. Erdogdu, A. Montanari, "Convergence rates of sub-sampled
Newton methods", NeurIPS 2015.

A method is a `Plan`: a choice of curvature, subproblem, dual rule and start. Starts on a part of
the rows and bounds of rows from a source are the same loop on a smaller problem (`solve`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..base.protocols import Array
from ..certificates import DualPoint
from ..problem import Pair
from .composite import Composite
from .interfaces import Begin, Candidate, NewtonState, Plan, Run, Verdict
from .line_search import armijo


def start(
    p: Composite,
    plan: Plan,
    run: Run,
    x: Pair | None = None,
    mu: Array | None = None,
    known: NewtonState | None = None,
) -> NewtonState:
    """Return the state before the first step, at a given point or where some of the rows lead.

    ``known`` is where another run on the same rows has ended: its sizes are good first ones.
    """
    zero = p.problem.zeros()
    begin = Begin(zero if x is None else x, np.zeros((p.S.shape[0], *zero.x2.shape[1:])))
    if mu is not None:
        begin = replace(begin, mu=mu)

    # 0. Steps on a part of the rows cost a fraction of a read each: begin where they lead.
    elif x is None and plan.begin is not None:
        begin = plan.begin(p, run) or begin

    point, penalty = p.inside(begin.x.x2)
    warm = begin.warm or plan.subproblem.first_warm()
    trust, n_passes = plan.curvature.first_trust(p), p.f.opening_passes + begin.n_passes
    if known is not None and type(known.warm) is type(warm):  # rho in the same units
        warm = replace(warm, rho=known.warm.rho)
        trust = replace(trust, sample_size=known.trust.sample_size)
    if known is not None and np.array_equal(known.at.x, point.x2):
        at = known.at
    else:
        at, n_passes = p.f.evaluate_exactly(point.x2), n_passes + 1.0
        if not np.array_equal(at.x, point.x2):  # coefficients without a penalty have been fitted
            point, penalty = p.inside(at.x)
    return NewtonState(
        x=point,
        mu=begin.mu,
        warm=warm,
        trust=trust,
        at=at,
        objective=at.value + penalty,
        n_passes=n_passes,
        n_gradients=n_passes,
        setup_counted=begin.setup_counted,
    )


def step(p: Composite, s: NewtonState, plan: Plan, run: Run) -> Verdict:
    """Make one step."""
    # 1. Curvature: a model H of the second derivative of f at w.
    H = plan.curvature.model(p, s, run)

    # 2. Subproblem: minimize <g, v - w> + 1/2 <v - w, H (v - w)> + h(S v - o) over v, inexactly.
    c = plan.subproblem.minimize(p, s, H, run)
    while not c.is_finite and s.trust.damping < 1:
        # Rows that are all flat (saturated, or on straight pieces of their losses) leave the model
        # without a minimizer. With the whole curvature bound it is above f and has one.
        s.trust, s.warm = s.trust.more_damping(), plan.subproblem.first_warm()
        H = H.damped(s.trust.damping)
        c = plan.subproblem.minimize(p, s, H, run)
    if not c.is_finite:
        c = Candidate(s.at.x, s.mu, 0.0)

    # 3. Dual point of the model, where the predicted decrease says that the target is in reach.
    #    It comes before the step because it solves the model to more digits: a better candidate.
    if run.target is not None:
        c, point = plan.dual.of_model(p, s, H, c, run)
        s.dual = better(s.dual, point)

    # 4. Line search: Armijo's rule on F along w + t (v - w).
    line = p.f.along(s.at, p.inside(c.w)[0].x2)
    t, x, objective = armijo(line, p.inside, s.objective, c.predicted)

    # 5. Move.
    old, s.decrease = s.at, s.objective - objective
    if t > 0:
        s.x, s.objective = x, objective
        s.at = line.evaluation(t, x.x2)
        s.mu = c.mu if t == 1 else s.mu + t * (c.mu - s.mu)
        s.is_structured = c.is_structured and t == 1
    s.n_passes += line.n_passes
    s.n_gradients += 1.0 if t in (0.0, 1.0) else 2.0
    plan.curvature.observe(p, s, old)

    # 6. Dual point of the new iterate.
    if run.target is not None:
        s.dual = better(s.dual, plan.dual.of_point(p, s, c, run))

    # 7. Damping and sample size from the ratio of actual and predicted decrease.
    gap, move = s.objective - s.lower_bound, float(np.abs(c.w - old.x).max(initial=0.0))
    s.trust = s.trust.after(t, s.decrease, c.predicted, p.f.n_terms, gap, move)
    s.predicted, s.n_steps = c.predicted, s.n_steps + 1

    # 8. Verdict.
    # 2e-15: rounding of a mean over rows. Far from the bound such a model is only a bad one.
    near = s.objective - s.lower_bound <= 1e-9 * abs(s.objective)
    if H.fraction == 1 and near and c.predicted <= 2e-15 * abs(s.objective):
        return Verdict.AT_ROUNDING
    failed = s.trust.n_rejected >= 4 or s.trust.n_idle >= 10
    return Verdict.GIVE_UP if failed else Verdict.CONTINUE


def solve(
    p: Composite, s: NewtonState, plan: Plan, run: Run, max_steps: int, resolution: float = 0.0
) -> NewtonState:
    """Make steps until the target gap, or until a step predicts a relative decrease of less.

    ``resolution`` is that decrease: what a part of the rows can tell of the solution.
    """
    while s.n_steps < max_steps and not run.deadline.passed():
        verdict = step(p, s, plan, run)
        gap = s.objective - s.lower_bound
        if run.target is not None and gap <= run.target * p.gap_scale(s.objective, s.lower_bound):
            break
        if verdict is not Verdict.CONTINUE or s.predicted <= resolution * abs(s.objective):
            break
    return s


def better(known: DualPoint | None, new: DualPoint | None) -> DualPoint | None:
    """Return the dual point with the larger bound."""
    if new is None or not np.isfinite(new.bound):
        return known
    return new if known is None or new.bound > known.bound else known
