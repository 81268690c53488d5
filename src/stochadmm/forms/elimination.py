"""The two-block problem without its constraint.

Every pair with ``A1 x1 + A2 x2 = b`` is ``(x1; x2) = o + N c``, so that

    min over c   f2(o2 + N2 c) + h1(o1 + N1 c) + f1(o1 + N1 c) + h2(o2 + N2 c)

is the same problem in the form of a model: data ``X N2`` with the offset ``X o2``, structure
``[N1; N1; N2]``. What solves and certifies models then solves and certifies this. Where A1 can be
inverted c is x2 itself and the data stay as they are; otherwise the columns of N are an
orthonormal basis of the null space of ``[A1, A2]``.

A dual point of the model has subgradients mu1 of h1 + f1 and mu2 of h2 with
``N1' mu1 + N2' (grad f2 + mu2) = 0``. Then ``(mu1; grad f2 + mu2)`` is orthogonal to the null
space, which makes it ``-A' lambda`` for a multiplier lambda of the constraint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy import linalg, sparse

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape, Smooth
from ..base.workspace import Workspace
from ..linear_algebra.affine import as_sparse
from ..operators import Identity, Matrix, identity_scale
from ..penalties import Stacked
from ..problem import Pair, Problem
from ..risk import FiniteSum, loss_of_rows
from ..risk.parts import as_finite_sum


@dataclass(frozen=True)
class EliminationOptions:
    """When a constraint is eliminated, and how.

    Parameters
    ----------
    most_numbers : float
        Of the data in the coordinates of the null space, up to which they are made.
    inverse : int
        Side of a matrix A1 up to which it is inverted: a fraction of a second.
    condition : float
        Its condition up to which it is: ten digits of x1 are left.
    invisible : float
        Share of a unit step below which x2 does not move along a direction.
    """

    most_numbers: float = 5e7
    inverse: int = 1000
    condition: float = 1e6
    invisible: float = 1e-10


OPTIONS = EliminationOptions()


@dataclass(frozen=True)
class Elimination:
    """A problem without its constraint, and the way there and back.

    Attributes
    ----------
    problem, reduced : Problem
        The problem, and the same in the form of a model.
    origin, basis : array
        ``o`` and ``N``, the rows of x1 first.
    keeps_x2 : bool
        Whether c is x2.
    parts : tuple of str
        What the rows of the structure belong to: "h1", "f1", "h2".
    shared : Workspace
        Where the factorization of the constraint is.
    """

    problem: Problem
    reduced: Problem
    origin: Array
    basis: Any
    keeps_x2: bool
    parts: tuple[str, ...]
    shared: Workspace = field(repr=False)

    @classmethod
    def of(cls, problem: Problem, workspace: Workspace | None = None) -> Elimination | None:
        """Return the elimination of a constraint, made once per workspace.

        None where none is needed or it is too large.
        """
        if problem.is_model or loss_of_rows(problem.f2) is None:
            return None
        workspace = workspace or Workspace()
        return workspace.once(_eliminated, problem, workspace.shared)

    def __recipe__(self) -> tuple[Any, ...]:
        return (self.problem,)

    @classmethod
    def __made__(cls, problem: Problem, workspace: Workspace) -> Elimination | None:
        return cls.of(problem, workspace)

    # ---------------------------------------------------------------- points

    def up(self, c: Array) -> Pair:
        """Return the pair of given coordinates."""
        z = self.origin + self.basis @ np.asarray(c, dtype=np.float64)
        p = self.problem.shape1[0]
        return Pair(z[:p], np.asarray(c, dtype=np.float64) if self.keeps_x2 else z[p:])

    def down(self, x: Pair) -> Array:
        """Return the coordinates of a pair, of the nearest feasible one where it is not."""
        x2 = np.asarray(x.x2, dtype=np.float64)
        if self.keeps_x2:
            return x2
        z = np.concatenate([np.asarray(x.x1, dtype=np.float64), x2])
        return cast(Array, self.basis.T @ (z - self.origin))

    def pair(self, c: Array) -> Pair:
        """Return coordinates as a pair of the model."""
        return self.reduced.feasible(Pair(self.reduced.zeros().x1, np.asarray(c, np.float64)))

    # ---------------------------------------------------------------- multipliers

    def down_dual(self, x: Pair, dual: Array, gradient: Array | None) -> Array | None:
        """Return the multiplier of the model for one of the constraint at a pair.

        ``gradient`` is that of f2, needed where h2 is among the parts.
        """
        p = self.problem
        if not self.reduced.constrained or p.A1 is None or p.A2 is None:
            return None
        lam = np.asarray(dual, dtype=np.float64)
        first = -p.A1.rmatvec(lam)
        own: Any = 0.0
        if p.f1 is not None:
            own = np.asarray(p.f1.gradient(np.asarray(x.x1, dtype=np.float64)))
        found = {"h1": first - own, "f1": first if p.h1 is None else own}
        if "h2" in self.parts:
            found["h2"] = np.zeros(p.shape2) if gradient is None else -gradient - p.A2.rmatvec(lam)
        return np.concatenate([found[part] for part in self.parts])

    def up_dual(self, mu: Array, gradient: Array) -> Array:
        """Return the multiplier of the constraint; ``gradient`` is that of f2."""
        p = self.problem
        pull1, pull2 = np.zeros(p.shape1), np.asarray(gradient, dtype=np.float64)
        start = 0
        for part in self.parts:
            rows = slice(start, start + (p.shape2 if part == "h2" else p.shape1)[0])
            if part == "h2":
                pull2 = pull2 + mu[rows]
            else:
                pull1 = pull1 + mu[rows]
            start = rows.stop
        scale = identity_scale(p.A1)
        if scale is not None:
            return cast(Array, pull1 / -scale)
        if self.keeps_x2 and self.parts:
            return -self.basis_inverse.T @ pull1
        return p.affine_set(self.shared).multiplier(-np.concatenate([pull1, pull2]))

    @property
    def basis_inverse(self) -> Array:
        """The inverse of A1, where c is x2."""
        assert self.problem.A1 is not None
        return cast(Array, linalg.inv(self.problem.A1.matvec(np.eye(self.problem.shape1[0]))))


def _eliminated(problem: Problem, shared: Workspace) -> Elimination | None:
    inverse = _inverse(problem.A1)
    if inverse is not None:
        return _with_x2(problem, inverse, shared)
    return _with_null_space(problem, shared)


def _inverse(A1: Any) -> Any:
    """Return the inverse of A1 where it is a good one."""
    scale = identity_scale(A1)
    if scale is not None:
        return sparse.csr_array(sparse.eye_array(A1.shape[0]) / scale)
    if A1.shape[0] != A1.shape[1] or not 0 < A1.shape[0] <= OPTIONS.inverse:
        return None
    matrix = A1.matvec(np.eye(A1.shape[1]))
    if not np.linalg.cond(matrix) <= OPTIONS.condition:
        return None
    return linalg.inv(matrix)


def _with_x2(problem: Problem, inverse: Any, shared: Workspace) -> Elimination | None:
    """Express x1 by x2."""
    d, outputs = problem.shape2[0], problem.shape2[1:]
    A2 = as_sparse(problem.A2)
    if A2 is None:
        return None
    first = -(inverse @ A2)
    first = sparse.csr_array(first)
    right = np.zeros(problem.shape_dual) if problem.b is None else problem.b.astype(np.float64)
    origin1 = inverse @ right
    origin = np.concatenate([origin1, np.zeros((d, *outputs))])
    basis = sparse.csr_array(sparse.vstack([first, sparse.eye_array(d)]))
    stacked, parts = _first_parts(problem)
    if not parts:
        return Elimination(
            problem, Problem(problem.f2, h2=problem.h2), origin, basis, True, (), shared
        )
    structure = sparse.csr_array(sparse.vstack([first] * len(parts)))
    reduced = Problem(
        problem.f2, h1=_stack(stacked), h2=problem.h2,
        A1=Identity(structure.shape[0], scale=-1.0), A2=Matrix(structure),
        b=-np.concatenate([origin1] * len(parts)),
    )  # fmt: skip
    return Elimination(problem, reduced, origin, basis, True, parts, shared)


def _with_null_space(problem: Problem, shared: Workspace) -> Elimination | None:
    """Express both blocks by coordinates of the null space."""
    f2, affine = as_finite_sum(problem.f2), problem.affine_set(shared)
    p, d = problem.shape1[0], problem.shape2[0]
    basis = affine.basis
    if basis is None or f2.n_terms * basis.shape[1] > OPTIONS.most_numbers:
        return None
    stacked, parts = _first_parts(problem)
    if not parts:  # only x2 is seen: of the directions that move x1 alone none is kept
        _, values, turned = linalg.svd(basis[p:], full_matrices=False)
        basis = basis @ turned[values > OPTIONS.invisible].T
    if basis.shape[1] == 0:
        return None
    origin = affine.project(np.zeros((p + d, *problem.shape2[1:])))
    if problem.h2 is not None:
        stacked, parts = [*stacked, (problem.h2, d)], (*parts, "h2")
    data = _new_data(f2, basis[p:], origin[p:])
    if not parts:
        return Elimination(problem, Problem(data), origin, basis, False, (), shared)
    rows = {"h1": slice(0, p), "f1": slice(0, p), "h2": slice(p, p + d)}
    structure = np.concatenate([basis[rows[part]] for part in parts])
    shift = np.concatenate([origin[rows[part]] for part in parts])
    reduced = Problem(
        data, h1=_stack(stacked), A1=Identity(len(structure), scale=-1.0),
        A2=Matrix(structure), b=-shift,
    )  # fmt: skip
    return Elimination(problem, reduced, origin, basis, False, parts, shared)


def _first_parts(problem: Problem) -> tuple[list[tuple[Any, int]], tuple[str, ...]]:
    """Return the functions of x1 with their numbers of rows, and their names."""
    p, stacked, parts = problem.shape1[0], [], []
    if problem.h1 is not None:
        stacked.append((problem.h1, p))
        parts.append("h1")
    if problem.f1 is not None:
        stacked.append((as_penalty(problem.f1, problem.shape1), p))
        parts.append("f1")
    return stacked, tuple(parts)


def _stack(stacked: list[tuple[Any, int]]) -> Any:
    return stacked[0][0] if len(stacked) == 1 else Stacked(stacked)


def _new_data(f2: FiniteSum, basis2: Array, origin2: Array) -> FiniteSum:
    """Return the data term in coordinates: one product with the data, in float64."""
    at: Any = basis2[:-1] if f2.intercept else basis2
    X = np.concatenate([np.asarray(b.matvec(at), np.float64) for _, b in f2.rows.blocks()])
    if f2.intercept:
        X = X + basis2[-1]
    offset = f2.predict(origin2.astype(np.float64))
    return FiniteSum(f2.loss, X, f2.y, f2.weight, offset=offset if np.any(offset) else None)


# ---------------------------------------------------------------- f1 among the penalties


def as_penalty(f1: Any, shape: Shape) -> Any:
    """Return a smooth function with the members of a penalty, its own where it has them."""
    if offers(f1, Has.PROX) and offers(f1, Has.CONJUGATE):
        return f1
    return SmoothTerm(f1, Curvature.at_zero(f1, shape))


@dataclass(frozen=True)
class Curvature:
    """The Hessian of a smooth function at zero, from differences of its gradient."""

    values: Array
    vectors: Array
    first: Array
    """The gradient at zero."""

    LARGEST = 300
    NEGLIGIBLE = 1e-9

    @classmethod
    def at_zero(cls, f1: Smooth, shape: Shape) -> Curvature | None:
        """Return the Hessian of few variables, None of many."""
        size = math.prod(shape)
        if size > cls.LARGEST:
            return None
        first = np.asarray(f1.gradient(np.zeros(shape)), dtype=np.float64).ravel()
        units = np.eye(size)
        H = np.stack([np.ravel(f1.gradient(e.reshape(shape))) - first for e in units], axis=1)
        if not np.isfinite(H).all():
            return None
        values, vectors = linalg.eigh(0.5 * (H + H.T))
        values[values <= cls.NEGLIGIBLE * max(values.max(initial=0.0), 0.0)] = 0.0
        return cls(values, vectors, first)

    def solve(self, right: Array, pull: Any) -> Array:
        """Return ``(H + pull)^-1 right``, the smallest where there are many."""
        flat = right.ravel()
        if np.ndim(pull):
            H = (self.vectors * self.values) @ self.vectors.T
            weights = np.broadcast_to(pull, right.shape).ravel()
            return cast(Array, linalg.solve(H + np.diag(weights), flat).reshape(right.shape))
        total = self.values + float(pull)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        found = self.vectors @ (inverse * (self.vectors.T @ flat))
        return cast(Array, found.reshape(right.shape))

    def project(self, u: Array) -> Array:
        """Return the nearest gradient that a quadratic function with this Hessian has."""
        live = self.vectors[:, self.values > 0]
        flat = u.ravel() - self.first
        return cast(Array, (self.first + live @ (live.T @ flat)).reshape(u.shape))


@dataclass(frozen=True, eq=False)
class SmoothTerm:
    """A smooth convex function, known by value, gradient and Lipschitz constant, as a penalty.

    Prox and conjugate are minimized by steps with the Hessian at zero, which end a quadratic
    function at once, and by accelerated gradient steps where these do not help. The conjugate at a
    gradient g of f1 at x is ``<g, x> - f1(x)`` by Fenchel's equality, whatever led to x; what is
    left between g and the argument is charged.
    """

    f1: Smooth
    curvature: Curvature | None = None

    MAX_NEWTON, MAX_ITER = 20, 500
    ACCURATE, ROUNDED = 1e-15, 1e3
    """Relative size of a gradient that counts as zero; times this where steps stop to help."""
    CLOSED = 1e-10
    """Relative difference of argument and gradient above which the conjugate counts as unknown."""
    FARTHEST = 20.0
    """How many times longer than the maximizer at hand a solution is taken to be at most."""

    def value(self, x: Array) -> float:
        """Return f1(x)."""
        return float(self.f1.value(np.asarray(x, dtype=np.float64)))

    def prox(self, v: Array, step: Any, out: Array | None = None) -> Array:
        """Return ``argmin_u f1(u) + sum_j (u_j - v_j)^2 / (2 step_j)``."""
        wide = np.asarray(v, dtype=np.float64)
        pull = 1.0 / np.asarray(step, dtype=np.float64)
        pull = pull[:, None] if pull.ndim == 1 and wide.ndim == 2 else pull
        found, _ = self._zero(wide, lambda u: pull * (u - wide), pull)
        made = found.astype(np.asarray(v).dtype, copy=False)
        if out is None:
            return made
        np.copyto(out, made)
        return out

    def conjugate(self, u: Array) -> float:
        """Return ``sup_x <u, x> - f1(x)``, ``inf`` where no maximizer is found."""
        wide = np.asarray(u, dtype=np.float64)
        x, left = self._zero(np.zeros_like(wide), lambda x: -wide, 0.0)
        rest = float(np.linalg.norm(left))
        if not rest <= self.CLOSED * (1.0 + float(np.linalg.norm(wide))):
            return np.inf
        gradient = wide + left
        charge = self.FARTHEST * rest * (1.0 + float(np.linalg.norm(x)))
        return float(np.vdot(gradient, x)) - self.value(x) + charge

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t u)``."""
        if np.isfinite(self.conjugate(u)):
            return 1.0
        if self.curvature is not None:  # outside a subspace no factor helps
            off = float(np.linalg.norm(self.curvature.project(u) - u))
            if off > self.CLOSED * (1.0 + float(np.linalg.norm(u))):
                return 0.0
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            inside = np.isfinite(self.conjugate(middle * u))
            low, high = (middle, high) if inside else (low, middle)
        return low

    def project_dual(self, u: Array) -> Array:
        """Return the nearest gradient of f1 as far as its Hessian at zero tells, else ``u``."""
        return u if self.curvature is None else self.curvature.project(u).astype(u.dtype)

    def zeros(self, x: Array) -> Array:
        """Return nothing: a smooth function holds no entry at zero."""
        return np.zeros(np.shape(x), dtype=bool)

    def _zero(self, x: Array, other: Any, pull: Any) -> tuple[Array, Array]:
        """Return a zero of ``grad f1 + other`` and what is left of it."""
        own = np.asarray(self.f1.gradient(x))
        left = own + other(x)
        terms = float(np.linalg.norm(own)) + float(np.linalg.norm(left))
        aim = self.ACCURATE * (terms + float(np.max(pull)) * float(np.linalg.norm(x)) + 1e-300)
        size = float(np.linalg.norm(left))
        for _ in range(self.MAX_NEWTON if self.curvature is not None else 0):
            if not size > aim:
                return x, left
            ahead = x - cast(Curvature, self.curvature).solve(left, pull)
            slope = np.asarray(self.f1.gradient(ahead)) + other(ahead)
            now = float(np.linalg.norm(slope))
            if not now <= 0.5 * size:
                break
            x, left, size = ahead, slope, now
        if size <= self.ROUNDED * aim or self._leaves_nothing(left, pull):
            return x, left
        return self._descend(x, other, float(np.max(pull)), aim)

    def _leaves_nothing(self, left: Array, pull: Any) -> bool:
        """Say whether a quadratic function has no other gradient nearer to the one asked for."""
        if self.curvature is None or np.any(pull):
            return False
        live = self.curvature.vectors[:, self.curvature.values > 0]
        return bool(np.linalg.norm(live.T @ left.ravel()) <= 1e-6 * np.linalg.norm(left))

    def _descend(self, x: Array, other: Any, curvature: float, aim: float) -> tuple[Array, Array]:
        """Return a zero of ``grad f1 + other`` and what is left of it, by accelerated steps."""
        step = 1.0 / max(float(self.f1.lipschitz) + curvature, 1e-300)
        gradient = self.f1.gradient
        y, before, t = x, x, 1.0
        best, left = x, np.asarray(gradient(x)) + other(x)
        size = float(np.linalg.norm(left))
        for _ in range(self.MAX_ITER):
            if not size > aim:
                break
            x = y - step * (np.asarray(gradient(y)) + other(y))
            slope = np.asarray(gradient(x)) + other(x)
            now = float(np.linalg.norm(slope))
            if now < size:
                best, left, size = x, slope, now
            if float(np.vdot(slope, x - before)) > 0:  # the momentum leads uphill
                t = 1.0
            ahead = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            y, before, t = x + (t - 1.0) / ahead * (x - before), x, ahead
        return best, left
