"""A smooth function of the first block as one more penalty: prox and conjugate by Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import linalg

from ..base.capabilities import Has, offers
from ..base.protocols import Array, Shape, Smooth


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
    quadratic: bool
    """Whether gradients elsewhere are those of a quadratic function with this Hessian: only then
    does the Hessian at zero tell which gradients there are."""

    LARGEST = 300
    NEGLIGIBLE = 1e-9
    ELSEWHERE = (0.1, 3.0, 100.0)
    """Sizes of points whose gradients are compared: near zero, around one, far out."""

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
        H = 0.5 * (H + H.T)
        values, vectors = linalg.eigh(H)
        values[values <= cls.NEGLIGIBLE * max(values.max(initial=0.0), 0.0)] = 0.0
        rng, same = np.random.default_rng(0), True
        for length in cls.ELSEWHERE:
            x = length * rng.standard_normal(size)
            found = np.ravel(f1.gradient(x.reshape(shape)))
            scale = np.abs(first) + np.abs(H) @ np.abs(x)
            same &= bool((np.abs(found - first - H @ x) <= 1e-7 * scale.max(initial=0.0)).all())
        return cls(values, vectors, first, same)

    @property
    def linear(self) -> bool:
        """Whether the function is linear."""
        return self.quadratic and not self.values.any()

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
        # a linear function has one gradient, and its maximizer does not tell a solution's size
        straight = self.curvature is not None and self.curvature.linear
        closed = self.ACCURATE if straight else self.CLOSED
        if not rest <= closed * (1.0 + float(np.linalg.norm(wide))):
            return np.inf
        gradient = wide + left
        charge = self.FARTHEST * rest * (1.0 + float(np.linalg.norm(x)))
        return float(np.vdot(gradient, x)) - self.value(x) + charge

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t u)``."""
        if np.isfinite(self.conjugate(u)):
            return 1.0
        if self.curvature is not None and self.curvature.quadratic:
            # outside a subspace no factor helps
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
        """Return the nearest gradient of a quadratic f1, else ``u``."""
        if self.curvature is None or not self.curvature.quadratic:
            return u
        return self.curvature.project(u).astype(u.dtype)

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
        if self.curvature is None or not self.curvature.quadratic or np.any(pull):
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
