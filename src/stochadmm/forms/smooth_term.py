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

    def terms(self, x: Array) -> Array:
        """Return the sums of sizes that the gradient of a quadratic function is made of."""
        H = (self.vectors * self.values) @ self.vectors.T
        return cast(Array, (np.abs(self.first) + np.abs(H) @ np.abs(x.ravel())).reshape(x.shape))

    def solve(self, right: Array, weight: Any) -> Array:
        """Return ``(H + weight)^-1 right``, the smallest where there are many."""
        flat = right.ravel()
        if np.ndim(weight):
            H = (self.vectors * self.values) @ self.vectors.T
            weights = np.broadcast_to(weight, right.shape).ravel()
            return cast(Array, linalg.solve(H + np.diag(weights), flat).reshape(right.shape))
        total = self.values + float(weight)
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
    function at once, and with Hessians from differences of gradients where these do not help. The
    conjugate at a gradient g of f1 at x is ``<g, x> - f1(x)`` by Fenchel's equality, whatever led
    to x; how far g is from the argument is told beside it.
    """

    f1: Smooth
    curvature: Curvature | None = None

    MAX_NEWTON, MAX_PRODUCTS, MAX_TRIALS = 20, 100, 20
    NEARBY, SOLVED = 1e-7, 1e-3
    """Relative length of differences of gradients; how accurately steps are solved for."""
    ACCURATE, ROUNDED = 1e-15, 1e3
    """Relative size of a gradient that counts as zero; times this where steps stop to help."""
    CLOSED = 1e-10
    """Relative difference of argument and gradient above which the conjugate counts as unknown."""
    UNITS = 64 * float(np.finfo(np.float64).eps)
    """Rounding of the gradient of a quadratic function relative to the sum of sizes."""

    def value(self, x: Array) -> float:
        """Return f1(x)."""
        return float(self.f1.value(np.asarray(x, dtype=np.float64)))

    def prox(self, v: Array, step: Any, out: Array | None = None) -> Array:
        """Return ``argmin_u f1(u) + sum_j (u_j - v_j)^2 / (2 step_j)``."""
        wide = np.asarray(v, dtype=np.float64)
        weight = 1.0 / np.asarray(step, dtype=np.float64)
        weight = weight[:, None] if weight.ndim == 1 and wide.ndim == 2 else weight
        found, _ = self._zero(wide, lambda u: weight * (u - wide), weight)
        made = found.astype(np.asarray(v).dtype, copy=False)
        if out is None:
            return made
        np.copyto(out, made)
        return out

    def conjugate(self, u: Array) -> float:
        """Return ``sup_x <v, x> - f1(x)`` at a gradient v near u, ``inf`` where none is found."""
        wide = np.asarray(u, dtype=np.float64)
        x, residual = self._maximizer(wide)
        rest = float(np.linalg.norm(residual))
        if not rest <= self.CLOSED * (1.0 + float(np.linalg.norm(wide))):
            return np.inf
        return float(np.vdot(wide + residual, x)) - self.value(x)

    def dual_off(self, u: Array) -> Array:
        """Return the sizes of ``v - u``; of a quadratic function only beyond rounding.

        There the curvature makes up for it: nothing else is known of points far away.
        """
        x, residual = self._maximizer(np.asarray(u, dtype=np.float64))
        off = np.abs(residual)
        if self.curvature is None or not self.curvature.quadratic:
            return off
        return np.where(off <= self.UNITS * (np.abs(u) + self.curvature.terms(x)), 0.0, off)

    def _maximizer(self, u: Array) -> tuple[Array, Array]:
        """Return x and ``grad f1(x) - u``, near zero where one is found."""
        return self._zero(np.zeros_like(u), lambda x: -u, 0.0)

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
        if not np.isfinite(self.conjugate(0.5**30 * u)):  # no factor worth having
            return 0.0
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

    def _zero(self, x: Array, other: Any, weight: Any) -> tuple[Array, Array]:
        """Return a zero of ``grad f1 + other`` and its residual."""
        own = np.asarray(self.f1.gradient(x))
        residual = own + other(x)
        terms = float(np.linalg.norm(own)) + float(np.linalg.norm(residual))
        aim = self.ACCURATE * (terms + float(np.max(weight)) * float(np.linalg.norm(x)) + 1e-300)
        size = float(np.linalg.norm(residual))
        for _ in range(self.MAX_NEWTON if self.curvature is not None else 0):
            if not size > aim:
                return x, residual
            candidate = x - cast(Curvature, self.curvature).solve(residual, weight)
            derivative = np.asarray(self.f1.gradient(candidate)) + other(candidate)
            now = float(np.linalg.norm(derivative))
            if not now <= 0.5 * size:
                break
            x, residual, size = candidate, derivative, now
        straight = self.curvature is not None and self.curvature.quadratic
        if (straight and size <= self.ROUNDED * aim) or self._leaves_nothing(residual, weight):
            return x, residual
        return self._descend(x, other, weight, aim)

    def _leaves_nothing(self, residual: Array, weight: Any) -> bool:
        """Say whether a quadratic function has no other gradient nearer to the one asked for."""
        if self.curvature is None or not self.curvature.quadratic or np.any(weight):
            return False
        live = self.curvature.vectors[:, self.curvature.values > 0]
        return bool(np.linalg.norm(live.T @ residual.ravel()) <= 1e-6 * np.linalg.norm(residual))

    def _descend(self, x: Array, other: Any, weight: Any, aim: float) -> tuple[Array, Array]:
        """Return a zero of ``grad f1 + other`` and its residual, by steps of Newton."""

        def derivative(x: Array) -> Array:
            return cast(Array, self.f1.gradient(x) + other(x))

        residual = derivative(x)
        best, least, size = x, residual, float(np.linalg.norm(residual))
        for _ in range(self.MAX_NEWTON):
            if not size > aim:
                break
            with np.errstate(all="ignore"):  # far out, where there is no zero
                x, residual = self._along(
                    derivative, x, residual, self._direction(x, residual, weight)
                )
                now = float(np.linalg.norm(residual))
            if now < size:
                best, least, size = x, residual, now
            elif size <= self.ROUNDED * aim or not np.isfinite(now):
                break
        return best, least

    def _direction(self, x: Array, residual: Array, weight: Any) -> Array:
        """Return ``-(H + weight)^-1 residual``, by conjugate gradients on gradients."""
        own = np.asarray(self.f1.gradient(x))
        near = self.NEARBY * (1.0 + float(np.linalg.norm(x)))
        found, residual = np.zeros_like(x), -residual
        direction, square = residual, float(np.vdot(residual, residual))
        wanted = self.SOLVED**2 * square
        for _ in range(min(self.MAX_PRODUCTS, x.size)):
            step = near / float(np.linalg.norm(direction))
            change = np.asarray(self.f1.gradient(x + step * direction)) - own
            product = change / step + weight * direction
            curvature = float(np.vdot(direction, product))
            if not curvature > 0:  # flat: as far as there is a derivative
                return found if found.any() else direction
            found = found + square / curvature * direction
            residual = residual - square / curvature * product
            before, square = square, float(np.vdot(residual, residual))
            if not square > wanted:
                break
            direction = residual + square / before * direction
        return found

    def _along(
        self, derivative: Any, x: Array, residual: Array, direction: Array
    ) -> tuple[Array, Array]:
        """Return a point farther on where most of the derivative is gone, and its residual."""
        first = abs(float(np.vdot(residual, direction)))
        low, high, t = 0.0, np.inf, 1.0
        point, found = x, residual
        for _ in range(self.MAX_TRIALS):
            point = x + t * direction
            found = derivative(point)
            now = float(np.vdot(found, direction))
            if not abs(now) > 0.5 * first:
                break
            low, high = (t, high) if now < 0 else (low, t)
            t = 4.0 * t if np.isinf(high) else 0.5 * (low + high)
        return point, found
