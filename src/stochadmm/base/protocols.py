"""What the parts of a problem must offer, and what they may: any object with it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .terms import Term

Array = NDArray[Any]
"""A float32 or float64 array; labels and indices are integer arrays."""

Shape = tuple[int, ...]


@runtime_checkable
class Loss(Protocol):
    """Loss of predictions ``z`` against targets ``y``, row by row.

    Further members unlock more: those of `CompleteLoss`, and ``nonnegative``.
    """

    @property
    def curvature_bound(self) -> float:
        """Bound on the second derivative in ``z``; ``inf`` where there is none."""

    def value(self, z: Array, y: Array, weight: Array | None = None) -> float:
        """Return the weighted mean over the rows given; a row counts with its largest weight."""

    def derivative(self, z: Array, y: Array) -> Array:
        """Return the derivative in ``z``."""


@runtime_checkable
class Penalty(Protocol):
    """A convex function with a cheap prox.

    Further members unlock more: those of `CompletePenalty`.
    """

    def value(self, x: Array) -> float:
        """Return h(x), ``inf`` outside the domain."""

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + |u - v|^2 / (2 step)``."""


@runtime_checkable
class Operator(Protocol):
    """A linear map on the first axis, with SciPy's names.

    A further member unlocks more: ``tosparse``.
    """

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


class CompleteLoss(Loss, Protocol):
    """A loss with every optional member; `stochadmm.base.capabilities` tells which it has."""

    @property
    def kernel(self) -> tuple[str, float, float]:
        """Name and numbers for compiled loops."""

    def curvature(self, z: Array, y: Array) -> Array:
        """Return the diagonal of the Hessian in ``z``, row by row."""

    def curvature_apply(self, z: Array, y: Array, v: Array) -> Array:
        """Return the Hessian in ``z`` times ``v``, row by row."""

    def curvature_operator(self, z: Array, y: Array) -> Callable[[Array], Array]:
        """Return ``curvature_apply`` for many v at the same predictions."""

    def curvature_parts(self, z: Array, y: Array) -> tuple[Array, Array | None]:
        """Return (a, b) with Hessian ``diag(a) - b b'``, row by row; b is None when zero."""

    def conjugate(self, u: Array, y: Array) -> Array:
        """Return ``sup_z <u, z> - loss(z, y)``, row by row."""

    def largest_conjugate(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest conjugate over ``u - size <= v <= u + size``, row by row."""

    def dual_step_limit(self, u: Array, du: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, that keeps ``u + t du`` in the domain."""

    def dual_margin(self, u: Array, size: Array, y: Array) -> Array:
        """Return the largest t in [0, 1], row by row, with ``u +- t size`` in the domain."""

    def prox(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_z loss(z, y) + |z - v|^2 / (2 step)``, row by row."""

    def prox_conjugate(self, v: Array, step: Array | float, y: Array) -> Array:
        """Return ``argmin_u conjugate(u, y) + |u - v|^2 / (2 step)``, row by row."""

    def mean(self, z: Array) -> Array:
        """Return the prediction on the scale of the response."""

    def scored(self) -> Loss:
        """Return the loss that scores are made of, without what only helps to minimize it."""

    def check_targets(self, y: Array) -> Array:
        """Return ``y`` as the loss takes it, or say what is wrong with it."""

    def n_outputs(self, y: Array) -> int | None:
        """Return the number of predictions per row, None for one that is not in a row."""


class CompletePenalty(Penalty, Protocol):
    """A penalty with every optional member; `stochadmm.base.capabilities` tells which it has."""

    def conjugate(self, u: Array) -> float:
        """Return ``sup_x <u, x> - h(x)``, ``inf`` outside the domain."""

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``."""

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate."""

    def project(self, x: Array) -> Array:
        """Return the nearest point of the domain."""

    def zeros(self, x: Array) -> Array:
        """Return the entries that are zero and that the prox can hold at zero."""

    def scaled(self, factor: float) -> CompletePenalty:
        """Return the penalty times ``factor``."""

    def rescaled(self, scale: Array) -> CompletePenalty:
        """Return ``v -> h(scale * v)``, one positive number per row."""

    def check(self, shape: Shape) -> None:
        """Raise when the penalty does not fit a block of this shape."""

    def terms(self, n_rows: int) -> list[Term] | None:
        """Return the numbers for compiled loops."""

    def unfolded(self, n_rows: int) -> tuple[Any, CompletePenalty]:
        """Return (T, simple) with ``h(x) = simple(T x)``; see `forms.one_block.unfold`."""

    def restricted(self, rows: Array) -> CompletePenalty:
        """Return the penalty of some rows while all others are zero."""

    def violation(self, u: Array) -> Array:
        """Return how many times ``u``, minus a gradient, exceeds what holds each row at zero."""

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over all x with ``h(x) <= level``; ``size >= 0``."""

    def dual_off(self, u: Array) -> Array:
        """Return how far ``u`` is from the point whose conjugate is told, entry by entry."""


class CompleteOperator(Operator, Protocol):
    """An operator with a sparse form."""

    def tosparse(self) -> Any:
        """Return the operator as a CSR array in float64."""


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
