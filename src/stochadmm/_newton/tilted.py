"""Lower bounds of a loss with a nuclear norm and an l1 norm, from a problem without the former.

For any U in the dual ball of the nuclear norm

    F >= min over W   loss(W) + <U, W> + b |W|_1

and what is lost by U is of second order in its distance from the best. The problem on the right
has penalties of single entries: the loop by coordinates solves it where rows are sparse, words
with next to no curvature included. The derivatives on the way are divided between the norms and
scaled by what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..base.workspace import Workspace
from ..forms.by_entry import NotEntrywise, by_entry
from ..kernels.extension import available
from ..low_rank import Bounds, Point
from ..low_rank.dual import split
from ..operators import Identity, Selection
from ..problem import Pair, Problem
from ..risk import Evaluation, FiniteSum
from ..risk.lines import LENGTHS, Line, LineInMemory
from .composite import Composite
from .coordinates import COORDINATES
from .interfaces import Run
from .loop import start, step


class TiltedRows:
    """``f(W) + <U, W>``."""

    opening_passes = 0.0

    def __init__(self, f2: FiniteSum, U: Array) -> None:
        self.f2, self.U, self.n_terms = f2, U, f2.n_terms

    def tilted(self, at: Evaluation) -> Evaluation:
        """Return an evaluation of f with the linear term."""
        value = at.value + float(np.vdot(self.U, at.x))
        return replace(at, value=value, gradient=at.gradient + self.U)

    def evaluate_exactly(self, x: Array) -> Evaluation:
        return self.tilted(self.f2.evaluate_exactly(x))

    def along(self, at: Evaluation, x: Array) -> Line:
        return TiltedLine(self, self.f2.along(at, x))


@dataclass
class TiltedLine:
    """A line of f, with the linear term."""

    lengths: ClassVar[tuple[float, ...]] = LENGTHS
    takes_first: ClassVar[bool] = False
    rows: TiltedRows
    line: LineInMemory

    def point(self, t: float) -> Array:
        return self.line.point(t)

    def value(self, t: float) -> float:
        return self.line.value(t) + float(np.vdot(self.rows.U, self.line.point(t)))

    def evaluation(self, t: float, x: Array) -> Evaluation:
        return self.rows.tilted(self.line.evaluation(t, x))

    @property
    def n_passes(self) -> float:
        return self.line.n_passes


@dataclass(frozen=True)
class TiltedSearch:
    """The search for bounds of one problem."""

    bounds: Bounds
    composite: Composite
    """The problem without its nuclear norm."""
    strength: Array
    """Of the l1 norm of every entry."""

    @classmethod
    def of(cls, bounds: Bounds) -> TiltedSearch | None:
        """Return the search, None where the other penalty is no l1 norm of entries."""
        loss, form = bounds.loss, bounds.form
        if not form.others or not available():
            return None
        d, workspace = form.shape[0], Workspace()
        minus, chosen = Identity(form.rows.size, scale=-1.0), Selection([form.rows], d)
        problem = Problem(h1=form.others[0], f2=loss.f2, A1=minus, A2=chosen)
        try:
            found = by_entry(problem, workspace)
        except NotEntrywise:
            return None
        if found.l2.any() or np.isfinite(found.lo).any() or np.isfinite(found.hi).any():
            return None
        strength = np.zeros(form.shape)
        strength[found.rows] = found.l1
        return cls(bounds, Composite(problem, workspace), strength[form.rows])

    def __call__(
        self,
        point: Point,
        begin: Point | None,
        U: Array,
        needed: float,
        upper: float,
        deadline: Deadline = NEVER,
    ) -> tuple[float, Point]:
        """Return a bound and where the search has ended.

        It goes on from where the last one ended, where that is lower, until the bound is at
        least what is needed, or the problem of this U is lower than that.
        """
        loss, form = self.bounds.loss, self.bounds.form

        def objective(at: Point) -> float:
            return at.value + float(np.vdot(U, at.W) + np.vdot(self.strength, np.abs(at.W)))

        at = point if begin is None else min([point, begin], key=objective)
        tilt = np.zeros(form.shape)
        tilt[form.rows] = U
        p = self.composite.with_data(TiltedRows(loss.f2, tilt))
        run, zero = Run(np.random.default_rng(0), None, deadline), p.problem.zeros()
        x2 = np.zeros(form.shape)
        x2[form.rows], x2[form.free] = at.W, loss.columns.outer_free(at.V)
        s = start(p, COORDINATES, run, Pair(zero.x1, x2.astype(p.problem.dtype)))
        best = -np.inf
        for _ in range(6):  # each step costs about three of those that minimize
            step(p, s, COORDINATES, run)
            W, V = s.at.x[form.rows], loss.columns.inner_free(s.at.x[form.free])
            at = loss.at_base(W, s.at.predictions - loss.columns.free @ V, V)
            # 60 projections that divide what is left between the norms: as costly as the step
            parts = split(form, -at.gradient, U, 60, deadline)
            best = max(best, self.bounds(at.z, at.derivatives, -at.gradient, parts, upper))
            if best >= needed or s.objective < needed or s.trust.n_rejected or deadline.passed():
                break
        loss.reads += s.n_passes
        return best, at
