"""Stochastic average gradient ADMM (SAG-ADMM).

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b

L. W. Zhong, J. T. Kwok, "Fast Stochastic Alternating Direction Method of Multipliers", ICML 2014.

Code and paper: derivatives = the table of gradients (one number per row and output for linear
models), points = the table of x(i), where row i was seen last; mean_gradient, mean_point = their
means; curvature = L, beta = rho.

One step:

    x1+ = argmin h1 + <lam, A1 x1> + (beta / 2) |A1 x1 + A2 x2 - b|^2
    the rows of a batch are seen at x2: tables and means are brought up to date
    x2+ = argmin h2 + <mean gradient + A2'(lam + beta (A1 x1+ + A2 x2 - b)), x>
          + (L / 2) |x - center|^2 + (beta |A2|^2 / 2) |x - x2|^2
    lam+ = lam + beta (A1 x1+ + A2 x2+ - b)

In the form "points" the center is the mean point, as published: the step starts from a stale mean,
so the first tens of passes move little, and the table of points, n times the size of x2, cannot be
compressed. In the form "gradients", the default and what most codes run under this name, the
center is x2; it needs n numbers per output only. The expected objective gap and infeasibility of
the average of the published form are O(1 / K), linear under strong convexity; there is no proof
for the other form, whose default step keeps a factor of about four from those seen to diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from ...risk.gradients import Table
from ...risk.sampling import Runs
from .. import defaults
from .._base import PROXES, register
from ._stochastic import ReducedState, VarianceReduced, compiled_steps, reference_steps

FORMS = ("gradients", "points")


@dataclass
class SAGState(ReducedState):
    """State of SAG-ADMM: the tables and their means, made by the first epoch."""

    derivatives: Array | None = None
    mean_gradient: Array | None = None
    points: Array | None = None
    mean_point: Array | None = None


@register
@dataclass(frozen=True)
class SAGADMM(VarianceReduced[SAGState]):
    """SAG-ADMM: stochastic average gradient ADMM (Zhong and Kwok, 2014).

    Parameters
    ----------
    curvature : float or "auto"
        L in the x2 step; by default Lmax in the form "points", as in the paper, and
        Lf + 4 delta(b) Lmax in the form "gradients". Experiments often tune it.
        Lf and Lmax are Lipschitz constants of the gradient, of the mean loss and of the worst row;
        delta(b) is the variance factor of a mini-batch, 1 / b for single rows.
    form : {"gradients", "points"}
        Center of the x2 step: the present x2, or the mean of the stored points as published.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = X[:, :2].sum(axis=1) + 0.1 * rng.standard_normal(200)
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(5), on_structure=sa.L1(0.1)
    ... )
    >>> sa.minimize(problem, sa.solvers.SAGADMM(batch_size=10), stop=sa.Gap(1e-4)).coef.round(2)
    array([0.94, 0.94, 0.04, 0.04, 0.04])
    """

    name: ClassVar[str] = "sag-admm"
    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {
        "f2": (
            "evaluate",
            "predict",
            "derivative",
            "pull_back",
            "lipschitz_max",
            "lipschitz_mean",
        )
    }

    form: str = "gradients"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}, expected 'gradients' or 'points'")

    def loss_curvature(self, problem: Problem, runs: Runs, workspace: Workspace) -> float:
        """Return the default weight of the x2 step that is due to the loss."""
        if self.form == "points":
            return defaults.lipschitz_max(problem, workspace)
        mean = defaults.lipschitz_mean(problem, workspace)
        return mean + 4 * defaults.batch_curvature(problem, runs, workspace)

    def begin(self, p: Problem, x: Pair, lam: Array, workspace: Workspace) -> SAGState:
        """Return the state before the first epoch."""
        return SAGState(x, x, lam, **self.numbers(p, workspace))

    def epoch(self, problem: Problem, state: SAGState, rng: np.random.Generator) -> None:
        """Take ``n_inner`` steps; the first epoch begins with a pass that fills the tables."""
        p, s, runs = problem, state, self.runs(problem, state.workspace)
        self.prepare(p, s, rng)
        filled = s.derivatives is None
        table = self._table(p, s, runs)
        batches = runs.draw(rng, s.n_inner)
        total = p.zeros()
        if s.engine == "compiled":
            _compiled(p, s, table, batches, total)
        else:
            reference_steps(p, s, batches, table.estimate, s.curvature, total, table.mean_point)
        rows = s.n_inner * runs.batch_size / p.f2.n_terms
        self.conclude(p, s, s.x, total / s.n_inner, filled + rows, filled + rows)

    def _table(self, p: Problem, s: SAGState, runs: Runs) -> Table:
        if s.derivatives is None or s.mean_gradient is None:
            first = p.f2.evaluate(s.x.x2)  # type: ignore[attr-defined]
            # a copy, which does not keep the predictions
            s.derivatives, s.mean_gradient = first.derivative.copy(), first.gradient
            if self.form == "points":
                s.points = np.repeat(s.x.x2[None], p.f2.n_terms, axis=0)
                s.mean_point = s.x.x2.copy()
        return Table(p.f2, runs, s.derivatives, s.mean_gradient, s.points, s.mean_point)


def _compiled(
    p: Problem, s: SAGState, table: Table, batches: NDArray[np.int64], total: Pair
) -> None:
    """Run the steps compiled, which changes the tables in place."""
    from ...kernels import loops

    n = p.f2.n_terms
    points = None if table.points is None else table.points.reshape(n, -1)
    given = loops.Table(
        1 / n, s.curvature, table.derivatives, table.mean_gradient, points, table.mean_point
    )
    sample = loops.Sample(batches, table.runs.n_runs)
    loop = partial(loops.sag_admm, sample=sample, table=given)
    compiled_steps(p, s, loop, s.curvature, total, s.workspace)
