"""Penalties as plain numbers for compiled code: consecutive terms on the rows of a block.

A term says which of the slots that compiled loops read it fills, and has its prox there as a NumPy
twin. ``kind`` is the integer that names it in ``core/prox.hpp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .capabilities import Has, offers

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Slots:
    """The numbers of a term: per row or entry, of groups of consecutive rows, and one more."""

    l1: NDArray[Any]
    l2: NDArray[Any]
    lo: NDArray[Any]
    hi: NDArray[Any]
    groups: list[tuple[slice, float]]
    """Rows and weights."""
    number: float = 0.0


class Term:
    """What all terms share: slots that stay empty."""

    kind: ClassVar[int]
    separable: ClassVar[bool] = False
    """Whether the entries are penalized one by one."""
    by_groups: ClassVar[bool] = True
    """Whether rows, or groups of rows, are penalized one by one."""
    size: int
    """Number of rows covered."""

    def per_row(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return l1, l2, lower and upper bounds, one number per row or per entry."""
        n = self.size
        return np.zeros(n), np.zeros(n), np.full(n, -np.inf), np.full(n, np.inf)

    def groups(self) -> tuple[NDArray[np.int64], Floats]:
        """Return sizes and weights of groups of consecutive rows."""
        return np.zeros(0, np.int64), np.zeros(0)

    def number(self) -> float:
        """Return the one number."""
        return 0.0

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows."""
        raise NotImplementedError

    @property
    def bounded(self) -> bool:
        """Whether there is a bound at all."""
        return any(np.isfinite(bounds).any() for bounds in self.per_row()[2:])

    @staticmethod
    def prox(at: Slots, v: NDArray[Any], step: float) -> NDArray[Any]:
        """Return the prox at rows of shape (rows, outputs), from numbers in the slots."""
        raise NotImplementedError

    def flat(self, outputs: int) -> Term | None:
        """Return the same term of the entries of its rows, each a row; None if there is none."""
        return None

    def apart(self) -> tuple[Term, Term | None]:
        """Return the term without an l1 norm that it adds to groups, and that norm."""
        return self, None

    def of_output(self, output: int, outputs: int) -> Term:
        """Return the part of one column of its rows, where the columns do not share a norm."""
        if outputs > 1:
            raise ValueError(f"{type(self).__name__} joins the outputs of a row")
        return self


@dataclass(frozen=True)
class Elementwise(Term):
    """sum_j l1_j |x_j| + l2_j/2 x_j^2 + [lo_j <= x_j <= hi_j].

    Arrays of length ``size`` (one number per row, shared by the columns) or ``size * C`` (one per
    entry, row-major).
    """

    kind: ClassVar[int] = 0
    separable: ClassVar[bool] = True
    size: int
    l1: Floats
    l2: Floats
    lo: Floats
    hi: Floats

    def per_row(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return l1, l2, lower and upper bounds."""
        return self.l1, self.l2, self.lo, self.hi

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows, which lie within the bounds."""
        size = np.abs(x.ravel())
        repeat = size.size // max(self.l1.size, 1)
        l1, l2 = np.repeat(self.l1, repeat), np.repeat(self.l2, repeat)
        return float((size * (l1 + 0.5 * l2 * size)).sum())

    @staticmethod
    def prox(at: Slots, v: NDArray[Any], step: float) -> NDArray[Any]:
        """Soft-threshold, shrink, clip."""
        cut = step * at.l1
        soft = (v - np.clip(v, -cut, cut)) / (1 + step * at.l2)
        return np.asarray(np.clip(soft, at.lo, at.hi))

    def flat(self, outputs: int) -> Elementwise:
        """Return the same term of the entries."""
        wide = (n if n.size != self.size else np.repeat(n, outputs) for n in self.per_row())
        return Elementwise(self.size * outputs, *wide)

    def of_output(self, output: int, outputs: int) -> Elementwise:
        """Return the numbers of one column."""
        own = (n if n.size == self.size else n[output::outputs] for n in self.per_row())
        return Elementwise(self.size, *own)


@dataclass(frozen=True)
class GroupNorms(Term):
    """sum_g weight_g |x_g|_2 over consecutive groups of rows (all columns of a row together)."""

    kind: ClassVar[int] = 1
    sizes: NDArray[np.int64]
    weights: Floats

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of rows covered."""
        return int(self.sizes.sum())

    def groups(self) -> tuple[NDArray[np.int64], Floats]:
        """Return sizes and weights."""
        return self.sizes, self.weights

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows."""
        parts = np.split(x, np.cumsum(self.sizes)[:-1])
        return float(self.weights @ [np.linalg.norm(part) for part in parts])

    @staticmethod
    def prox(at: Slots, v: NDArray[Any], step: float) -> NDArray[Any]:
        """Shrink every group."""
        out = np.zeros_like(v)
        for rows, weight in at.groups:
            norm = float(np.sqrt(np.square(v[rows], dtype=np.float64).sum()))
            if norm > step * weight:
                out[rows] = (1 - step * weight / norm) * v[rows]
        return out

    def flat(self, outputs: int) -> GroupNorms:
        """Return the same norms over the entries."""
        return GroupNorms(self.sizes * outputs, self.weights)


@dataclass(frozen=True)
class TotalVariation(Term):
    """weight * sum_j |x_{j+1} - x_j| over consecutive rows, each column by itself."""

    kind: ClassVar[int] = 2
    by_groups: ClassVar[bool] = False
    size: int
    weight: float

    def number(self) -> float:
        """Return the weight."""
        return self.weight

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows."""
        return self.weight * float(np.abs(np.diff(x, axis=0)).sum())


@dataclass(frozen=True)
class SparseGroupNorms(Term):
    """sum_g weight_g |x_g|_2 + sum_j l1_j |x_j|_1, one number l1_j per row."""

    kind: ClassVar[int] = 3
    sizes: NDArray[np.int64]
    weights: Floats
    l1: Floats

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of rows covered."""
        return self.l1.size

    def groups(self) -> tuple[NDArray[np.int64], Floats]:
        """Return sizes and weights."""
        return self.sizes, self.weights

    def per_row(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the l1 norm, and nothing else per row."""
        return (self.l1, *super().per_row()[1:])

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows."""
        size = np.abs(x).reshape(len(x), -1).sum(axis=1)
        return GroupNorms(self.sizes, self.weights).value(x) + float(self.l1 @ size)

    @staticmethod
    def prox(at: Slots, v: NDArray[Any], step: float) -> NDArray[Any]:
        """Soft-threshold, then shrink every group."""
        return GroupNorms.prox(at, v - np.clip(v, -step * at.l1, step * at.l1), step)

    def flat(self, outputs: int) -> SparseGroupNorms:
        """Return the same norms over the entries."""
        wide = np.repeat(self.l1, outputs)
        return SparseGroupNorms(self.sizes * outputs, self.weights, wide)

    def apart(self) -> tuple[GroupNorms, Elementwise]:
        """Return the groups, and the l1 norm of the same rows."""
        return GroupNorms(self.sizes, self.weights), Elementwise(self.size, *self.per_row())


@dataclass(frozen=True)
class NuclearNorm(Term):
    """weight * (sum of the singular values) of a matrix; each of its rows is ``width`` rows."""

    kind: ClassVar[int] = 4
    by_groups: ClassVar[bool] = False
    size: int
    weight: float
    width: int = 1

    def groups(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the rows of the matrix; the weight is the one number."""
        count = self.size // self.width
        return np.full(count, self.width, np.int64), np.ones(count)

    def number(self) -> float:
        """Return the weight."""
        return self.weight

    def value(self, x: NDArray[Any]) -> float:
        """Return the value of the term at its rows."""
        matrix = x.reshape(self.size // self.width, -1).astype(np.float64)
        return self.weight * float(np.linalg.svd(matrix, compute_uv=False).sum())

    @staticmethod
    def prox(at: Slots, v: NDArray[Any], step: float) -> NDArray[Any]:
        """Soft-threshold the singular values."""
        matrix = v.reshape(max(len(at.groups), 1), -1).astype(np.float64)
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        kept = (left * np.maximum(values - step * at.number, 0.0)) @ right
        return np.asarray(kept.reshape(v.shape).astype(v.dtype))

    def flat(self, outputs: int) -> NuclearNorm:
        """Return the same norm of the matrix of the entries."""
        return NuclearNorm(self.size * outputs, self.weight, self.width * outputs)


KINDS: dict[int, type[Term]] = {
    cls.kind: cls
    for cls in (Elementwise, GroupNorms, TotalVariation, SparseGroupNorms, NuclearNorm)
}


def compiled_terms(penalty: Any, n_rows: int) -> list[Term] | None:
    """Return a penalty on this many rows as terms; None where compiled code does not know it."""
    return penalty.terms(n_rows) if offers(penalty, Has.TERMS) else None
