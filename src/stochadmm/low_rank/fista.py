"""Accelerated proximal gradient steps with restarts, for data whose passes are cheap.

    W+ = prox of the sum of the norms at Y - gradient(Y) / L,   Y = W + momentum (W - W before)

The prox of the sum is found by Dykstra's alternating projections from the last multipliers. L
follows the curvature met: raised where a step overshoots, lowered a little after every step.
Momentum starts anew where the objective rises or the step turns back (O'Donoghue and Candes 2015).
Predictions of Y are those of W combined, so that a step reads the data once. The derivatives at Y
are the dual point of the certificate, at no further read.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from .curved import Point
from .dual import Bounds, patient_split
from .svt import SingularValueThreshold


class Fista:
    """A run of accelerated steps; ``step`` advances it."""

    def __init__(self, bounds: Bounds, rounds: int = 100, accuracy: float = 1e-2) -> None:
        self.loss, self.form, self.bounds = bounds.loss, bounds.form, bounds
        self.rounds, self.accuracy = rounds, accuracy
        """Most projections of a prox of the sum, and the disagreement of its two sides relative to
        the step: a rough prox stops the acceleration near the end."""
        self.threshold = SingularValueThreshold()
        self.history: list[float] = []
        self.lower = -np.inf
        self.n_steps = self.next_try = 0
        self.slow_from: int | None = None
        """Steps after which the gain of a step had become small."""

    def begin(self, W: Array, V: Array | None, subgradients: list[Array]) -> None:
        """Start at W."""
        self.W, self.V = W, V
        self.base = self.loss.base(W)
        self.before, self.base_before = W, self.base
        self.momentum = 1.0
        self.subgradients = subgradients
        self.upper = np.inf
        self.L = 0.02 * self._largest_curvature()  # far below for most losses

    def copy(self) -> Fista:
        """Return a run that goes on by itself; arrays are never changed in place."""
        twin = copy(self)
        twin.history = list(self.history)
        return twin

    def _largest_curvature(self) -> float:
        """Return about the largest eigenvalue of the Hessian's bound, by a few power steps."""
        size = self.loss.columns.largest_gram_eigenvalue() / self.loss.n
        bound = float(self.loss.loss.curvature_bound)
        return size * (bound if np.isfinite(bound) else 1.0)

    @property
    def decrease(self) -> float:
        """Mean gain of the last steps, infinite while there are few."""
        k = 5
        if len(self.history) <= k:
            return np.inf
        return (self.history[-1 - k] - self.history[-1]) / k

    def step(self) -> None:
        """Make one step."""
        following = 0.5 * (1 + np.sqrt(1 + 4 * self.momentum**2))
        ratio = (self.momentum - 1) / following
        Y = self.W + ratio * (self.W - self.before)
        base = self.base + ratio * (self.base - self.base_before)
        V, z, value, u = self.loss.fit_free(base, self.V)
        gradient = self.loss.pull_back(u)
        self.n_steps += 1
        self.derivatives, self.gradient, self.z = u, gradient, z
        while True:
            W, subgradients = self._prox(Y - gradient / self.L)
            new_base = self.loss.base(W)
            V, _, smooth, _ = self.loss.fit_free(new_base, V)
            D = W - Y
            model = value + float(np.vdot(gradient, D)) + 0.5 * self.L * float(np.vdot(D, D))
            if smooth <= model + 1e-12 * abs(value):
                break
            self.L *= 1.5
        self.subgradients = subgradients
        upper = smooth + self.form.penalty(W)
        if upper > self.upper and self.momentum > 1:  # start again from the best point
            self.momentum, self.before, self.base_before = 1.0, self.W, self.base
            return
        turned = float(np.vdot(Y - W, W - self.W)) > 0
        self.before, self.base_before = self.W, self.base
        self.W, self.base, self.V = W, new_base, V
        self.momentum = 1.0 if turned else following
        self.upper = upper
        self.history.append(upper)
        self.L *= 0.97

    def _prox(self, target: Array) -> tuple[Array, list[Array]]:
        """Return the prox of the sum at a target and a subgradient of each norm."""
        L = self.L
        if not self.form.others:
            Z, _ = self.threshold(target, float(self.form.nuclear.alpha) / L)
            return Z, [L * (target - Z)]
        # a row that the other norm alone holds at zero is zero, and the nuclear norm asks nothing
        rows = self.form.beyond(L * target)
        first, second, Z = np.zeros_like(target), L * target, np.zeros_like(target)
        if rows.size:
            Z[rows], first[rows], second[rows] = self._prox_of_rows(target[rows], rows)
        return Z, [first, second]

    def _prox_of_rows(self, target: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Return the prox at some rows, and both subgradients, by alternating projections."""
        alpha, L = float(self.form.nuclear.alpha), self.L
        other: Any = self.form.others[0].restricted(rows)
        second, W = self.subgradients[1][rows], self.W[rows]
        for k in range(self.rounds):
            A = target - second / L
            low_rank, _ = self.threshold(A, alpha / L)
            first = L * (A - low_rank)
            B = target - first / L
            Z = other.prox(B, 1 / L)
            second = L * (B - Z)
            apart = float(np.linalg.norm(low_rank - Z))
            if k % 2 and apart <= self.accuracy * float(np.linalg.norm(Z - W)) + 1e-12:
                break
        return Z, first, second

    # ---------------------------------------------------------------- the certificate

    def goes_on(self, gain: float) -> bool:
        """Say whether steps are worth it: until they gain little, and three times as many more.

        By then the objective has arrived, the derivatives have not: they converge at half its
        speed.
        """
        if self.slow_from is None and self.decrease <= gain:
            self.slow_from = self.next_try = self.n_steps
        return self.slow_from is None or self.n_steps <= 3 * self.slow_from

    def certify(self, target: float, deadline: Deadline = NEVER) -> bool:
        """Look for a bound at growing intervals; say whether the gap is below the target."""
        if self.slow_from is None or self.n_steps < self.next_try:
            return self.upper - self.lower <= target
        self.next_try = self.n_steps + 1 + self.n_steps // 10
        found = patient_split(
            self.form,
            -self.gradient,
            self.subgradients[0],
            lambda parts: self.bounds(self.z, self.derivatives, -self.gradient, parts, self.upper),
            self.upper,
            target,
            deadline,
        )[1]
        self.lower = max(self.lower, found)
        return self.upper - self.lower <= target

    @property
    def point(self) -> Point:
        """The loss at the last point, with its gradient: half a read."""
        return self.loss.at_base(self.W, self.base, self.V)
