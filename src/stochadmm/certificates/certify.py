"""How far from optimal a point is at most."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import numpy as np

from ..base.capabilities import Has, offers
from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.elimination import Elimination, only_pair
from ..forms.equilibrate import Units, equilibrated
from ..forms.one_block import OneBlock, has_one_block, one_block
from ..problem import Pair, Problem
from ..risk import Evaluation, FiniteSum, loss_of_rows
from ..risk.finite_sum import as_finite_sum
from .bound import DualPoint, feasible_multiplier, scaled_point
from .corrected import corrected_point
from .null_space import clear_free_directions, only_intercept
from .options import FLOOR, OPTIONS, CertificateOptions
from .repair import is_rounding, repaired, wide

STRENGTHS = ("scaled", "corrected")


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate of a point: a lower bound on the optimal value, and the duality gap.

    Attributes
    ----------
    objective : float
        F at ``point``, in float64.
    point : Pair
        A feasible pair made from the point asked about, in float64; the point itself where no
        feasible pair with finite penalties was found, with an infinite ``objective``. Where the
        penalties leave directions free (an intercept, the mean of a signal), f2 is minimized along
        them, and the better of the two points is returned.
    bound : float
        Lower bound on the optimal value (a dual objective), minus infinity when none was found.
    gap : float or None
        ``objective - bound``, at least 0; infinite when no bound was found, None when the problem
        has no certificate: a part without a conjugate.
    kind : {"scaled", "corrected", "tangent", "only pair", "kkt"}
        Where the bound comes from; "tangent" where most rows are replaced by their tangent, "only
        pair" where the constraint leaves no choice, "kkt" when there is none.
    kkt_residual : float
        Relative violation of the optimality conditions.
    candidate : array or None
        The x2 of a subsampled proximal Newton step, when one was made.
    candidate_dual : array or None
        Its multiplier.
    dual : array
        The dual variable (multiplier) of the constraint that belongs to the bound.
    derivatives : array or None
        The dual variables of the predictions that belong to the bound, one per row and output:
        with ``dual`` they make it reproducible.
    n_passes : float
        Passes over the data beyond the cache.
    """

    objective: float
    point: Pair
    bound: float
    gap: float | None
    kind: str
    kkt_residual: float
    candidate: Array | None
    candidate_dual: Array | None
    dual: Array
    n_passes: float
    derivatives: Array | None = field(default=None, repr=False)

    def relative(self, objective_at_zero: float) -> float | None:
        """Return the gap over ``max(|F|, |F(0)| / 1000)``, None where there is no gap.

        Where an intercept or other coefficients are unpenalized, pass F of the null model instead,
        as runs do (`gap_scale`).
        """
        if self.gap is None:
            return None
        scale = max(abs(self.objective), FLOOR * abs(objective_at_zero))
        if scale == 0.0:
            return 0.0 if self.gap == 0.0 else np.inf
        return self.gap / scale


def certify(
    problem: Problem,
    point: Pair,
    dual: Array | None = None,
    cache: Evaluation | None = None,
    *,
    strength: str = "scaled",
    options: CertificateOptions = OPTIONS,
    workspace: Workspace | None = None,
    deadline: Deadline = NEVER,
) -> Certificate:
    """Compute a certificate: an upper bound on a point's distance from the optimal value.

    Everything is evaluated in float64, also for float32 data. Nothing that is passed in changes.

    Parameters
    ----------
    problem : Problem
        What is minimized.
    point : Pair
        Any point; a feasible one is made from it.
    dual : array, optional
        An estimate of the multiplier of the constraint, ``L = F + <dual, A1 x1 + A2 x2 - b>``.
    cache : Evaluation, optional
        A pass over the data at ``point.x2``; without one, a pass is made.
    strength : {"scaled", "corrected"}
        The dual point: the derivatives of the losses at the point, scaled until they are feasible,
        whose gap is of first order in the error; or these corrected by a second-order model of
        some of the rows, which is tighter and costs more.
    options : CertificateOptions, optional
        How hard the bound is looked for.
    workspace : Workspace, optional
        Of the run that asks, for what certificates of the same problem share.
    deadline : Deadline, optional
        When to end with the bound found by then.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.certificates import certify
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 0.0]), on_coefficients=sa.L1(0.5)
    ... )
    >>> found = certify(problem, sa.Pair(np.zeros(0), np.array([2.0, 0.0])))
    >>> round(found.gap, 12), round(found.objective, 12)
    (0.0, 1.25)
    """
    if strength not in STRENGTHS:
        raise ValueError(f"strength is {strength!r}, expected one of {', '.join(STRENGTHS)}")
    asked = Asked(strength, options, workspace or Workspace(), deadline)
    units = equilibrated(problem, workspace=asked.workspace)
    if units is None:
        return _certify(problem, point, dual, cache, asked)
    if dual is not None:
        dual = units.into_dual(dual)
    found = certify(
        units.problem,
        units.into(point),
        dual,
        strength=strength,
        options=options,
        workspace=workspace,
        deadline=deadline,
    )
    return _in_units(units, found)


class Asked(NamedTuple):
    """How a certificate is to be made."""

    strength: str
    options: CertificateOptions
    workspace: Workspace
    deadline: Deadline


def _certify(
    problem: Problem, point: Pair, dual: Array | None, cache: Evaluation | None, asked: Asked
) -> Certificate:
    """Certify a point in the units of the problem."""
    view = Elimination.of(problem, asked.workspace)
    if view is not None and has_certificate(view.reduced):
        return _eliminated(view, point, dual, cache, asked)
    only = None if view is not None else _determined(problem, asked)
    if only is not None:
        return only
    x = repaired(problem, point, workspace=asked.workspace)
    f2 = loss_of_rows(problem.f2)
    if f2 is None or not has_certificate(problem, asked.workspace):
        x = problem.feasible(point, asked.workspace) if x is None else x
        return _without_bound(problem, x, dual, cache, asked)
    x = problem.feasible(wide(point), asked.workspace) if x is None else x
    at = f2.evaluate_exactly(x.x2, cache)
    form = one_block(problem, asked.workspace)
    start = form.from_multiplier(dual, deadline=asked.deadline)
    if asked.strength == "scaled":
        return _scaled(problem, f2, form, x, at, start, asked)
    return _corrected(problem, f2, form, x, at, start, asked)


def _in_units(units: Units, c: Certificate) -> Certificate:
    """Return a certificate with its arrays in the units of the user."""
    candidate, other = c.candidate, c.candidate_dual
    if candidate is not None:
        candidate = units.back(Pair(c.point.x1, candidate)).x2
    return replace(
        c,
        objective=c.objective + units.limited(units.back(c.point)),
        point=units.back(c.point),
        dual=units.back_dual(c.dual),
        candidate=candidate,
        candidate_dual=None if other is None else units.back_dual(other),
    )


def has_certificate(problem: Problem, workspace: Workspace | None = None) -> bool:
    """Tell whether every part of a problem offers its conjugate.

    Where penalties leave directions free the loss must offer its curvature too: without it
    derivatives cannot be corrected until the gradient vanishes there.
    """
    f2 = loss_of_rows(problem.f2, Has.CONJUGATE)
    if f2 is None:
        return False
    parts = (problem.h1, problem.h2)
    if not all(offers(part, Has.CONJUGATE) for part in parts if part is not None):
        return False
    view = None if problem.is_model else Elimination.of(problem, workspace)
    if view is not None:
        return has_certificate(view.reduced, workspace)
    if not has_one_block(problem):
        return False
    if offers(f2.loss, Has.CURVATURE_APPLY):
        return True
    return not one_block(problem, workspace).null_directions()


def setup_seconds(problem: Problem, workspace: Workspace) -> float:
    """Return what the first certificate of a run may take before it begins, at most."""
    if not has_certificate(problem, workspace):
        return 0.0
    view = Elimination.of(problem, workspace)
    return one_block(problem if view is None else view.reduced, workspace).setup_seconds


def _eliminated(
    view: Elimination, point: Pair, dual: Array | None, cache: Evaluation | None, asked: Asked
) -> Certificate:
    """Certify a pair of a general constraint in the coordinates of its feasible set."""
    problem, f2 = view.problem, view.problem.f2
    start = None
    if dual is not None and np.isfinite(dual).all():
        gradient = None
        if "h2" in view.parts:
            known = cache is not None and np.array_equal(cache.x, point.x2)
            at = wide(point).x2.astype(problem.dtype)
            gradient = cache.gradient if known and cache is not None else f2.gradient(at)
        start = view.down_dual(point, dual, gradient)
    inside = view.pair(view.down(point))
    same = cache if view.keeps_x2 else None
    found = certify(view.reduced, inside, start, same, **asked._asdict())
    x = view.up(found.point.x2)
    if not np.isfinite(problem.penalty(x)):  # outside a domain by rounding, or by more
        x = problem.inside(x)
    at_x = cast(FiniteSum, f2).evaluate_exactly(x.x2)
    near = is_rounding(problem, x, problem.constraint(x), workspace=asked.workspace)
    objective = problem.penalty(x) + at_x.value if near else np.inf
    gap = None if found.gap is None else max(objective - found.bound, 0.0)
    return replace(
        found,
        objective=objective,
        point=x,
        gap=gap,
        candidate=None,
        candidate_dual=None,
        dual=view.up_dual(found.dual, at_x.gradient),
        n_passes=found.n_passes + 2.0,
    )


def _determined(problem: Problem, asked: Asked) -> Certificate | None:
    """Certify the only pair of a constraint, None where there are several or it is outside.

    The bound is F there, less how much lower it may be at the exact pair, which rounding has
    moved. The multiplier makes ``A'`` times it minus a subgradient of F.
    """
    found = only_pair(problem, asked.workspace)
    if found is None:
        return None
    x, off = found
    if not np.isfinite(problem.penalty(x)):
        x = problem.inside(x)
    penalty = problem.penalty(x)
    if not np.isfinite(penalty) or not is_rounding(problem, x, problem.constraint(x)):
        return None
    at = as_finite_sum(problem.f2).evaluate_exactly(x.x2)
    beside = [
        Pair(x.x1 + t * np.copysign(off.x1, x.x1), x.x2 + t * np.copysign(off.x2, x.x2))
        for t in (1.0, -1.0)
    ]
    slack = max(abs(problem.penalty(problem.inside(pair)) - penalty) for pair in beside)
    slack += float(np.vdot(np.abs(at.gradient), off.x2))
    first = _pull(problem.h1, x.x1)
    if problem.f1 is not None:
        first = first + np.asarray(problem.f1.gradient(x.x1))
    pull = np.concatenate([first, at.gradient + _pull(problem.h2, x.x2)])
    affine, force = problem.affine_set(asked.workspace), float(np.linalg.norm(pull))
    dual = affine.multiplier(-pull)
    left = float(np.linalg.norm(affine.matrix.T @ dual + pull)) / force if force > 0 else 0.0
    return Certificate(
        objective=penalty + at.value,
        point=x,
        bound=penalty + at.value - slack,
        gap=slack,
        kind="only pair",
        kkt_residual=left,
        candidate=None,
        candidate_dual=None,
        dual=dual,
        n_passes=at.n_passes,
    )


def _pull(penalty: Any, x: Array) -> Array:
    """Return a subgradient of a penalty next to x, from a short step to lower values."""
    if penalty is None:
        return np.zeros_like(x)
    # relative to the point: penalties are about straight along it, rounding is still small
    step = 1e-6 * max(float(np.abs(x).max(initial=0.0)), 1e-6)
    return np.asarray((x - penalty.prox(x, step)) / step)


def _scaled(
    problem: Problem,
    f2: FiniteSum,
    form: OneBlock,
    x: Pair,
    at: Evaluation,
    start: Array,
    asked: Asked,
) -> Certificate:
    objective, deadline = problem.penalty(x) + at.value, asked.deadline
    cleared = clear_free_directions(f2, at, form.null_directions(), deadline=deadline)
    if cleared is None:
        mu = feasible_multiplier(form, at.gradient, start, 0.0, rounds=1, deadline=deadline)[1]
        found = DualPoint(-np.inf, mu, at.derivative)
        passes = at.n_passes
    else:
        moved, exact = cleared
        found = scaled_point(
            f2,
            form,
            exact.predictions,
            exact.derivative,
            exact.gradient,
            start,
            objective,
            asked.options.rounds,
            options=asked.options,
            deadline=deadline,
            workspace=asked.workspace,
        )
        passes = exact.n_passes
        if moved.value < at.value and problem.dtype == np.float64:
            better = repaired(problem, replace(x, x2=moved.x), workspace=asked.workspace)
            if better is not None:
                value = moved.value
                if not only_intercept(f2, form.null_directions()):  # what was added up may cancel
                    value, passes = f2.evaluate_exactly(better.x2).value, passes + 1.0
                if problem.penalty(better) + value < objective:
                    x, at, objective = better, exact, problem.penalty(better) + value
    lam = form.to_multiplier(found.mu)
    return Certificate(
        objective=objective,
        point=x,
        bound=found.bound,
        gap=max(objective - found.bound, 0.0),
        kind="scaled",
        kkt_residual=kkt_residual(problem, x, at.gradient, lam),
        candidate=None,
        candidate_dual=None,
        dual=lam,
        n_passes=passes,
        derivatives=found.derivatives,
    )


def _corrected(
    problem: Problem,
    f2: FiniteSum,
    form: OneBlock,
    x: Pair,
    at: Evaluation,
    start: Array,
    asked: Asked,
) -> Certificate:
    """Return the better of the corrected and the scaled bound, with the model's minimizer."""
    now, shared = problem.penalty(x) + at.value, asked.workspace
    found = corrected_point(
        f2, form, at, start, now, options=asked.options, workspace=shared, deadline=asked.deadline
    )
    if found is None:
        return _scaled(problem, f2, form, x, at, start, asked)
    lam = form.to_multiplier(found.mu)
    passes = at.n_passes + found.n_passes
    # free directions make the scaled point as costly as the corrected one
    failed = not np.isfinite(found.point.bound) or found.point.factor == 0.0
    if failed or not form.null_directions():
        other = _scaled(problem, f2, form, x, at, start, asked)
        if other.bound >= found.point.bound:
            passes = other.n_passes + found.n_passes
            return replace(other, candidate=found.candidate, candidate_dual=lam, n_passes=passes)
    objective = problem.penalty(x) + at.value
    dual = form.to_multiplier(found.point.mu)
    return Certificate(
        objective=objective,
        point=x,
        bound=found.point.bound,
        gap=max(objective - found.point.bound, 0.0),
        kind="corrected",
        kkt_residual=kkt_residual(problem, x, at.gradient, dual),
        candidate=found.candidate,
        candidate_dual=lam,
        dual=dual,
        n_passes=passes,
        derivatives=found.point.derivatives,
    )


def _without_bound(
    problem: Problem, x: Pair, dual: Array | None, cache: Evaluation | None, asked: Asked
) -> Certificate:
    """Return the certificate of a problem, or of a point, that has only its KKT residual."""
    f2: Any = problem.f2
    rows = loss_of_rows(f2)
    if rows is not None:
        at = rows.evaluate_exactly(x.x2, cache)
        value, gradient, passes = at.value, at.gradient, at.n_passes
    elif offers(f2, Has.ANCHOR):
        here = f2.anchor(x.x2)
        value, gradient, passes = float(here.value), here.gradient, 1.0
    else:
        value, passes = float(f2.value(x.x2)), 1.0
        gradient = np.asarray(f2.gradient(x.x2), dtype=np.float64)
    lam = np.zeros(problem.shape_dual) if dual is None else dual.astype(np.float64)
    if dual is None and problem.constrained:
        lam = _least_squares_multiplier(problem, gradient, asked)
    return Certificate(
        objective=problem.penalty(x) + value,
        point=x,
        bound=-np.inf,
        gap=None,
        kind="kkt",
        kkt_residual=kkt_residual(problem, x, gradient, lam),
        candidate=None,
        candidate_dual=None,
        dual=lam,
        n_passes=passes,
    )


def _least_squares_multiplier(problem: Problem, gradient: Array, asked: Asked) -> Array:
    if not has_one_block(problem):
        return np.zeros(problem.shape_dual)
    form = one_block(problem, asked.workspace)
    if form.is_through:
        return np.zeros(problem.shape_dual)
    return form.to_multiplier(form.absorb(-gradient, deadline=asked.deadline))


def kkt_residual(problem: Problem, x: Pair, gradient: Array, dual: Array) -> float:
    """Return the largest of the relative proximal-gradient residuals and of the infeasibility.

    For each block with pull ``p`` (gradient of the smooth part plus ``A' dual``) and step s it is
    ``|x - prox(x - s p, s)|`` relative to ``max(|x|, s |pull's terms|)``, with s the ratio of the
    two.
    """
    back2 = np.zeros_like(gradient) if problem.A2 is None else problem.A2.rmatvec(dual)
    worst = _block(problem.h2, x.x2, gradient, back2)
    if problem.A1 is None or problem.A2 is None:
        return worst
    smooth: Any = problem.f1
    own = np.zeros_like(x.x1) if smooth is None else np.asarray(smooth.gradient(x.x1))
    worst = max(worst, _block(problem.h1, x.x1, own, problem.A1.rmatvec(dual)))
    first, second = problem.A1.matvec(x.x1), problem.A2.matvec(x.x2)
    right = 0.0 if problem.b is None else problem.b
    size = _norm(first) + _norm(second) + float(np.linalg.norm(right))
    return max(worst, _norm(first + second - right) / size if size > 0 else 0.0)


def _block(penalty: Any, x: Array, gradient: Array, back: Array) -> float:
    size, force = _norm(x), _norm(gradient) + _norm(back)
    if force == 0.0:
        step = 1.0
    else:
        step = size / force if size > 0 else 1.0 / force
    ahead = x - step * (gradient + back)
    moved = x - (ahead if penalty is None else penalty.prox(ahead, step))
    scale = max(size, step * force)
    return _norm(moved) / scale if scale > 0 else 0.0


def _norm(x: Any) -> float:
    return float(np.linalg.norm(x))
