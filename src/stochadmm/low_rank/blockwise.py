"""A multinomial loss of which nothing is kept per row and output: one read adds up a point.

    value, gradient, mean conjugate <u, z> - loss, mean curvature of the outputs, and one number
    per row, the trace of its curvature

Steps ask for no more than that. Products are made in float32 where a step allows for it, twice
as fast; ``exact`` reads a point again in float64, and only such numbers are published. A trial of
the line search is a read, so that an accepted one is the next point.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..data import CSR, cut
from ..risk import FiniteSum
from .curved import CurvedLoss, Line, Point, log_losses
from .form import Form


def is_block_by_block(f2: FiniteSum, form: Form, most_predictions: int) -> bool:
    """Say whether predictions are too many to keep, and a loss can be added up without them.

    That asks for labels instead of targets, dense rows and no free coefficients.
    """
    by_label = offers(f2.loss, Has.BY_CLASS) and f2.offset is None and f2.storage != CSR
    many = not f2.keeps_rows or f2.n_terms * (f2.n_outputs or 1) > most_predictions
    return many and by_label and not form.free.size


def _nothing() -> Array:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class BlockPoint(Point):
    """The loss at a point, without numbers of rows and outputs."""

    conjugate: float = 0.0
    """Mean conjugate of the derivatives."""
    rows: Array = field(default_factory=_nothing)
    """Trace of each row's curvature."""
    outputs: Array = field(default_factory=_nothing)
    """Mean curvature of the outputs."""
    is_exact: bool = False
    """Whether products were made in float64."""


class BlockLine(Line):
    """The loss along a line, read anew at every place."""

    def __init__(self, loss: BlockwiseLoss, single: bool) -> None:
        self.reader, self.single = loss, single

    def fitted(self, t: float, W: Array) -> tuple[float, Array]:
        """Read the loss at W; there are no free rows."""
        self.found = self.reader.read(W, self.single)
        return self.found.value, self.found.V

    def point(self) -> Point:
        """Return the point that was read last."""
        return self.found


class BlockwiseLoss(CurvedLoss):
    """The data term, added up block by block of rows."""

    keeps_rows: ClassVar[bool] = False

    def __init__(self, f2: FiniteSum, rows: Array, free: Array, numbers: int = 1 << 23) -> None:
        super().__init__(f2, rows, free)
        self.numbers = numbers
        """Numbers of the rows that are worked on together: enough that adding up their gradient
        costs little beside its product."""

    def at(self, W: Array, V: Array | None = None) -> Point:
        """Return the loss at W, in float64: a start is published too."""
        return self.read(self.representable(W), False)

    def towards(self, point: Point, direction: Array, single: bool) -> Line:
        """Return the loss along a line."""
        return BlockLine(self, single)

    def exact(self, point: Point) -> Point:
        """Return a point with products in float64: a read."""
        return point if added_up(point).is_exact else self.read(point.W, False)

    def representable(self, W: Array) -> Array:
        """Return coefficients in the type of the data: what is published is exact at these."""
        return W.astype(self.f2.dtype).astype(np.float64)

    def row_curvature(self, point: Point) -> Array:
        """Return the trace of the Hessian in each row's predictions."""
        return added_up(point).rows

    def output_curvature(self, point: Point) -> Array:
        """Return the mean Hessian in a row's predictions."""
        return added_up(point).outputs

    def read(self, W: Array, single: bool) -> BlockPoint:
        """Return the loss at W: one read, half of one at zero."""
        dtype: Any = np.float32 if single else np.float64
        own, C = W.astype(dtype), self.outputs
        zero = not own.any()
        self.reads += 0.5 if zero else 1.0
        value = conjugate = 0.0
        gradient, squares = np.zeros(W.shape), np.zeros((C, C))
        weight, rows = np.zeros(C), np.empty(self.n)
        labels: Any = self.labels
        for few in cut(0, self.n, max(256, self.numbers // len(W))):
            X = self.columns.some_rows(few, dtype)
            z = np.zeros((len(X), C), dtype) if zero else X @ own
            p, index = np.empty_like(z), (np.arange(len(X)), labels[few])
            losses = log_losses(z, labels[few], p).astype(np.float64)
            q = np.ones(len(X)) if self.weight is None else self.weight[few, 0]
            qp = p if self.weight is None else p * q[:, None].astype(dtype)
            weight += qp.sum(axis=0, dtype=np.float64)
            squares += qp.T @ p
            rows[few] = q * (1.0 - np.einsum("ij,ij->i", p, p))
            inner = np.einsum("ij,ij->i", p, z).astype(np.float64) - z[index]
            value += float(q @ losses)
            conjugate += float(q @ (inner - losses))
            qp[index] -= q.astype(dtype)
            gradient += X.T @ qp
        gradient /= self.n
        none = np.zeros((0, C))
        return BlockPoint(
            W,
            none,
            none,
            none,
            value / self.n,
            none,
            gradient,
            conjugate / self.n,
            rows,
            (np.diag(weight) - squares) / self.n,
            not single,
        )


def added_up(point: Point) -> BlockPoint:
    """Return a point of such a loss."""
    return cast(BlockPoint, point)
