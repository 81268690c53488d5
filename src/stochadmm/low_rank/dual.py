"""Lower bounds of a curved loss: gradients split between the norms, corrected to second order.

Dual numbers u of the predictions with X_f'(q u) = 0 and -X_p'(q u)/n = U + V, U and V in the
dual balls of the norms, give F >= -mean conjugate(u). In rising cost:

shrunk      u = t derivatives, U + V = t (-gradient): V as much of it as its ball holds, U the
rest, t
            by bisection; for points far from the solution
split       the same with U and V by alternating projections at t = 1, then t what is left to scale
corrected   u moved so that the gradient becomes -(u_1 + u_2) of the last model, by conjugate
            gradients on the Hessian, cut to stay in the conjugate's domain; then split
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import CertificateOptions, lower_bound
from ..forms.one_block import OneBlock, one_block
from ..problem import Problem
from .curved import CurvedLoss, Hessian, Point
from .form import Form
from .metric import Metric
from .svt import SingularValueThreshold, spectral_norm


@dataclass(frozen=True)
class Split:
    """``scale * target = scale * (first + rest)`` with both parts in their dual balls."""

    scale: float
    first: Array


def split(
    form: Form, target: Array, first: Array, rounds: int, deadline: Deadline = NEVER
) -> Split:
    """Divide ``target`` between the norms; the largest scale found (accelerated projections)."""
    alpha = float(form.nuclear.alpha)
    if not form.others:
        return Split(_nuclear_scale(target, alpha), target)
    rows = form.beyond(target)  # the others are held by the other norm alone
    if not rows.size:
        return Split(1.0, np.zeros_like(target))
    other: Any = form.others[0].restricted(rows)
    threshold = SingularValueThreshold()
    pull, known = target[rows], first[rows]
    scale, best = min(_nuclear_scale(known, alpha), float(other.dual_scale(pull - known))), known
    ahead, momentum = known, 1.0
    for _ in range(rounds):
        if scale == 1.0 or deadline.passed():
            break
        rest = pull - np.asarray(other.project_dual(pull - ahead))
        new = rest - threshold(rest, alpha)[0]
        fits = float(other.dual_scale(pull - new))
        if fits > scale:
            scale, best = fits, new
        following = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = new + (momentum - 1) / following * (new - known)
        known, momentum = new, following
    whole = np.zeros_like(target)
    whole[rows] = best
    return Split(_scale(form, target, whole), whole)  # the spectral norm is verified


def patient_split(
    form: Form,
    target: Array,
    first: Array,
    bound_of: Callable[[Split], float],
    upper: float,
    gap: float,
    deadline: Deadline = NEVER,
) -> tuple[Split, float]:
    """Divide ``target`` as long as that may bring a gap; return the bound of its scale too.

    More projections bring up to half of what is missing after six, and where the gap is then
    within ten targets, sixty are worth their time.
    """
    for rounds, worth in ((6, 100.0), (15, 10.0), (60, 1.0)):
        parts = split(form, target, first, rounds, deadline)
        found, first = bound_of(parts), parts.first
        if not gap < upper - found <= worth * gap or deadline.passed():
            break
    return parts, found


def shrunk(form: Form, target: Array, steps: int) -> Split:
    """Return a split at which the other norm holds what it can, and the nuclear norm the rest.

    Far from a solution, where no split of the whole target is near, its scale is larger than that
    of ``split``. Bisection; the spectral norm is verified at what is returned.
    """
    alpha = float(form.nuclear.alpha)
    if not form.others:
        return Split(_nuclear_scale(target, alpha), target)
    other, found = form.others[0], Split(0.0, np.zeros_like(target))
    low, high = 0.0, 1.0
    for t in [1.0, *[0.0] * steps]:
        t = t or ((low + high) / 2 if low else high / 4)
        first = t * target - np.asarray(other.project_dual(t * target))
        if _nuclear_scale(first, alpha) < 1.0:
            high = t
            continue
        low, found = t, Split(t, first / t)
        if t == 1.0:
            break
    return found


def _scale(form: Form, target: Array, first: Array) -> float:
    nuclear = _nuclear_scale(first, float(form.nuclear.alpha))
    return min(nuclear, *(float(h.dual_scale(target - first)) for h in form.others))


def _nuclear_scale(first: Array, alpha: float) -> float:
    largest = spectral_norm(first) * (1 + 1e-14 * sum(first.shape))
    return 1.0 if largest <= alpha else alpha / largest


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of one problem, from derivatives and a split of their gradient."""

    loss: CurvedLoss
    form: Form
    composite: OneBlock = field(repr=False)
    workspace: Workspace = field(repr=False)

    @classmethod
    def of(
        cls, problem: Problem, loss: CurvedLoss, form: Form, workspace: Workspace | None = None
    ) -> Bounds:
        """Return the bounds of a problem."""
        workspace = workspace or Workspace()
        return cls(loss, form, one_block(problem, workspace), workspace)

    def __call__(
        self,
        z: Array | None,
        u: Array | None,
        target: Array,
        parts: Split,
        upper: float,
        value: float | None = None,
    ) -> float:
        """Return the bound of derivatives u near predictions z, ``upper`` F at some point.

        ``target``, minus the gradient of the penalized rows, is what the split divides. Without u
        ``value`` is the mean conjugate at derivatives times the scale, less their sign, and no
        row is free.
        """
        loss, form, composite = self.loss, self.form, self.composite
        gradient = np.zeros(composite.shape)
        gradient[form.rows] = -target
        if u is not None and loss.free.size:
            gradient[form.free] = loss.columns.outer_gradient(loss.pull_back_free(u))
        return lower_bound(
            loss.f2,
            composite,
            z,
            u,
            gradient,
            form.stacked(composite, [parts.first, target - parts.first]),
            upper,
            parts.scale,
            value,
            # derivatives of losses of labels, the only ones that are not kept, are at most one
            size=1.0 if u is None else 0.0,
            enough=CertificateOptions().charge * abs(upper),
            sharp=False,  # a pass for every output; the norms hold what rounding leaves
            workspace=self.workspace,
        ).bound


def corrected(
    bounds: Bounds,
    metric: Metric,
    point: Point,
    start: Point | None,
    subgradients: list[Array],
    products: int,
    tol: float,
    needed: float,
    upper: float,
    deadline: Deadline = NEVER,
) -> tuple[float, Point]:
    """Return the bound of derivatives moved to where their gradient fits the subgradients.

    These are the derivatives at the minimizer of ``phi(W) + sum_k <u_k, W>``, by Newton's method
    from the point at hand, or from where the last search has ended. The last move is along the
    derivatives themselves, which leaves no error of second order where it stays in the domain of
    the conjugate. The search ends at a bound of ``needed``; where it has ended is returned too.
    """
    loss, form = bounds.loss, bounds.form
    total = sum(subgradients[1:], subgradients[0])
    held = np.ones(point.W.shape, dtype=bool)
    if metric.can_be_masked:
        held = _held(form, point, subgradients[0])
    only = Held(held, loss.curvature(point)[1] is not None)
    blocks = _blocks(loss, point, held) if metric.can_be_masked else None
    left, at, enough, best = products, point, tol * _size(form), -np.inf
    if start is not None and _largest(only(-start.gradient - total)) < _largest(
        only(-point.gradient - total)
    ):
        at = start
    while True:
        wanted = only(-at.gradient - total)
        rough = max(enough, 0.2 * _largest(wanted))  # Eisenstat and Walker's forcing term
        move = _conjugate_gradients(
            loss.hessian(at),
            blocks or metric,
            wanted,
            only,
            left,
            rough,
            deadline,
        )
        left -= move.products
        room = loss.room(at.derivatives, move.derivatives)
        u = at.derivatives + (1.0 if room >= 1 else 0.999 * room) * move.derivatives
        target = -loss.pull_back(u)
        parts = split(form, target, subgradients[0], 15, deadline)
        best = max(best, bounds(at.z, u, target, parts, upper))
        done = best >= needed or (room >= 1 and rough == enough)
        if done or left <= 0 or deadline.passed():
            break
        further = _towards(loss, at, move, total)
        if further is None:
            break
        at = further
    return best, at


def _largest(r: Array) -> float:
    return float(np.abs(r).max(initial=0.0))


@dataclass(frozen=True)
class Held:
    """Projection on the coefficients whose gradient must be met.

    The Hessian of coupled outputs is singular along equal changes of all of them: where a whole
    row is held, its mean is left out.
    """

    where: Array
    coupled: bool

    def __call__(self, r: Array) -> Array:
        """Return r with zeros elsewhere."""
        r = np.where(self.where, r, 0.0)
        if self.coupled:
            level = self.where.all(axis=1)
            r[level] -= r[level].mean(axis=1, keepdims=True)
        return r


def _towards(loss: CurvedLoss, at: Point, move: Move, total: Array) -> Point | None:
    """Return a point along a move where ``phi(W) + <total, W>`` is smaller, None if none is."""
    if float(np.linalg.norm(move.W)) > 10.0 * (1 + float(np.linalg.norm(at.W))):
        return None  # there may be no minimizer
    ahead, t = loss.product(move.W), 1.0
    promised = float(np.vdot(at.gradient + total, move.W))
    for _ in range(8):
        base = at.base + t * ahead
        V, z, value, u = loss.fit_free(base, at.V)
        if value + t * float(np.vdot(total, move.W)) <= at.value + 1e-4 * t * promised:
            W = at.W + t * move.W
            return Point(W, V, base, z, value, u, loss.pull_back(u))
        t /= 2
    return None


def _size(form: Form) -> float:
    """Return the radius of the smallest dual ball per entry."""
    return min([float(form.nuclear.alpha), *form.strengths])


def _held(form: Form, point: Point, first: Array) -> Array:
    """Return where the gradient must be met: coefficients other than zero or about to be.

    Elsewhere the norm of entries or rows has room for whatever the gradient becomes.
    """
    held = np.ones(point.W.shape, dtype=bool)
    pull = -point.gradient - first
    for h in form.others:
        # the projection on the dual ball leaves a pull alone as long as there is room
        near = pull / 0.9  # about to leave zero
        edge = np.asarray(h.project_dual(near)) != near
        held &= edge | ~np.asarray(h.zeros(point.W))
    return held


@dataclass(frozen=True)
class Blocks:
    """The Hessian of the coefficients that are held, without what couples outputs, factored.

    It sees that words come together; what couples many outputs is small beside it.
    """

    where: Array
    diagonal: Array
    factors: list[Any]

    def solve(self, R: Array, shift: float) -> Array:
        """Return the solutions, zero elsewhere."""
        out = np.zeros_like(R)
        for k, factor in enumerate(self.factors):
            if factor is not None:
                own = self.where[:, k]
                out[own, k] = cho_solve(factor, R[own, k], check_finite=False)
        return out


def _blocks(loss: CurvedLoss, point: Point, held: Array) -> Blocks | None:
    """Return the factored blocks, None where one would be large."""
    if int(held.sum(axis=0).max(initial=0)) > 1000:
        return None
    c, s = loss.curvature(point)
    entries = loss.weighted(c if s is None else c - s * s)
    matrices = loss.columns.blocks(held, entries)
    diagonal = np.concatenate([np.diag(H) for H in matrices])
    shift = 1e-6 * float(diagonal.mean()) + 1e-300 if diagonal.size else 0.0  # rounding
    for H in matrices:
        H.flat[:: len(H) + 1] += shift
    factors = [cho_factor(H, overwrite_a=True) if H.size else None for H in matrices]
    return Blocks(held, diagonal, factors)


@dataclass(frozen=True)
class Move:
    """A Newton step and what it does to the derivatives."""

    W: Array
    derivatives: Array
    products: int


def _conjugate_gradients(
    H: Hessian,
    metric: Metric | Blocks,
    wanted: Array,
    only: Held,
    products: int,
    tol: float,
    deadline: Deadline,
) -> Move:
    """Return the move along which the gradient changes by ``wanted`` where it is held."""
    shift = 1e-6 * float(metric.diagonal.mean())
    left = wanted
    W, du, k = np.zeros_like(left), np.zeros((H.loss.n, left.shape[1])), 0
    z = only(metric.solve(left, shift))
    direction, rz, first = z, float(np.vdot(left, z)), float(np.linalg.norm(left))
    for k in range(1, products + 1):
        image, bent = H @ direction
        curvature = float(np.vdot(direction, image))
        if not curvature > 0 or not rz > 0:
            break
        step = rz / curvature
        W += step * direction
        bent *= step
        du += bent
        left = left - step * only(image)
        # Along directions with next to no curvature the first product makes the residual a
        # thousand times as large, and no other brings it back.
        most = 0.5 if k >= 100 else 100.0
        hopeless = float(np.linalg.norm(left)) > most * first
        if _largest(left) <= tol or hopeless or deadline.passed():
            break
        z = only(metric.solve(left, shift))
        rz, before = float(np.vdot(left, z)), rz
        direction = z + (rz / before) * direction
    return Move(W, du, max(k, 1))
