"""Quadratics whose matrix is too large to be made, only multiplied with.

Several coupled outputs, or thousands of columns: a step of the splitting is then one in a metric,
where that is above H, or is solved by conjugate gradients, with a matrix for all outputs alike, or
a diagonal, plus the structure as preconditioner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg, splu

from ..base.protocols import Array
from ..linear_algebra.implicit import Implicit
from .parts import shifted_inverse, tall
from .run import Run

if TYPE_CHECKING:
    from .model import QuadraticModel


class ImplicitRun(Run[Implicit]):
    """A solution in progress with an operator in place of H."""

    has_matrix = False

    def __init__(self, model: QuadraticModel, *given: Any) -> None:
        super().__init__(model, *given)
        self.most_steps = self.model.options.first_steps
        self.systems = self.late = 0
        """Systems since the last change of the penalty, and those left before they were right."""

    def diagonal(self) -> Array:
        """Return the diagonal of the metric."""
        return self.H.metric if self.H.metric.ndim == 1 else np.diag(self.H.metric)

    def times(self, step: Array) -> Array:
        """Return H times a step."""
        return tall(self.H.apply(step.reshape(self.model.shape)))

    def inverse(self) -> Any:
        """Return the preconditioner: the inverse of the metric plus the structure."""
        metric, workspace = self.H.metric, self.model.workspace
        if metric.ndim == 2:
            gram = self.model.gram()
            made = workspace.latest(shifted_inverse, metric, gram, self.penalty, self.ridge)
            return lambda v: made @ v
        gram = self.model.sparse_gram
        return workspace.latest(_sparse_solver, metric, gram, self.penalty, self.ridge)

    def solved(self, precondition: Any, right: Array, left: Array) -> Array:
        S, St, penalty = self.model.S, self.model.St, self.penalty
        size, block = self.step.size, self.step.shape

        def system(v: Array) -> Array:
            x = v.reshape(block)
            pulled = penalty * (St @ (S @ x)) + self.ridge * x
            return np.asarray((self.times(x) + pulled).ravel())

        def nearly(v: Array) -> Array:
            return np.asarray(precondition(v.reshape(block)).ravel())

        if self.H.is_bound:
            # Linearized ADMM: one step in the metric, which is above H, converges as well as the
            # solved system, at one product instead of four and more. In the products of classes,
            # thousands of rows each, lies nearly all the time.
            start = self.step.ravel()
            return np.asarray((start + nearly(right.ravel() - system(start))).reshape(block))
        sharper = self.model.options.sharper
        wanted = min(sharper * float(np.linalg.norm(left)), 1e-2 * float(np.linalg.norm(right)))
        found, info = cg(
            LinearOperator((size, size), matvec=system, dtype=np.float64),
            right.ravel(),
            self.step.ravel(),
            rtol=0.0,
            atol=wanted,
            maxiter=self.most_steps,
            M=LinearOperator((size, size), matvec=nearly, dtype=np.float64),
        )
        self.late += info > 0  # not as accurate as wanted
        self.systems += 1
        return np.asarray(found.reshape(block))

    def balance(self) -> None:
        """Move the penalty as long as the residuals are the splitting's own."""
        was = self.penalty
        super().balance()
        if 2 * self.late > self.systems:
            # a smaller penalty would only make the systems harder
            self.most_steps = min(2 * self.most_steps, self.model.options.most_steps)
            self.penalty = max(self.penalty, was)
        self.late = self.systems = 0


def _sparse_solver(metric: Array, gram: Any, penalty: float, ridge: float) -> Any:
    """Return the solution with ``diag(metric) + penalty S'S``, lifted by a ridge."""
    system = sparse.diags_array(metric + ridge) + penalty * gram
    if abs(system - sparse.diags_array(system.diagonal())).sum() == 0:
        diagonal = system.diagonal()[:, None]
        return lambda v: v / diagonal
    return splu(sparse.csc_array(system)).solve
