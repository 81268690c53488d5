"""What the parts of a problem must offer. Structural: any object with these members works."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""A float32 or float64 array; labels and indices are integer arrays."""

Shape = tuple[int, ...]


@runtime_checkable
class Loss(Protocol):
    """Loss of predictions ``z`` against targets ``y``, row by row.

    Further members unlock more: ``curvature``, ``curvature_apply``, ``curvature_parts``,
    ``conjugate``, ``largest_conjugate``, ``dual_room``, ``dual_margin``, ``prox_conjugate``,
    ``mean``, ``check_targets``, ``n_outputs``, ``nonnegative``, ``kernel``.
    """

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative in ``z``; ``inf`` where there is none."""

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean over the rows given."""

    def slope(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""


@runtime_checkable
class Penalty(Protocol):
    """A convex function with a cheap prox.

    Further members unlock more: ``conjugate``, ``dual_scale``, ``project_dual``, ``project``,
    ``zeros``, ``scaled``, ``check``, ``terms``, ``restricted``, ``tension``, ``reach``,
    ``rescaled``.
    """

    def value(self, x: Array) -> float:
        """Return h(x), ``inf`` outside the domain."""

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + |u - v|^2 / (2 step)``."""


@runtime_checkable
class Operator(Protocol):
    """A linear map on the first axis, with SciPy's names."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def norm2(self) -> float:
        """An upper bound on the squared spectral norm."""

    def matvec(self, x: Array, out: Array | None = None) -> Array:
        """Return ``A x`` for ``x`` of shape (d,) or (d, C)."""

    def rmatvec(self, u: Array, out: Array | None = None) -> Array:
        """Return ``A' u`` for ``u`` of shape (q,) or (q, C)."""


@runtime_checkable
class Smooth(Protocol):
    """A smooth convex function of one block: ``f1``."""

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient."""

    def value(self, x: Array) -> float:
        """Return f(x)."""

    def gradient(self, x: Array) -> Array:
        """Return the gradient at x."""


@runtime_checkable
class SmoothSum(Protocol):
    """A mean of smooth convex terms: ``f2``."""

    @property
    def n_terms(self) -> int:
        """Number of terms n."""

    @property
    def shape(self) -> Shape:
        """Shape of the variable."""

    @property
    def lipschitz_max(self) -> float:
        """Lmax: the worst constant of a single term."""

    @property
    def lipschitz_mean(self) -> float:
        """Lf: the constant of the mean."""

    def value(self, x: Array) -> float:
        """Return the mean of the terms at x."""

    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean at x."""

    def gradient_change(self, rows: NDArray[np.intp], x: Array, anchor: Any) -> Array:
        """Return the mean over ``rows`` of ``grad(x) - grad(anchor)``."""
