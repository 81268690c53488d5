"""Different penalties on consecutive segments of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..base.capabilities import Has, declared, offers
from ..base.immutable import as_float, set_field
from ..base.protocols import Array, Penalty, Shape
from ..base.terms import Term, compiled_terms
from ._base import Part, check_alpha


@dataclass(frozen=True, eq=False)
class Stacked(Part):
    """One penalty after the other, ``sum_k penalty_k(x[segment k])``.

    Pairs with `stochadmm.operators.VStack`. It offers what all its parts offer: a conjugate, for
    example, when all of them have one.

    Parameters
    ----------
    parts : sequence of (penalty, n_rows)
        Penalties with the numbers of rows they act on, from the first row to the last.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import L1, Ridge, Stacked
    >>> penalty = Stacked([(L1(1.0), 2), (Ridge(1.0), 1)])
    >>> penalty.prox(np.array([3.0, 0.5, 4.0]), 1.0)
    array([2., 0., 2.])
    >>> penalty.scaled(0.5)
    Stacked(parts=((L1(alpha=0.5, weights=None), 2), (Ridge(alpha=0.5, weights=None), 1)))
    """

    parts: Sequence[tuple[Penalty, int]]

    def __post_init__(self) -> None:
        parts = tuple((penalty, int(n_rows)) for penalty, n_rows in self.parts)
        if not parts:
            raise ValueError("Stacked needs at least one (penalty, n_rows) pair")
        for penalty, n_rows in parts:
            if not offers(penalty, Has.PROX):
                raise TypeError(f"Stacked needs penalties with value and prox, got {penalty!r}")
            if n_rows < 0:
                raise ValueError(f"Stacked needs non-negative numbers of rows, got {n_rows}")
        shared = frozenset(Has).intersection(*(declared(penalty) for penalty, _ in parts))
        known = shared - {Has.RESTRICTED, Has.VIOLATION, Has.UNFOLDED}
        known |= {Has.PROJECT, Has.ZEROS, Has.CHECK}
        set_field(self, "capabilities", known)
        self._place(parts)

    def _place(self, parts: tuple[tuple[Any, int], ...]) -> None:
        """Store parts, with the rows of those that have any."""
        edges = list(accumulate((n_rows for _, n_rows in parts), initial=0))
        rows = [
            (penalty, slice(a, b))
            for (penalty, _), (a, b) in zip(parts, pairwise(edges), strict=True)
            if b > a
        ]
        self.n_rows: int
        self._segments: list[tuple[Any, slice]]
        set_field(self, "parts", parts)
        set_field(self, "n_rows", edges[-1])
        set_field(self, "_segments", rows)

    def value(self, x: Array) -> float:
        """Return h(x) in float64."""
        x = self._checked(x)
        return float(sum(penalty.value(x[rows]) for penalty, rows in self._segments))

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + |u - v|^2 / (2 step)``.

        ``step`` is one positive number, or one per row where the parts allow it.
        """
        v = self._checked(v)
        out = np.empty_like(v) if out is None else out
        for penalty, rows in self._segments:
            own = step if np.ndim(step) == 0 else np.asarray(step)[rows]
            penalty.prox(v[rows], own, out=out[rows])
        return out

    def conjugate(self, u: Array) -> float:
        """Return the sum of the conjugates of the parts."""
        u = self._checked(u)
        return float(sum(penalty.conjugate(u[rows]) for penalty, rows in self._segments))

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``."""
        u = self._checked(u)
        scales = (penalty.dual_scale(u[rows]) for penalty, rows in self._segments)
        return min(scales, default=1.0)

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` where every part is below ``level``."""
        size = self._checked(size)
        return float(sum(penalty.reach(size[rows], level) for penalty, rows in self._segments))

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate."""
        u = self._checked(u)
        out = u.copy()
        for penalty, rows in self._segments:
            out[rows] = penalty.project_dual(u[rows])
        return out

    def project(self, x: Array) -> Array:
        """Return the nearest point of the domain; parts without a projection keep their rows."""
        x = self._checked(x)
        out = x.copy()
        for penalty, rows in self._segments:
            if offers(penalty, Has.PROJECT):
                out[rows] = penalty.project(x[rows])
        return out

    def zeros(self, x: Array) -> Array:
        """Return the entries set to zero by the prox; where a part cannot tell, the zero ones."""
        x = self._checked(x)
        out: Array = x == 0
        for penalty, rows in self._segments:
            if offers(penalty, Has.ZEROS):
                out[rows] = penalty.zeros(x[rows])
        return out

    def scaled(self, factor: float) -> Stacked:
        """Return the stack of the scaled parts."""
        check_alpha(factor, "factor")
        parts: list[tuple[Any, int]] = list(self.parts)
        scaled = tuple((penalty.scaled(factor), n_rows) for penalty, n_rows in parts)
        if any(type(a) is not type(b) for (a, _), (b, _) in zip(parts, scaled, strict=True)):
            return Stacked(scaled)
        other = copy(self)  # which offers the same
        other._place(scaled)
        return other

    def rescaled(self, scale: Array) -> Stacked:
        """Return ``v -> h(scale * v)``, one positive number per row."""
        parts: list[tuple[Any, int]] = list(self.parts)
        edges = np.cumsum([0, *(n_rows for _, n_rows in parts)])
        return Stacked(
            [
                (part.rescaled(scale[a : a + n]), n)
                for (part, n), a in zip(parts, edges[:-1], strict=True)
            ]
        )

    def check(self, shape: Shape) -> None:
        """Raise when the segments do not cover the rows, or a part does not fit its own."""
        if shape[0] != self.n_rows:
            raise ValueError(
                f"the segments of Stacked hold {self.n_rows} rows but the block has {shape[0]}"
            )
        for penalty, rows in self._segments:
            if offers(penalty, Has.CHECK):
                penalty.check((rows.stop - rows.start, *shape[1:]))

    def terms(self, n_rows: int) -> list[Term] | None:
        """Return the numbers for compiled loops; None when a part has none."""
        found: list[Term] = []
        for penalty, rows in self._segments:
            own = compiled_terms(penalty, rows.stop - rows.start)
            if own is None:
                return None
            found.extend(own)
        return found

    def _checked(self, x: Array) -> Array:
        x = as_float(x)
        if len(x) != self.n_rows:
            raise ValueError(f"Stacked holds {self.n_rows} rows, got an array of {len(x)}")
        return x


def segments(penalty: Any, n_rows: int) -> list[tuple[Any, slice]]:
    """Return the penalties of a stack, however deep, with their rows; empty ones are left out.

    Examples
    --------
    >>> from stochadmm.penalties import L1, Ridge, Stacked, segments
    >>> [rows for _, rows in segments(Stacked([(L1(1.0), 2), (Ridge(1.0), 1)]), 3)]
    [slice(0, 2, None), slice(2, 3, None)]
    """
    if not isinstance(penalty, Stacked):
        return [(penalty, slice(0, n_rows))] if n_rows else []
    found, start = [], 0
    for part, size in penalty.parts:
        for inner, rows in segments(part, size):
            found.append((inner, slice(start + rows.start, start + rows.stop)))
        start += size
    return found
