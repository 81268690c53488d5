"""Many columns, each held by a penalty of its own, in one compiled call.

Newton steps on a working set: the columns that are not zero and those that pull hardest. Its model
is minimized by coordinate descent until signs rest, and then exactly (Friedman, Hastie and
Tibshirani 2010; Massias, Gramfort and Salmon 2018 on sets that grow with the support).
`docs/design/small.md` says how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...forms.few_columns import ColumnLimits, column_form
from ...problem import Pair, Problem
from ...risk.evaluation import Evaluation
from .._base import Solver, register
from .small import SmallState


@register
@dataclass(frozen=True)
class FewColumns(Solver[SmallState]):
    """Solve a problem with an l1 norm on few of its columns at a time, in one compiled call.

    Parameters
    ----------
    limits : ColumnLimits
        Which problems are taken, and how many columns at a time.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> X = np.random.default_rng(0).standard_normal((50, 1000))
    >>> problem = sa.Problem.linear(sa.Squared(), X, X[:, 0] - X[:, 1], on_coefficients=sa.L1(0.1))
    >>> result = sa.minimize(problem, "few-columns", stop=sa.Gap(1e-9))
    >>> result.status.name, result.n_epochs, bool(result.info["columns"] < 500)
    ('CONVERGED', 1, True)
    """

    name: ClassVar[str] = "few-columns"
    has_kernel: ClassVar[bool] = True

    limits: ColumnLimits = ColumnLimits()  # noqa: RUF009 - frozen

    def why_not(self, problem: Problem, workspace: Workspace | None = None) -> str | None:
        """Return why columns are not held one by one, or too many."""
        return self.limits.why_not(problem, workspace or Workspace())

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SmallState:
        """Return the state before the first epoch."""
        return SmallState(
            x,
            x,
            lam,
            1.0,
            one_step=True,
            workspace=workspace,
        )

    def epoch(self, problem: Problem, state: SmallState, rng: np.random.Generator) -> None:
        """Solve from the point at hand."""
        form = state.workspace.once(column_form, problem, state.workspace)
        assert form is not None
        at, found = form.solve(state.x.x2, self.limits, state.deadline)
        dtype = problem.dtype
        x2, x1 = at.w.astype(dtype), state.x.x1
        if problem.constrained:
            x1 = problem.A2.matvec(x2)  # type: ignore[union-attr]
            state.dual = -at.gradient[form.columns].astype(dtype)
        state.x = state.output = Pair(x1, x2)
        state.cache = None
        if dtype == np.float64:
            state.cache = Evaluation(x2, found.value, at.gradient, at.z, at.u)
        if np.isfinite(found.bound):
            state.bound = found.bound if state.bound is None else max(state.bound, found.bound)
        state.settled = found.rests
        state.notes["columns"] = found.n_columns
        state.exact, state.unfinished = True, found.late
        state.n_epochs += 1
        state.n_passes += found.n_passes
        state.n_gradients += found.n_passes
