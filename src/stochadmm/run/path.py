"""Solutions for many strengths: grids, the largest useful strength, warm-started paths.

A *unit problem* is a problem whose penalties have strength one; its family multiplies them by
alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import gammaln

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.validation import is_between
from ..base.workspace import Workspace
from ..forms.equilibrate import with_even_structure
from ..forms.one_block import OneBlock, has_one_block, one_block
from ..forms.structure import Structure, StructureSolver, is_diagonal
from ..penalties import Separable, Stacked
from ..problem import Pair, Problem, at_strength
from ..quadratic import Implicit, minimize_quadratic
from .null_model import bounds_of, null_model
from .result import Result

ROUNDED_UP = 1e-6
"""Relative excess of the strength that is returned: never too small."""
DENSE_IDENTITY = 300
"""Columns up to which a dense identity costs nothing."""


def alpha_max(
    unit: Problem, workspace: Workspace | None = None, null: tuple[Array, Array] | None = None
) -> float:
    """Return the smallest strength at which the null model is optimal.

    With g the gradient at the null model it is the smallest alpha for which -g is alpha times a
    subgradient of the penalty at zero: a linear program where the penalty is polyhedral, and the
    largest ratio ``-<g, w> / penalty(w)`` otherwise, between bounds from both sides for norms of
    coefficients, climbed by proximal steps for other structures. Rows of a structure that are
    independent, as of chains and trend filters, leave one multiplier, which is the answer; where
    the linear program fails, the best multiplier found gives a strength that is large enough.
    Runs that follow share what ``workspace`` then knows of the structure. ``null`` is what
    `null_model` returns, where it is known.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.run.path import alpha_max
    >>> unit = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 1.0]), on_coefficients=sa.L1(1.0)
    ... )
    >>> round(alpha_max(unit), 4)  # |X'y| / n
    1.5
    """
    workspace = workspace or Workspace()
    if unit.f1 is None and not has_one_block(unit):
        raise ValueError(
            "alpha_max needs the structure as a matrix, and an operator of this size is known by "
            "its products alone; pass alphas instead"
        )
    unit = with_even_structure(unit, workspace)
    x, gradient = null_model(unit, workspace) if null is None else null
    size = float(np.abs(gradient).max(initial=0.0))
    if size == 0:
        return 0.0
    direction = np.where(np.abs(gradient) > 1e-12 * size, -gradient / size, 0.0)
    edges = _dual_edges(unit, x)
    if edges is not None:
        strength = _polyhedral(unit, direction, *edges, workspace)
    else:
        unit, direction = _near_zero(unit, direction)
        form = _norms_of_coefficients(unit, workspace)
        if form is None:
            strength = _climb(unit, direction, workspace)
        else:
            strength = _bracket(form, direction)
    return size * strength * (1 + ROUNDED_UP)


def _near_zero(unit: Problem, direction: Array) -> tuple[Problem, Array]:
    """Return a problem and a direction in which only those bounds are left that zero is at.

    Coefficients that bounds alone concern are optimal in the null model: the penalty says nothing
    of them, and they are left out of the direction.
    """
    h1 = None if unit.h1 is None else _cone(unit.h1)
    bounds = bounds_of(unit)
    if bounds is None or h1 is None:
        return unit.with_penalties(h1, unit.h2), direction
    operator: Any = unit.A2
    touched = np.asarray(abs(operator.tosparse()).sum(axis=0) > 0).ravel()
    loose = bounds.rows & (bounds.l1 == 0) & ~touched
    direction = direction.copy()
    direction[loose] = 0.0
    lower, upper = np.where(loose, -np.inf, bounds.lower), np.where(loose, np.inf, bounds.upper)
    return unit.with_penalties(h1, _cone(Separable(bounds.l1, 0.0, lower, upper))), direction


def _cone(penalty: Any) -> Any:
    """Return the penalty without the bounds that zero is strictly between."""
    if isinstance(penalty, Stacked):
        return Stacked([(_cone(part), size) for part, size in penalty.parts])
    if not isinstance(penalty, Separable):
        return penalty
    lower, upper = np.asarray(penalty.lower), np.asarray(penalty.upper)
    return replace(
        penalty,
        lower=np.where(lower < 0, -np.inf, lower),
        upper=np.where(upper > 0, np.inf, upper),
    )


def _dual_edges(unit: Problem, x: Array) -> tuple[Array, Array] | None:
    """Return the unit dual set at the null model as an interval per row and output, h1 above h2.

    None when it is no box.
    """
    low, high = [], []
    for penalty, rows in ((unit.h1, unit.shape1[0]), (unit.h2, unit.shape2[0])):
        part: Any = penalty
        if part is None:
            low.append(np.zeros(rows))
            high.append(np.zeros(rows))
            continue
        terms = compiled_terms(part, rows)
        if terms is None:
            return None
        for term in terms:
            l1, l2, lower, upper = term.per_row()
            if not term.separable or l1.size != term.size or l2.any():
                return None
            # a bound is felt where zero is at it, and where nothing else holds the row
            low.append(np.where(np.isfinite(lower) & ((lower == 0) | (l1 == 0)), -np.inf, -l1))
            high.append(np.where(np.isfinite(upper) & ((upper == 0) | (l1 == 0)), np.inf, l1))
    outputs = x.reshape(len(x), -1)
    edges = tuple(
        np.repeat(np.concatenate(part)[:, None], outputs.shape[1], axis=1) for part in (low, high)
    )
    bounds = bounds_of(unit)
    if bounds is not None:  # a bound pushes only those that are at it
        for edge, end, sign, there in zip(
            edges, (bounds.lower, bounds.upper), (-1.0, 1.0), bounds.reached(outputs), strict=True
        ):
            own = edge[-len(x) :]
            own[...] = np.where(np.isfinite(end)[:, None] & ~there, sign * bounds.l1[:, None], own)
    return edges[0], edges[1]


def _polyhedral(
    unit: Problem, direction: Array, low: Array, high: Array, workspace: Workspace
) -> float:
    """Return min t with ``A' u + v = direction``, (u, v) in t times the box; largest output."""
    d = unit.shape2[0]
    outputs = direction.reshape(d, -1)
    if unit.h1 is None:
        return _ratio(outputs, low, high)
    S = one_block(unit, workspace).structure  # without h2 its rows are those of h1 alone
    m = S.S.shape[0]
    ends = zip(outputs.T, low[:m].T, high[:m].T, strict=True)
    return max(_least_strength(S, *column) for column in ends)


def _ratio(u: Array, low: Array, high: Array) -> float:
    """Return min t with u in t times the box."""
    edge = np.where(u > 0, high, -low)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(u == 0, 0.0, np.abs(u) / edge).max(initial=0.0))


def _least_strength(S: Structure, direction: Array, low: Array, high: Array) -> float:
    """Return min t with ``S' u = direction``, u in t times the box."""
    used = (low < 0) | (high > 0)
    solver = S.solver(used)
    first = solver.absorb(direction)
    u = _cleared(first[used])
    rows, low, high = S.St[:, np.flatnonzero(used)], low[used], high[used]
    largest = _ratio(u, low, high)
    only = len(u) + solver.null.shape[1] == len(direction)  # rows are independent: no other u
    if only and np.isfinite(largest):
        return largest
    unit = largest if 0 < largest < np.inf else 1.0
    answer = _linear_program(rows, direction / unit, low, high)
    if answer is not None:
        return unit * answer
    found = np.inf if only else _by_reflections(solver, S, direction, first, low, high)
    if not np.isfinite(found):
        raise ValueError(
            "alpha_max is not available: no multiplier was found; pass alphas instead"
        )
    return found


def _by_reflections(
    solver: StructureSolver, S: Structure, direction: Array, u: Array, low: Array, high: Array
) -> float:
    """Return a strength that is large enough, where the linear program fails.

    Any u with ``S' u = direction`` proves one. Reflections at these u and at t times the box look
    for a better one, t halfway between the best and what was looked for in vain.
    """
    edges = np.concatenate([-low[low < 0], high[high > 0]])
    best, vain, used = np.inf, 0.0, solver.mask.astype(bool)
    upper = 2 * float(np.abs(u).max(initial=0.0)) / float(edges.min(initial=np.inf))
    upper = upper or 1.0  # a cone, which is the same at every strength
    for _ in range(20):
        t, z = 0.5 * (vain + min(best, upper)), u
        for _ in range(200):
            at = z + solver.absorb(direction - S.St @ z)
            best = min(best, _ratio(_cleared(at[used]), low, high))
            if best <= t:
                break
            z = z - at
            z[used] += np.clip((at - z)[used], t * low, t * high)
        else:
            vain = t
        if not best > vain * (1 + ROUNDED_UP):
            break
    return best


def _cleared(u: Array) -> Array:
    """Return u with zeros for what is rounding, which has no sign."""
    return np.where(np.abs(u) > 1e-12 * np.abs(u).max(initial=0.0), u, 0.0)


def _linear_program(rows: Any, direction: Array, low: Array, high: Array) -> float | None:
    """Return min t with ``rows u = direction``, u in t times the box; None where it fails."""
    m = rows.shape[1]
    equal = sparse.hstack([rows, sparse.csc_array((rows.shape[0], 1))])
    above, below = np.flatnonzero(np.isfinite(high)), np.flatnonzero(np.isfinite(low))
    eye = sparse.eye_array(m, format="csr")
    bounded = sparse.vstack(
        [
            sparse.hstack([eye[above], sparse.csr_array(-high[above, None])]),
            sparse.hstack([-eye[below], sparse.csr_array(low[below, None])]),
        ]
    )
    cost = np.zeros(m + 1)
    cost[-1] = 1.0
    answer = linprog(  # type: ignore[call-overload]
        cost, bounded, np.zeros(bounded.shape[0]), equal, direction, bounds=(None, None)
    )
    return max(0.0, float(answer.x[-1])) if answer.status == 0 else None


def _norms_of_coefficients(unit: Problem, workspace: Workspace | None = None) -> OneBlock | None:
    """Return the stacked form where S'S is diagonal and H a sum of norms, None elsewhere."""
    form = one_block(unit, workspace)
    shared = form.mask.ndim == 1 or bool((form.mask == form.mask[:, :1]).all())
    if not shared or form.offset.any() or not is_diagonal(form.St @ form.S):
        return None
    penalty = form.stacked_penalty
    probe = np.random.default_rng(0).standard_normal(form.mask.shape)
    value, double, mirrored = (float(penalty.value(t * probe)) for t in (1.0, 2.0, -1.0))
    is_norm = np.isfinite(value) and np.allclose([double, mirrored], [2 * value, value], 1e-12)
    return form if is_norm else None


def _bracket(form: OneBlock, direction: Array) -> float:
    """Return the largest ``<direction, w> / H(S w)`` from below and above.

    A splitting solves the prox of alpha times the penalty at the direction. On the way, the ratio
    of its point is a bound from below, and the next alpha; a multiplier with
    ``S' mu = direction`` is one from above: the factor that brings it into the dual set.
    """
    penalty, S, St = form.stacked_penalty, form.S, form.St
    weight = (St @ S).diagonal().reshape(-1, *(1,) * (direction.ndim - 1))

    def ratio(w: Array) -> float:
        value = float(penalty.value(S @ w))
        return float(np.vdot(direction, w)) / value if value > 0 else 0.0

    def reach(mu: Array) -> float:
        exact = mu + form.absorb(direction - St @ mu)
        far = 1e9  # long multipliers show how far the dual set reaches
        return 1 / (far * form.scale(far * exact))

    mu = np.zeros_like(form.offset)
    low, high = ratio(direction), reach(mu)
    if S.shape[0] == np.count_nonzero(weight):  # no other multiplier
        return high
    image, rho = np.zeros_like(mu), 1.0
    for step in range(5000):  # each is cheap, and it ends far before
        if step % 20 == 0:  # a look at the bounds costs as much as a step
            scaled = penalty.scaled(low)
        w = (direction + St @ (rho * image - mu)) / (1 + rho * weight)
        seen, before = np.asarray(S @ w), image
        relaxed = 1.7 * seen + (1 - 1.7) * image + mu / rho  # over-relaxed ADMM
        image = scaled.prox(relaxed, 1 / rho)
        mu = rho * (relaxed - image)
        if step % 20 == 19:
            low, high = max(low, ratio(w)), min(high, reach(mu))
            if high <= low * (1 + ROUNDED_UP):
                break
            rho *= _balance(seen - image, seen, rho * (St @ (image - before)), St @ mu)
    return max(low, high / (1 + ROUNDED_UP))


def _balance(primal: Array, length: Array, dual: Array, force: Array) -> float:
    """Return the factor of the penalty that makes the relative residuals of a splitting equal."""
    sizes = [float(np.linalg.norm(part)) for part in (primal, length, dual, force)]
    if not all(sizes):
        return 1.0
    ratio = float(np.sqrt(sizes[0] / sizes[1] * sizes[3] / sizes[2]))
    return float(np.clip(ratio, 0.2, 5.0)) if not 0.5 < ratio < 2 else 1.0


def _climb(unit: Problem, direction: Array, workspace: Workspace) -> float:
    """Return the largest ``<direction, w> / penalty(w)`` by proximal steps.

    The prox w of alpha times the penalty at the direction is zero from the largest ratio on; below
    it, its own ratio ``alpha + |w|^2 / penalty(w)`` is the next, larger alpha (Dinkelbach's
    method).
    """
    h1: Any = unit.h1
    h2: Any = unit.h2

    def ratio(w: Array) -> float:
        w = np.asarray(h2.project(w)) if offers(h2, Has.PROJECT) else w
        inside = unit.feasible(Pair(unit.zeros().x1, w))
        value = unit.penalty(inside)
        return float(np.sum(direction * inside.x2)) / value if 0 < value < np.inf else 0.0

    alpha = ratio(direction)
    H: Any = Implicit(lambda w: w, np.ones(unit.shape2[0]))
    dual, penalty, tol, last = None, None, 1e-3, 1e-6
    if unit.shape2[0] <= DENSE_IDENTITY:
        H, last = np.eye(unit.shape2[0]), 1e-11
    for _ in range(60):  # each round at least halves what is left
        if unit.h1 is None:
            w = h2.scaled(alpha).prox(direction, 1.0)
        else:
            found = minimize_quadratic(
                H,
                -direction,
                np.zeros_like(direction),
                unit.A2,
                h1.scaled(alpha),
                None if h2 is None else h2.scaled(alpha),
                dual=dual,
                tol=tol,
                penalty=penalty,
                max_iter=1000,
                workspace=workspace,
            )
            w, dual, penalty = found.w, found.dual, found.penalty
        after = ratio(w) if float(np.abs(w).max()) > 1e-9 else 0.0
        if after <= alpha * (1 + ROUNDED_UP):
            if tol <= last or unit.h1 is None:
                break
            tol = max(tol / 100, last)
        alpha = max(after, alpha)
    return alpha


def alpha_grid(largest: float, n_alphas: int = 50, eps: float = 1e-3) -> Array:
    """Return strengths from the largest down to ``eps`` times it, evenly spaced in logarithm."""
    if not n_alphas >= 1 or not 0 < eps < 1:
        raise ValueError(
            f"n_alphas is {n_alphas} and eps is {eps}; expected at least one and 0 < eps < 1"
        )
    if not 0 < largest < np.inf:
        raise ValueError(
            f"the largest useful alpha is {largest}: the targets are constant or nothing is "
            "penalized; pass alphas yourself"
        )
    return np.geomspace(largest, eps * largest, n_alphas)


def carried(result: Result, ratio: float) -> tuple[Pair, Array]:
    """Return a start from a solution at another strength.

    The multiplier lies in alpha times a set, so that it is scaled by the ratio of the alphas.
    """
    return result.pair, (result.dual * ratio).astype(result.dual.dtype)


def solve_path(
    unit: Problem,
    alphas: Iterable[float],
    solve: Callable[[Problem, Any, Workspace], Result],
    workspace: Workspace | None = None,
) -> Iterator[tuple[float, Problem, Result]]:
    """Yield (alpha, problem, result) for each strength, each started from the one before.

    ``solve(problem, start, workspace)`` returns a result; pair, multiplier, and what the method
    has kept of the data are carried along. All strengths share what a workspace, by default a new
    one, knows of the rows and the operator; what belongs to one strength is dropped with it.
    Folds of the same structure give each path one that shares with the others.
    """
    workspace = workspace or Workspace()
    start: Any = None
    before = 0.0
    for alpha in alphas:
        problem = at_strength(unit, float(alpha))
        if start is not None and problem.constrained != (start.dual.size > 0):
            start = None
        first = None if start is None else carried(start, alpha / before if before else 1.0)
        result = solve(problem, first, workspace.same_rows())
        yield float(alpha), problem, result
        start, before = result, float(alpha)


@dataclass(frozen=True, eq=False)
class Path:
    """Solutions along a grid of strengths.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths, in the order solved.
    coefs, intercepts : ndarray of shape (n_alphas, ...)
        Coefficients and intercepts in the shapes of ``coef_`` and ``intercept_``.
    gaps : ndarray of shape (n_alphas,)
        Certified relative duality gaps, NaN where there is no certificate.
    dof, aic, bic : ndarray of shape (n_alphas,)
        Degrees of freedom and information criteria.
    n_passes : ndarray of shape (n_alphas,)
        Reads of the data.
    results : list of Result
        What the solver returned.
    feature_names : list or None
        Names of the columns.
    """

    alphas: Array
    coefs: Array
    intercepts: Array
    gaps: Array
    dof: Array
    aic: Array
    bic: Array
    n_passes: Array
    results: list[Result] = field(repr=False)
    feature_names: list[Any] | None = None

    def ebic(self, gamma: float = 1.0) -> Array:
        """Return the extended BIC, ``bic + 2 gamma log C(p, dof)`` with p coefficients.

        For more columns than rows, where BIC chooses too many of them; gamma = 0 is BIC. J. Chen,
        Z. Chen, "Extended Bayesian information criteria for model selection with large model
        spaces", Biometrika 95 (2008).
        """
        if not is_between(gamma, 0, 1, below=True, above=True):
            raise ValueError(f"gamma is {gamma!r}, expected a number from 0 to 1")
        p = self.coefs[0].size
        k = np.minimum(self.dof, p)
        models = gammaln(p + 1) - gammaln(k + 1) - gammaln(p - k + 1)
        return np.asarray(self.bic + 2 * gamma * models)

    def plot(self, ax: Any = None) -> Any:
        """Draw the coefficients against alpha; returns the axes (needs matplotlib)."""
        from ..plots import plot_path

        return plot_path(self, ax)
