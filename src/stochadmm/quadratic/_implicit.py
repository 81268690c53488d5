"""Quadratics whose matrix is too large to be made, only multiplied with.

Several coupled outputs, or thousands of columns: the steps of the splitting are then solved by
conjugate gradients, with a matrix for all outputs alike, or a diagonal, plus the structure as
preconditioner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg, splu

from ..dense import inverse
from ..protocols import Array
from ._parts import tall, top
from ._run import RELAXATION, Run

SHARPER = 0.3
"""Each system is solved to this share of the residual that the splitting has left."""
MOST_STEPS = 3


@dataclass(frozen=True)
class Implicit:
    """A positive semidefinite operator on (d,) or (d, C) arrays.

    Attributes
    ----------
    apply : callable
        The product with one array.
    metric : array of shape (d, d) or (d,)
        A matrix for all outputs alike that resembles it, or the diagonal of one.
    """

    apply: Callable[[Array], Array]
    metric: Array

    def __matmul__(self, x: Array) -> Array:
        return self.apply(x)

    def any(self) -> bool:
        """Say whether the operator is not zero."""
        return bool(self.metric.any())


class ImplicitRun(Run):
    """A solution in progress with an operator in place of H."""

    def _times(self, step: Array) -> Array:
        return tall(self.H.apply(step.reshape(self.model.shape)))

    def inverse(self) -> Any:
        """Return the preconditioner: the inverse of the metric plus the structure."""
        metric: Array = self.H.metric
        if metric.ndim == 2:
            matrix = metric + self.penalty * self.model.gram
            matrix.flat[:: len(matrix) + 1] += self.ridge
            found = inverse(matrix)
            made = np.linalg.pinv(matrix, hermitian=True) if found is None else found
            return lambda v: made @ v
        system = sparse.diags_array(metric + self.ridge) + self.penalty * self.model.sparse_gram
        if abs(system - sparse.diags_array(system.diagonal())).sum() == 0:
            diagonal = system.diagonal()[:, None]
            return lambda v: v / diagonal
        return splu(sparse.csc_array(system)).solve

    def _python(self, precondition: Any, n_iter: int, tol: float) -> None:
        S, St, penalty = self.model.S, self.model.St, self.penalty
        shape, size = self.model.b.shape, self.step.size
        as_block = self.step.shape

        def system(v: Array) -> Array:
            block = v.reshape(as_block)
            pulled = St @ (S @ block) * penalty + self.ridge * block
            return cast(Array, (self._times(block) + pulled).ravel())

        A = LinearOperator((size, size), matvec=system, dtype=np.float64)
        M = LinearOperator(
            (size, size), matvec=lambda v: precondition(v.reshape(as_block)).ravel(),
            dtype=np.float64,
        )  # fmt: skip
        moved = np.inf
        for k in range(n_iter):
            pull = penalty * (self.image + self.shift) - self.dual
            right = (St @ pull - self.c).ravel()
            wanted = min(SHARPER * moved, 1e-2 * float(np.linalg.norm(right)))
            found, _ = cg(
                A, right, self.step.ravel(), rtol=0.0, atol=wanted, maxiter=MOST_STEPS, M=M
            )
            self.step = found.reshape(as_block)
            image = S @ self.step - self.shift
            exact = self.dual + penalty * (image - self.image)
            mixed = RELAXATION * image + (1 - RELAXATION) * self.image
            ahead = mixed + self.dual / penalty
            self.image = tall(self.model.h.prox(ahead.reshape(shape), 1 / penalty))
            self.dual = penalty * (ahead - self.image)
            moved = float(np.linalg.norm(St @ (self.dual - exact)))
            self.n_iter += 1
            if (k + 1) % 10 == 0 or k + 1 == n_iter:
                self.primal = top(image - self.image) / max(top(image), self.length)
                self._measure()
                if self.residual <= tol:
                    break
