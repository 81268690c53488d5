"""Over-relaxed ADMM on the model of one Newton step.

    min  <X'(g - D m), w> + 1/2 <w, X'D X w> + h(z)     s.t.  S w - o = z

with g and D derivatives and curvatures of the rows at predictions m (weights and 1/n included).
Its penalty follows the ratio of the relative residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.serialize import CACHE
from ._pieces import Pieces
from ._rows import Model, Rows, System


@dataclass
class Splitting:
    """The iterates of the splitting; they outlive the model."""

    rows: Rows
    penalty: Pieces
    offset: Array
    z: Array = field(repr=False)
    mu: Array = field(repr=False)
    """Multiplier of ``S w - o = z``, in the dual set."""
    rho: float
    relaxation: float
    look: int
    """Iterations between two looks at the residuals."""
    last: tuple[Model, float, System] | None = field(default=None, repr=False, metadata=CACHE)

    def copy(self) -> Splitting:
        """Return a splitting with iterates of its own: they are replaced, never written to."""
        return replace(self)

    def run(
        self,
        model: Model,
        lin: Array,
        at: Array,
        iterations: int,
        *,
        deadline: Deadline = NEVER,
    ) -> Array:
        """Iterate from ``at``; return the last point.

        ``lin`` is ``X'(g - D m)``.
        """
        structure = self.rows.structure
        S, St, shift, sigma = structure.S, structure.St, structure.shift, structure.sigma
        system, a, o = self._system(model), self.relaxation, self.offset
        x = held = at
        scaled = self.mu / (self.rho * sigma)
        for k in range(1, iterations + 1):
            right = self.rho * (St @ (sigma * (self.z + o - scaled))) - lin
            if shift is not None:
                right += self.rho * shift * held
            x = system.solve(right)
            image, before = S @ x - o, self.z
            ahead = a * image + (1 - a) * before + scaled
            self.z = self.penalty.prox(ahead, self.rho)
            scaled = ahead - self.z
            if shift is not None:
                held = a * x + (1 - a) * held
            if k % self.look and k < iterations:
                continue
            self.mu = self.rho * sigma * scaled
            if k == iterations or deadline.passed():
                break
            system = self._balanced(system, model, image, before)
            scaled = self.mu / (self.rho * sigma)
        return x

    def _balanced(self, system: System, model: Model, image: Array, before: Array) -> System:
        """Return the system for a penalty that balances the residuals, the same if it does."""
        St, sigma = self.rows.structure.St, self.rows.structure.sigma
        root = np.sqrt(sigma)
        size = max(_norm(root * image), _norm(root * self.z), 1e-300)
        primal = _norm(root * (image - self.z)) / size
        change = self.rho * _norm(St @ (sigma * (self.z - before)))
        dual = change / max(_norm(St @ self.mu), 1e-300)
        if not (primal > 0 and dual > 0):
            return system
        ratio = float(np.clip(np.sqrt(primal / dual), 0.2, 5.0))
        if 0.5 < ratio < 2.0:
            return system
        self.rho *= ratio
        return self._system(model)

    def _system(self, model: Model) -> System:
        """Return the system of the present penalty, the last one where nothing has changed."""
        if self.last is None or self.last[0] is not model or self.last[1] != self.rho:
            self.last = None  # one factor at a time
            self.last = model, self.rho, model.at(self.rho)
        return self.last[2]


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))
