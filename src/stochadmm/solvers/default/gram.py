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
from typing import ClassVar

import numpy as np

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.validation import Unsuitable
from ...base.workspace import Workspace
from ...certificates import model_of
from ...forms.one_block import one_block
from ...problem import Pair, Problem
from ...risk import FiniteSum
from ...risk.parts import as_finite_sum
from ...second_order import (
    NEEDS,
    check_dense,
    check_one_block,
    full_hessian,
    is_quadratic,
    square_size,
)
from .._base import Solver, State, own_state, register, start_point
from .._steps import pass_size, sizes


@dataclass
class GramState(State):
    """State of the Gram path: the matrix, once it is made."""

    mu: Array = field(kw_only=True)
    """Multiplier of the stacked structure S."""
    gram: Array | None = field(default=None, repr=False)
    penalty: float | None = field(default=None)


@register
@dataclass(frozen=True)
class Gram(Solver[GramState]):
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
    needs_no_rows: ClassVar[bool] = True
    has_kernel: ClassVar[bool] = False
    needs: ClassVar[dict[str, tuple[str, ...]]] = {"f2": NEEDS}

    tol: float = 1e-11

    def check(self, problem: Problem) -> None:
        """Raise unless the loss is quadratic and x1 can be eliminated."""
        super().check(problem)
        if not is_quadratic(problem):
            raise Unsuitable("gram needs the quadratic loss Squared; use 'prox-newton'")
        check_one_block(problem, self.name)
        check_dense(problem, self.name)

    def memory(self, problem: Problem) -> int:
        """Return the bytes of the small problem's matrices, a pass and the blocks."""
        block1, block2, dual = sizes(problem)
        numbers = 2 * block1 + 3 * block2 + 2 * dual + pass_size(problem)
        return problem.dtype.itemsize * numbers + 8 * 8 * square_size(problem)

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> GramState:
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        form = one_block(problem, workspace)
        return GramState(
            x=point,
            output=point,
            dual=multiplier,
            beta=1.0,
            workspace=workspace,
            mu=form.from_multiplier(None if dual is None else multiplier, deadline=deadline),
        )

    def epoch(self, problem: Problem, state: State, rng: np.random.Generator) -> None:
        """Read the gradient, and at first the Gram matrix, and solve."""
        p, s, f2 = problem, own_state(state, GramState), as_finite_sum(problem.f2)
        at = f2.evaluate(s.x.x2)
        s.n_passes += 1
        if s.gram is None:
            s.n_passes += 0 if s.workspace.rows.holds(gram_matrix, f2) else 1
            s.gram = s.workspace.rows.once(gram_matrix, f2)
        form = one_block(p, s.workspace)
        found = model_of(form, s.workspace).minimize(
            s.gram,
            at.gradient.astype(np.float64),
            at.x.astype(np.float64),
            dual=s.mu,
            tol=self.tol,
            penalty=s.penalty,
            deadline=s.deadline,
        )
        s.penalty = found.penalty
        if np.isfinite(found.dual).all():  # bounds that nothing meets leave no multiplier
            s.mu = found.dual
        s.x = s.output = p.feasible(Pair(s.x.x1, found.w.astype(p.dtype)))
        s.dual = form.to_multiplier(s.mu).astype(p.dtype)
        s.beta = found.penalty / (form.scale1 or 1.0) ** 2
        s.n_epochs += 1
        s.n_gradients += 1


def gram_matrix(f2: FiniteSum) -> Array:
    """Return the Hessian of a quadratic loss, the same everywhere."""
    return full_hessian(f2, f2.predict(np.zeros(f2.shape, dtype=f2.dtype)))[0]
