"""Lower bounds of a loss with a nuclear norm and a norm of entries, entry by entry.

For any U in the dual ball of the nuclear norm

    F >= min over W   loss(W) + <U, W> + b |W|_1

and what is lost by U is of second order in its distance from the best. The problem on the right
has a penalty of single entries: Newton steps whose models are minimized one coefficient after
the other solve it where rows are sparse, words with next to no curvature included. The derivatives
on the way are divided between the norms and scaled by what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array
from ..kernels.extension import available
from ..low_rank import CurvedLoss, DualOptions, Form, Point
from ..low_rank.dual import bound, split
from .form import NotEntrywise, TiltedEntries, entry_numbers
from .newton import CoordinateNewton
from .options import SearchOptions


@dataclass(frozen=True)
class EntrySearch:
    """The search for bounds of one problem."""

    loss: CurvedLoss
    form: Form
    strength: Array
    """Of every entry."""
    dual: DualOptions
    options: SearchOptions = field(default_factory=SearchOptions)

    @classmethod
    def of(cls, loss: CurvedLoss, form: Form, dual: DualOptions) -> EntrySearch | None:
        """Return the search, None where the other penalty is no norm of entries."""
        other: Any = form.others[0] if form.others else None
        size = form.rows.size, loss.outputs
        try:
            l1, l2, lo, hi = entry_numbers(other, *size)
        except NotEntrywise:
            return None
        bounded = l2.any() or np.isfinite(lo).any() or np.isfinite(hi).any()
        return None if bounded or not available() else cls(loss, form, l1, dual)

    def __call__(
        self,
        point: Point,
        start: Point | None,
        first: Array,
        needed: float,
        deadline: Deadline = NEVER,
    ) -> tuple[float, Point]:
        """Return a bound and where the search has ended.

        It goes on from where the last one ended, where that is lower, until the bound is at
        least what is needed, or the problem of this subgradient is lower than that.
        """
        o, entries = self.options, TiltedEntries(first, self.strength, self.form.free)
        run = CoordinateNewton(self.loss, entries, o.coordinates)
        at = [point] if start is None else [point, start]
        run.begin_at(min(at, key=lambda each: each.value + entries.value(each.W)))
        best = -np.inf
        for _ in range(o.steps):
            run.step()
            derivatives = run.point.derivatives
            parts = split(self.form, -run.point.gradient, first, o.rounds, deadline)
            best = max(best, bound(self.loss, run.point.V, derivatives, parts.scale, self.dual))
            if best >= needed or run.upper < needed or run.n_failed or deadline.passed():
                break
        return best, run.point
