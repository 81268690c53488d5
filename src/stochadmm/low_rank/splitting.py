"""Consensus Douglas-Rachford for a quadratic plus several proximable penalties.

    minimize  1/2 <W, B W> - <q, W> + sum_k h_k(W),        k = 1 ... m

    Z_k = prox_{h_k / rho}(v_k)
    W   = (B + m rho)^-1 (q + rho sum_k (2 Z_k - v_k))
    v_k = v_k + 1.7 (W - Z_k)

``u_k = rho (v_k - Z_k)`` is a subgradient of h_k at Z_k after every prox: always dual feasible.
rho follows the ratio of the residuals at iterations 5, 10, 20, 40, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..base.protocols import Array
from ..forms.compiled import penalty_view
from ..kernels.extension import available
from ..kernels.low_rank import Consensus, consensus
from ..kernels.views import PenaltyView
from .eigenbasis import EigenQuadratic
from .form import Form

Prox = Callable[[Array, float], Array]


class Resolvent(Protocol):
    """A quadratic whose shifted inverse is cheap."""

    def solve(self, R: Array, shift: float) -> Array:
        """Return ``(B + shift)^-1 R``."""
        ...


@dataclass
class Splitting:
    """The state of the iteration; ``step`` advances it."""

    quadratic: Resolvent
    linear: Array
    proxes: Sequence[Prox]
    """``prox(v, step)`` of each penalty."""
    rho: float
    relaxation: float = 1.7
    """Longer steps than 1 save a third of the iterations; 2 is the limit of convergence."""
    W: Array = field(init=False)
    Z: list[Array] = field(init=False)
    v: list[Array] = field(init=False)
    n_steps: int = 0

    def __post_init__(self) -> None:
        self.first_rho, self.next_look = self.rho, 5

    def begin(
        self, W: Array, subgradients: Sequence[Array], Z: Sequence[Array] | None = None
    ) -> None:
        """Start at W, or at a prox point of each penalty, with one subgradient per penalty."""
        self.W = W
        points = [W] * len(subgradients) if Z is None else Z
        self.v = [at + u / self.rho for at, u in zip(points, subgradients, strict=True)]
        self._prox()
        self._solve()

    @property
    def subgradients(self) -> list[Array]:
        """A dual feasible point: a subgradient of each penalty at its Z."""
        return [self.rho * (v - Z) for v, Z in zip(self.v, self.Z, strict=True)]

    def step(self) -> None:
        """Advance by one iteration."""
        self.advance(1)

    def advance(self, steps: int, compiled: CompiledSteps | None = None) -> None:
        """Advance by some iterations, by compiled ones where they are given."""
        stop = self.n_steps + steps
        while self.n_steps < stop:
            now = max(1, min(stop, self.next_look) - self.n_steps)
            before = self._iterate(now) if compiled is None else compiled(self, now)
            self.n_steps += now
            if self.n_steps >= self.next_look:
                self.next_look *= 2
                self._adapt(before)

    def _iterate(self, steps: int) -> list[Array]:
        """Make some iterations; return the Z before the last."""
        relaxation = self.relaxation
        for _ in range(steps):
            before = self.Z
            self.v = [v + relaxation * (self.W - Z) for v, Z in zip(self.v, self.Z, strict=True)]
            self._prox()
            self._solve()
        return before

    def copy(self) -> Splitting:
        """Return a state that goes on by itself; arrays are never changed in place."""
        return copy(self)

    def residuals(self, before: list[Array]) -> tuple[float, float]:
        """Return the relative primal and dual residuals, given the Z of the iteration before."""
        size = _norm(self.Z)
        primal = _norm([self.W - Z for Z in self.Z]) / max(size, 1e-300)
        moved = self.rho * _norm([Z - B for Z, B in zip(self.Z, before, strict=True)])
        return primal, moved / max(_norm(self.subgradients), 1e-300)

    def apart(self) -> float:
        """Return how far the points are from each other, relative to their size.

        A step moves the state by this much.
        """
        size = float(np.abs(self.W).max(initial=0.0))
        most = max(float(np.abs(self.W - Z).max(initial=0.0)) for Z in self.Z)
        return most / size if size > 0 else most

    def _prox(self) -> None:
        self.Z = [prox(v, 1 / self.rho) for prox, v in zip(self.proxes, self.v, strict=True)]

    def _solve(self) -> None:
        total = self.linear / self.rho
        for v, Z in zip(self.v, self.Z, strict=True):
            total += 2 * Z
            total -= v
        total *= self.rho
        self.W = self.quadratic.solve(total, len(self.v) * self.rho)

    def _adapt(self, before: list[Array]) -> None:
        primal, dual = self.residuals(before)
        # residuals of a few iterations are noisy: at most ten times
        ratio = float(np.clip(np.sqrt(primal / dual) if dual > 0 else 10.0, 0.1, 10.0))
        if 1 / 1.5 < ratio < 1.5:  # not worth a new inverse
            return
        # residuals at zero say nothing: rho stays within bounds
        rho = float(np.clip(self.rho * ratio, 1e-3 * self.first_rho, 1e4 * self.first_rho))
        self.v = [Z + u / rho for Z, u in zip(self.Z, self.subgradients, strict=True)]
        self.rho = rho
        self._solve()


@dataclass(frozen=True)
class CompiledSteps:
    """Iterations of a quadratic of one matrix in one call; results differ by rounding only."""

    quadratic: EigenQuadratic
    alpha: float
    """Strength of the nuclear norm."""
    other: PenaltyView | None
    """The second penalty, where there is one."""

    def __call__(self, split: Splitting, steps: int) -> list[Array]:
        """Make some iterations; return the Z before the last."""
        W, Z, v = split.W.copy(), np.array(split.Z), np.array(split.v)
        before = np.empty_like(Z)
        inverse = self.quadratic.inverse(len(Z) * split.rho)[0]
        consensus(
            Consensus(
                self.other,
                inverse,
                split.linear,
                W,
                Z,
                v,
                before,
                self.alpha,
                split.rho,
                split.relaxation,
                steps,
            )
        )
        split.W, split.Z, split.v = W, list(Z), list(v)
        return list(before)


def compiled_steps(form: Form, quadratic: EigenQuadratic) -> CompiledSteps | None:
    """Return the iterations of a small problem as compiled ones, None where there are none."""
    p, C = quadratic.linear.shape
    # Jacobi's rotations up to a shorter side of 16 are sooner done than a call of LAPACK, and
    # products up to a longer side of 128 need no BLAS.
    small = min(p, C) <= 16 and max(p, C) <= 128
    if not available() or len(quadratic.matrices) > 1 or len(form.others) > 1 or not small:
        return None
    views = [penalty_view(h, p, C, np.dtype(np.float64)) for h in form.others]
    if any(view is None for view in views):
        return None
    return CompiledSteps(quadratic, float(form.nuclear.alpha), views[0] if views else None)


def _norm(arrays: Sequence[Array]) -> float:
    return float(np.sqrt(sum(float(np.vdot(a, a)) for a in arrays)))
