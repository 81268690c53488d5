"""From derivatives and a multiplier to a lower bound.

The derivatives are moved into the dual set by least squares and one common factor, and the bound
is D(u, mu) less what rounding may cost (`charge`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock
from ..risk import FiniteSum
from ..risk.dual import mean_conjugate
from .charge import charge, least_value
from .options import OPTIONS, CertificateOptions
from .rounding import UNIT, conjugate_rounding, per_row, residual, rounding, unsettled

OPEN = 100.0
"""Times rounding up to which the dual equation counts as closed: what is more is no dual point."""


@dataclass(frozen=True)
class DualPoint:
    """A lower bound and where it comes from."""

    bound: float
    mu: Array
    derivatives: Array
    factor: float = 1.0
    """What the point was shrunk by to become feasible."""


def dual_value(
    f2: FiniteSum, form: OneBlock, u: Array, gradient: Array, mu: Array, error: Array
) -> float:
    """Return D(u, mu), minus infinity where ``X'(q u)/n + S' mu = 0`` is open beyond rounding.

    ``error`` is the rounding of that equation. Least squares leaves in each entry of mu some
    rounding of the largest one, which is all there is at a column of zeros. How much may be left
    is no part of the proof: `charge` pays for what is.
    """
    left = gradient + form.St @ mu
    # outputs are cleared together: what rounds in one shows in all
    scale = error if error.ndim == 1 else error.max(axis=1, keepdims=True)
    solved = UNIT * float(np.abs(mu).max(initial=0.0)) * abs(form.St).sum(axis=1)
    scale = scale + (solved if error.ndim == 1 else solved[:, None])
    if not (np.abs(left) <= OPEN * scale).all():
        return -np.inf
    total = mean_conjugate(f2, u) + form.conjugate(mu) + conjugate_rounding(f2, u)
    return -total if np.isfinite(total) else -np.inf


def nearby(factor: float) -> tuple[float, ...]:
    """Return a factor and two below: scaled, a point on the edge may fall outside by rounding."""
    return factor, factor * (1.0 - 1e-15), factor * (1.0 - 1e-14)


def lower_bound(
    f2: FiniteSum,
    form: OneBlock,
    z: Array | None,
    u: Array | None,
    gradient: Array,
    mu: Array,
    objective: float,
    factor: float = 1.0,
    value: float | None = None,
    *,
    size: float = 0.0,
    enough: float = 0.0,
    sharp: bool = True,
    workspace: Workspace,
) -> DualPoint:
    """Return D(t u, t mu) less what is left of ``X'(q u)/n + S' mu = 0`` costs at most.

    Every bound on an optimal value is made here, but for those of the compiled small routes and of
    a quadratic with a nuclear norm, which have their own form of the same. It is minus infinity
    where what is left is more than a matter of rounding, or its cost is not known.

    Parameters
    ----------
    z, u, gradient, mu : array
        Derivatives u of the losses near predictions z, ``X'(q u)/n``, and a multiplier. Without z
        and u, where these are too many to be kept, ``value`` and ``size`` are needed, and a bound
        is found only where penalties hold all coefficients.
    objective : float
        F at some feasible point.
    factor : float
        The t that brings both into the dual set.
    value : float, optional
        D(t u, t mu) where it is known.
    size : float
        Root mean square of derivatives that cancelled on the way to u.
    enough : float
        A cost that is not looked at more closely.
    sharp : bool
        Whether the equation may be added up again in twice the precision.
    """
    error = rounding(f2, form, u, mu, size, workspace=workspace)
    for t in nearby(factor) if value is None else (factor,):
        v, eta = u if u is None or t == 1.0 else t * u, t * mu
        bound = (
            dual_value(f2, form, cast(Array, v), t * gradient, eta, error)
            if value is None
            else value
        )
        if np.isfinite(bound):
            worth = max(enough, 0.01 * max(objective - bound, 0.0))
            left = t * gradient + form.St @ eta
            own = error + unsettled(form, eta)
            # Ordinary rounding mostly costs next to nothing. Of many free directions it costs a
            # proof that a pass in twice the precision makes superfluous: there that comes first.
            rough = not (sharp and form.has_many_free)
            known = (z, v) if rough else (None, None)
            # what more digits improve is not improved by another proof before them
            first = np.inf if sharp and v is not None else worth
            cost = charge(f2, form, *known, eta, left, own, objective, first, workspace=workspace)
            if sharp and cost > worth and v is not None:
                left, own = residual(f2, form, v, eta, error) or (left, error)
                own = own + unsettled(form, eta)
                cost = charge(
                    f2, form, z, v, eta, left, own, objective, worth, workspace=workspace
                )
            bound -= cost
        if np.isfinite(bound):
            break
    return DualPoint(bound, eta, cast(Array, v), t)


def feasible_multiplier(
    form: OneBlock,
    gradient: Array,
    mu: Array,
    tiny: Array | float,
    rounds: int = OPTIONS.rounds,
    *,
    most_times: int = OPTIONS.most_times,
    deadline: Deadline = NEVER,
) -> tuple[float, Array]:
    """Return (t, mu) with ``S' mu = -gradient`` and ``t mu`` in the dual set, t as large as found.

    Reflections at the equation and at the dual set take turns (Douglas and Rachford), which gets
    into narrow corners where projections alone creep. Where a solution of the equation and its
    projection on the dual set differ by no more than ``tiny``, the projection is taken: no factor
    brings a cone's edge back inside. As long as ``rounds`` of them bring t ten times nearer to
    one, they go on, at most ``most_times`` as long.
    """
    best_scale, best, mark = -1.0, mu, -1.0
    governing = form.project(mu)
    for k in range(1, most_times * rounds + 1):
        mu = governing
        for _ in range(2):  # the second time removes what rounding left
            mu = mu + form.absorb(-gradient - form.St @ mu, deadline=deadline)
        inside = form.project(mu)
        near = np.where(np.abs(inside - mu) <= tiny, inside, mu)
        scale = form.scale(near)
        if scale > best_scale:
            best_scale, best = scale, near
        if scale == 1.0 or deadline.passed():
            break
        if k % rounds == 0 and (k == 1 or 1.0 - best_scale > 0.1 * (1.0 - mark)):
            break
        if k == 1 or k % rounds == 0:
            mark = best_scale
        governing = governing + form.project(2 * mu - governing) - mu
    return best_scale, best


def scaled_point(
    f2: FiniteSum,
    form: OneBlock,
    z: Array,
    u: Array,
    gradient: Array,
    start: Array,
    objective: float,
    rounds: int,
    size: float = 0.0,
    *,
    options: CertificateOptions = OPTIONS,
    deadline: Deadline = NEVER,
    workspace: Workspace | None = None,
) -> DualPoint:
    """Return the bound of derivatives ``u`` whose gradient vanishes along the free directions.

    ``z`` are the predictions that the derivatives belong to, ``objective`` is F at some feasible
    point and ``size`` the root mean square of derivatives that cancelled on the way to u.
    """
    workspace = workspace or Workspace()
    error = rounding(f2, form, u, start, size, workspace=workspace)
    # eight units of rounding beside the dual set are moved onto it
    tiny = 8.0 * per_row(form, error)
    t, mu = feasible_multiplier(
        form, gradient, start, tiny, rounds, most_times=options.most_times, deadline=deadline
    )
    found = lower_bound(
        f2,
        form,
        z,
        u,
        gradient,
        mu,
        objective,
        t,
        size=size,
        enough=options.charge * abs(objective),
        workspace=workspace,
    )
    least = least_value(f2, form, workspace=workspace)
    if not found.bound >= least:  # a level set without end leaves nothing else to say
        return DualPoint(least, np.zeros_like(mu), np.zeros_like(u), 0.0)
    return found
