"""Quadratic losses through the Gram matrix: the rows are read, then no longer needed.

    min over x2   f2(x2) + h1(A x2 - b) + h2(x2),      f2 quadratic,  A1 = -I, A2 = A

With Q = X'X / n (weights and the loss's factor included) and g the gradient at the start, f2 is
f2(x) + <g, w - x> + 1/2 <w - x, Q (w - x)> without error, so that one small problem, solved by
``stochadmm.quadratic``, is the whole problem. The cost is a gradient and one pass with n d^2
operations. Later epochs read the rows once more for an exact gradient and solve again: iterative
refinement, for float32 data and for the last digits. The minimizer is returned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import Solver, State, register, start_point
from .._steps import pass_size, sizes
from . import _newton


@dataclass
class GramState(State):
    """State of the Gram path: the matrix, once it is made."""

    gram: Array | None = field(default=None, repr=False)
    penalty: float | None = field(default=None)


@register
@dataclass(frozen=True)
class Gram(Solver):
    """Solve a problem with a quadratic loss from its Gram matrix.

    Parameters
    ----------
    tol : float, default=1e-11
        Relative accuracy of the small problem.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X, y = np.eye(4), np.array([3.0, 3.0, 0.0, -1.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.05)
    ... )
    >>> result = sa.minimize(problem, sa.Gram())
    >>> result.coef.round(6), result.n_epochs
    (array([ 2.9,  2.9,  0. , -0.8]), 1)
    """

    name: ClassVar[str] = "gram"
    has_kernel: ClassVar[bool] = False
    needs: ClassVar[dict[str, tuple[str, ...]]] = {"f2": _newton.NEEDS}

    tol: float = 1e-11

    def check(self, problem: Problem) -> None:
        """Raise unless the loss is quadratic and x1 can be eliminated."""
        super().check(problem)
        if not _newton.is_quadratic(problem):
            part = type(getattr(problem.f2, "loss", problem.f2)).__name__
            raise ValueError(
                f"gram needs a quadratic loss, Squared, and got {part}; use 'prox-newton'"
            )
        _newton.OneBlock.of(problem, self.name)
        _newton.check_dense(problem, self.name)

    def memory(self, problem: Problem) -> int:
        """Return the bytes of the small problem's matrices, a pass and the blocks."""
        block1, block2, dual = sizes(problem)
        numbers = 2 * block1 + 3 * block2 + 2 * dual + pass_size(problem)
        return problem.dtype.itemsize * numbers + 8 * 8 * _newton.square_size(problem)

    def start(
        self, problem: Problem, x: Pair | None = None, dual: Array | None = None,
        workspace: Workspace | None = None,
    ) -> GramState:  # fmt: skip
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        return GramState(
            x=point, output=point, dual=multiplier, beta=1.0,
            workspace=workspace or Workspace(),
        )  # fmt: skip

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Read the gradient, and at first the Gram matrix, and solve."""
        p, s, f2 = problem, cast(GramState, state), cast(Any, problem.f2)
        at = f2.evaluate(s.x.x2)
        s.n_passes += 1
        if s.gram is None and f2.kept is not None:
            s.gram = f2.kept.get("gram")
        if s.gram is None:
            s.gram, reads = _newton.hessian(f2, at.predictions)
            s.n_passes += reads
        if f2.kept is not None:
            f2.kept["gram"] = s.gram
        block = _newton.OneBlock.of(p, self.name)
        s.x, s.dual, s.penalty = block.minimize(
            p, s.gram, at.gradient, s.x, s.dual, self.tol, s.penalty
        )
        s.beta = s.penalty / block.scale**2
        s.output = s.x
        s.n_epochs += 1
        s.n_gradients += 1
