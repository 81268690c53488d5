"""Quadratics whose matrix is too large to be made, only multiplied with.

Several coupled outputs, or thousands of columns: the steps of the splitting are then solved by
conjugate gradients, with a matrix for all outputs alike, or a diagonal, plus the structure as
preconditioner.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg, splu

from ..base.protocols import Array
from ..linear_algebra.dense import inverse
from ._parts import tall
from ._run import Run

SHARPER = 0.3
"""Each system is solved to this share of the residual that the splitting has left."""
FEW_STEPS, MOST_STEPS = 3, 48
"""Steps of conjugate gradients: at first, and where the systems turn out to need more."""


class ImplicitRun(Run):
    """A solution in progress with an operator in place of H."""

    most_steps = FEW_STEPS
    late = 0
    """Systems since the last change of the penalty that were left before they were accurate."""
    systems = 0

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

    def _step(self, precondition: Any, right: Array, left: Array) -> Array:
        S, St, penalty = self.model.S, self.model.St, self.penalty
        size, block = self.step.size, self.step.shape

        def system(v: Array) -> Array:
            x = v.reshape(block)
            pulled = penalty * (St @ (S @ x)) + self.ridge * x
            return cast(Array, (self._times(x) + pulled).ravel())

        def nearly(v: Array) -> Array:
            return cast(Array, precondition(v.reshape(block)).ravel())

        wanted = min(SHARPER * float(np.linalg.norm(left)), 1e-2 * float(np.linalg.norm(right)))
        found, info = cg(
            LinearOperator((size, size), matvec=system, dtype=np.float64),
            right.ravel(), self.step.ravel(), rtol=0.0, atol=wanted, maxiter=self.most_steps,
            M=LinearOperator((size, size), matvec=nearly, dtype=np.float64),
        )  # fmt: skip
        self.late += info > 0  # not as accurate as wanted
        self.systems += 1
        return cast(Array, found.reshape(block))

    def _balance(self) -> None:
        """Move the penalty as long as the residuals are the splitting's own."""
        was = self.penalty
        super()._balance()
        if 2 * self.late > self.systems:
            # a smaller penalty would only make the systems harder
            self.most_steps = min(2 * self.most_steps, MOST_STEPS)
            self.penalty = max(self.penalty, was)
        self.late = self.systems = 0
