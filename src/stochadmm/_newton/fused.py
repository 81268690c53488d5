"""Thousands of columns coupled by a sparse structure: ADMM through one factor, then clusters.

The splitting only has to find out which columns are fused; F itself in the values of the clusters
gives the last digits of the point, and with them those of the bound. Without clusters (a structure
whose rows have three entries or more and no others) the splitting's own point is the candidate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..certificates import DualPoint, clear_free_directions
from ..forms.one_block import OneBlock, dual_scale, one_block
from ..forms.structure import Structure
from ..problem import Problem
from ..risk import loss_of_rows
from .clusters import clusters_of, free_clusters, restricted
from .composite import Composite, why_no_form
from .factor import (
    FEW_ROWS,
    FactorHessian,
    factored,
    hessian_by_factor,
    long_rows,
    penalties,
    reads_of_factor,
)
from .factor_bound import bound_by_factor
from .interfaces import Begin, Candidate, NewtonState, Plan, Run
from .trust import Trust

# ---------------------------------------------------------------- curvature


@dataclass(frozen=True)
class RowsByFactor:
    """The Hessian of all rows beside the factor of the structure."""

    def first_trust(self, p: Composite) -> Trust:
        return Trust()

    def model(self, p: Composite, s: NewtonState, run: Run) -> FactorHessian:
        f2 = p.rows
        if not s.setup_counted:
            s.n_passes, s.setup_counted = s.n_passes + reads_of_factor(p), True
        loss: Any = f2.loss
        curvature = np.asarray(loss.curvature(s.at.predictions, f2.y), dtype=np.float64)
        return hessian_by_factor(p, curvature, s.trust.damping)

    def observe(self, p: Composite, s: NewtonState, old: Any) -> None:
        """Learn nothing: the next Hessian is made anew."""


# ---------------------------------------------------------------- subproblem


@dataclass(frozen=True)
class FactorWarm:
    """Warm start of `FactorSplitting`."""

    rho: float | None = None
    """Penalty parameter of the splitting."""
    stretch: int = 1
    """Times the usual iterations."""
    D: Array | None = field(default=None, repr=False)
    """Weights of the rows in the Hessian that the last splitting was made of."""


@dataclass(frozen=True)
class FactorSplitting:
    """Over-relaxed ADMM with exact solves through the factor, then F itself in the clusters.

    The splitting makes 20 iterations, enough to change what is fused. After a step that has left
    more than 0.3 of the gap it makes twice as many as before, at most 8 times 20.
    """

    plan: Plan
    """For F in the clusters where one compiled call does not take it."""

    def first_warm(self) -> FactorWarm:
        return FactorWarm()

    def minimize(self, p: Composite, s: NewtonState, H: FactorHessian, run: Run) -> Candidate:
        structure, form = H.rows.structure, p.form
        z, mu, rho = structure.S @ s.at.x - np.where(form.mask, form.offset, 0.0), s.mu, s.warm.rho
        if s.n_steps == 0:
            mu = form.project(mu)
            rho = rho or _first_rho(H, z, mu, s)
            s.warm = replace(s.warm, rho=rho)
            # What is fused at a given point may still be, and where its multiplier is given zero
            # may be the solution: both are looked at before anything else.
            if (structure.S @ s.at.x).any():
                found = self._in_clusters(p, s, s.at.x, z, mu, run)
                if found is not None:
                    return found
            elif mu.any():
                return Candidate(s.at.x, mu, 0.0, is_structured=not s.at.x.any())
        elif s.trust.gap_ratio >= 0.3:
            s.warm = replace(s.warm, stretch=min(2 * s.warm.stretch, 8))
        else:
            s.warm = replace(s.warm, stretch=1)
        near, z, mu = self._split(p, s, H, z, mu, run)
        found = self._in_clusters(p, s, near, z, mu, run)
        if found is not None:
            return found
        return Candidate(near, mu, p.predicted_decrease(s.objective, s.at, H, near))

    def _split(
        self, p: Composite, s: NewtonState, H: FactorHessian, z: Array, mu: Array, run: Run
    ) -> tuple[Array, Array, Array]:
        """Return (x, z, mu) after some iterations of ADMM.

        min <g - H w, x> + 1/2 <x, H x> + h(z)  subject to  S x - o = z
        """
        warm, structure, prox = s.warm, H.rows.structure, penalties(p).prox
        S, St, shift, sigma = structure.S, structure.St, structure.shift, structure.sigma
        root, o = np.sqrt(sigma), np.where(p.form.mask, p.form.offset, 0.0)
        # The square matrix of many rows is the dearest part, and only shapes the way: it is made
        # again where steps bring little and second derivatives have changed by a tenth.
        D = H.D
        if warm.D is not None and H.rows.K is None:
            change = float(np.abs(D - warm.D).sum())
            D = warm.D if warm.stretch == 1 or change <= 0.1 * float(warm.D.sum()) else D
        s.n_passes += 0.0 if D is warm.D else 1.0
        H, rho = p.workspace.latest(FactorHessian, H.rows, D, D), warm.rho
        system = p.workspace.latest(FactorHessian.system, H, rho)
        linear = s.at.predictions if H.rows.f2.offset is None else H.linear(s.at.x)
        slope = s.at.gradient - H.product(s.at.x, linear)
        x = free = s.at.x
        scaled = mu / (rho * sigma)
        n_inner = 20 * warm.stretch
        for k in range(1, n_inner + 1):
            right = rho * (St @ (sigma * (z + o - scaled))) - slope
            if shift is not None:
                right += rho * shift * free
            x = system(right)
            image, before = S @ x - o, z
            relaxed = 1.6 * image - 0.6 * before + scaled
            z = prox(relaxed, rho)
            scaled = relaxed - z
            if shift is not None:
                free = 1.6 * x - 0.6 * free
            if k % 6 and k < n_inner:
                continue
            mu = rho * sigma * scaled
            if k == n_inner or run.deadline.passed():
                break
            # balance the relative residuals; changes below two times are not worth a new system
            size = max(_norm(root * image), _norm(root * z), 1e-300)
            primal = _norm(root * (image - z)) / size
            change = rho * _norm(St @ (sigma * (z - before)))
            dual = change / max(_norm(St @ mu), 1e-300)
            ratio = float(np.clip(np.sqrt(primal / dual), 0.2, 5.0)) if dual > 0 else 1.0
            if primal > 0 and not 0.5 < ratio < 2.0:
                rho *= ratio
                del system  # one factor at a time
                system = p.workspace.latest(FactorHessian.system, H, rho)
            scaled = mu / (rho * sigma)
        s.warm = replace(warm, rho=rho, D=D)
        return x, z, mu

    def _in_clusters(
        self, p: Composite, s: NewtonState, near: Array, z: Array, mu: Array, run: Run
    ) -> Candidate | None:
        """Return the minimizer in the clusters of z, None where that is no progress.

        Where its clusters alone do not lower F, they are cut by those of the present point, from
        which F can only fall. Once the gap stays, a point that rounding cannot tell from the
        present one is taken too: F feels an error to the second order, a bound to the first.
        """
        form, S = p.form, factored(p).structure.S
        if form.offset.any():
            return None
        zero = _zeros(form, z)
        tol = max(1e-4 * (run.target or 1e-6), 1e-13)
        for cut in (False, True):
            if cut:
                here = np.abs(S @ s.at.x) <= 1e-14 * np.abs(s.at.x).max(initial=0.0)
                if here[zero].all():
                    return None  # the same clusters again
                zero = zero & here
            clusters = clusters_of(S, zero)
            # its matrices are dense; without clusters nothing would be saved
            if clusters.count > min(1000, 0.5 * S.shape[1]):
                return None
            few = restricted(p.rows, form, S, clusters)
            s.n_passes += 1.0
            begin = clusters.project(s.at.x if cut else near)
            v = few.minimize(begin, mu, self.plan, tol, run.deadline)
            decrease = s.objective - few.value(v)
            if decrease > (-1e-15 * abs(s.objective) if s.trust.n_idle else 0.0):
                return Candidate(np.asarray(clusters.P @ v), mu, decrease, is_structured=True)
        return None


def _first_rho(H: FactorHessian, z: Array, mu: Array, s: NewtonState) -> float:
    """Return the ratio of the data's curvature to the structure's along L^-1 times the gradient.

    From a given start it is the ratio of multiplier and structure.
    """
    root = np.sqrt(H.rows.structure.sigma)
    size, length = _norm(root * z), _norm(mu / root)
    if size > 0 and length > 0:
        return length / size
    direction = H.rows.structure.solve(-s.at.gradient)
    curved, derivative = H.quadratic(direction), float(-s.at.gradient @ direction)
    return curved / derivative if curved > 0 and derivative > 0 else 1.0


def _zeros(form: OneBlock, z: Array) -> Array:
    """Return the rows that their penalty holds at zero."""
    out = np.zeros(z.shape, dtype=bool)
    for part, rows in form.parts:
        own = z[rows]
        out[rows] = part.zeros(own) if offers(part, Has.ZEROS) else own == 0
    return out & form.mask


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))


# ---------------------------------------------------------------- dual point


@dataclass(frozen=True)
class ByFactor:
    """Derivatives at the new iterate, and a multiplier by reflections through the factor."""

    def of_model(
        self, p: Composite, s: NewtonState, H: FactorHessian, c: Candidate, run: Run
    ) -> tuple[Candidate, None]:
        return c, None

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        assert run.target is not None
        f2, structure, at = p.rows, factored(p).structure, s.at
        if structure.shift is not None:
            cleared = clear_free_directions(f2, at, free_directions(p), deadline=run.deadline)
            if cleared is None:
                return None
            at, s.n_passes = cleared[1], s.n_passes + 1.0
        wanted = run.target * p.gap_scale(s.objective, s.lower_bound)
        # Where the clusters are not yet the solution's, reflections gain less than thirty times.
        # A point that no longer moves has them: all the rest is the bound's to gain.
        hopeless = 30.0 if c.predicted > 0.1 * wanted else np.inf
        point, s.mu = bound_by_factor(
            f2,
            p.form,
            structure,
            penalties(p),
            at,
            c.mu,
            s.objective - 0.9 * wanted,  # the rest is for rounding
            hopeless,
            deadline=run.deadline,
            workspace=p.workspace,
        )
        return point


def free_directions(p: Composite) -> list[tuple[Any, Any]]:
    """Return the directions that no penalty sees, as sparse columns."""
    structure = factored(p).structure
    if structure.shift is None:
        return []
    free = p.workspace.rows.once(free_clusters, structure.S)
    return p.form.null_directions() if free is None else free


def where_nothing_is_penalized(p: Composite, run: Run) -> Begin | None:
    """Return the minimizer along the free directions, zero where there are none."""
    reads, free, x = reads_of_factor(p), free_directions(p), p.problem.zeros()
    if free:
        at = p.f.evaluate_exactly(x.x2)
        f2 = p.rows
        cleared = clear_free_directions(f2, at, free, deadline=run.deadline)
        reads += 1.0
        x = x if cleared is None else p.inside(cleared[0].x)[0]
    mu = np.zeros((p.S.shape[0], *x.x2.shape[1:]))
    return Begin(x, mu, n_passes=reads, setup_counted=True)


# ---------------------------------------------------------------- what it serves


def why_no_factor(problem: Problem, workspace: Workspace) -> str | None:
    """Return why a problem has no sparse factor that serves it, None if it has."""
    f2 = loss_of_rows(problem.f2, Has.CURVATURE)
    if f2 is None:
        return "the loss offers no curvature"
    if f2.n_outputs is not None:
        return "it has several outputs"
    n, d = f2.n_terms, f2.n_columns
    if n > FEW_ROWS and d > 6000:  # a square matrix of the columns serves more rows than that
        return f"{n} rows and {d} columns are too many for dense matrices"
    if problem.h1 is None and problem.h2 is None:
        return "no penalty"
    reason = why_no_form(problem, workspace)
    if reason is not None:
        return reason
    form = one_block(problem, workspace)
    if not form.mask.any():
        return "no penalty"
    # zero at the edge of the dual set: no factor leads back into it
    probe = np.random.default_rng(0).standard_normal(form.S.shape[0])
    for part, rows in form.parts:
        own = probe[rows]
        inside = part.project_dual(own) if offers(part, Has.PROJECT_DUAL) else own
        inside = np.where(inside == 0, 0.0, own)
        if any(dual_scale(part, sign * inside) == 0 for sign in (1, -1)):
            return "a penalty takes multipliers of one sign only"
    # half a GB, or ten times the data: sparse rows of a million columns would not fit
    needed = 8 * (2 * n * d + 3 * n * n if n <= FEW_ROWS else 2 * d * d)
    if needed > max(1 << 29, 10 * (f2.n_bytes + form.S.nnz * 12)):
        return f"dense matrices of its rows would take {needed / 2**30:.1f} GB"
    # up to 60 entries of S'S per column its factor is expected to be sparse; few long rows are a
    # correction of it where the others see every column
    is_long, structure = long_rows(form.S), form.structure
    if is_long.any():
        short = sparse.csr_array(
            form.S[
                np.flatnonzero(
                    ~is_long & (form.mask if form.mask.ndim == 1 else form.mask.any(axis=1))
                )
            ]
        )
        if np.unique(short.indices).size < f2.n_features:
            return "long rows of the structure alone hold some columns"
        structure = Structure(short)
    if not structure.has_sparse_gram(60):
        return "the structure's own matrix is not sparse"
    return None
