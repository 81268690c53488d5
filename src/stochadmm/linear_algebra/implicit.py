"""Matrices that are only multiplied with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..base.protocols import Array


@dataclass(frozen=True)
class Implicit:
    """A positive semidefinite operator on (d,) or (d, C) arrays.

    Attributes
    ----------
    apply : callable
        The product with one array.
    metric : array of shape (d, d) or (d,)
        A matrix for all outputs alike that resembles it, or the diagonal of one.
    is_bound : bool
        Whether the metric is at least the operator.
    """

    apply: Callable[[Array], Array]
    metric: Array
    is_bound: bool = False

    def __matmul__(self, x: Array) -> Array:
        return self.apply(x)

    def __len__(self) -> int:
        return len(self.metric)

    def any(self) -> bool:
        """Say whether the operator is not zero."""
        return bool(self.metric.any())
